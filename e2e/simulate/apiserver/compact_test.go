package apiserver

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestCompactKeepsWhatWatchesNeed checks that Compact keeps the current version of each object and all changes that a watch has not
// delivered.
func TestCompactKeepsWhatWatchesNeed(t *testing.T) {
	a := New(func() time.Time { return time.Time{} })
	put := func(name string) { a.Put(KindPod, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}}) }
	put("a")
	put("b")
	put("a")
	delivered := len(a.Log)
	put("c")
	a.Remove(KindPod, "c")
	text := func() (all string) {
		for _, v := range a.Log {
			all += fmt.Sprintf(" %s/%s/%t", v.Name, v.Object.GetResourceVersion(), v.Deleted)
		}
		return all
	}
	if from := a.Compact(delivered); from != 2 || text() != " b/2/false a/3/false c/4/false c/4/true" {
		t.Errorf("index %d, log %s", from, text())
	}
	if from := a.Compact(len(a.Log)); from != 2 || text() != " b/2/false a/3/false" || a.Get(KindPod, "a") == nil {
		t.Errorf("index %d, log %s", from, text())
	}
}
