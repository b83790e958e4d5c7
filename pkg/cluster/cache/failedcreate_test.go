package cache

import (
	"fmt"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/fixture"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

var begin = time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)

func statefulSet(name string, replicas int32, uid types.UID) *Target {
	d := fixture.Deployment(name, replicas, "1")
	s := &appsv1.StatefulSet{ObjectMeta: d.ObjectMeta, Spec: appsv1.StatefulSetSpec{
		Replicas: d.Spec.Replicas, Selector: d.Spec.Selector, Template: d.Spec.Template,
	}}
	s.UID = uid
	return fixture.Must[*Target](TrimStatefulSet(s))
}

func createdAt(p *corev1.Pod, at time.Time) *Pod {
	p.CreationTimestamp = metav1.NewTime(at)
	return fixture.Must[*Pod](TrimPod(p))
}

func setWorkload(kind, apiVersion, name string) *scaling.Workload {
	w := fixture.Workload(name)
	w.Target = scaling.Target{APIVersion: apiVersion, Kind: kind, Name: name}
	return w
}

// A quota permits three of eight pods of a StatefulSet. The view must name the quota until the controller creates another pod, and again
// after the next failed attempt. After a scale-down to the number of existing pods, the view must not name the quota.
func TestQuotaOfAStatefulSetIsNamedUntilAPodIsCreated(t *testing.T) {
	c, w := New(0), setWorkload("StatefulSet", "apps/v1", "db")
	c.PutTarget(statefulSet("db", 8, "u1"))
	for i := range 3 {
		c.PutPod(createdAt(fixture.Pod("db", i, "ready"), begin))
	}
	if got, want := c.IncompleteStatefulSets(w), []StatefulSet{{"db", "u1"}}; !slices.Equal(got, want) {
		t.Fatalf("incomplete %v, want %v", got, want)
	}
	failed := func(pod int, at time.Time) {
		c.PutFailedCreate(w, FailedCreate{At: at, Message: fmt.Sprintf(
			`create Pod db-%d in StatefulSet db failed error: pods "db-%d" is forbidden: %s`, pod, pod, exceeded)})
	}
	expect := func(story string, rejected int32) {
		t.Helper()
		v, _ := c.View(w)
		c.RLock()
		defer c.RUnlock()
		if v.Rejected != rejected || (v.Rejection.Name == "gpus") != (rejected > 0) || c.RejectsPods(w) != (rejected > 0) {
			t.Errorf("%s: %d rejected by %+v, want %d", story, v.Rejected, v.Rejection, rejected)
		}
	}
	expect("no attempt has failed", 0)
	failed(3, begin) // the failed attempt and the creation of the last pod have timestamps of the same second
	expect("five pods are missing", 5)
	c.PutTarget(statefulSet("db", 6, "u1"))
	expect("the StatefulSet is smaller", 3)
	c.PutPod(createdAt(fixture.Pod("db", 3, "pending"), begin.Add(time.Minute)))
	expect("the quota was raised and a pod was created", 0)
	failed(4, begin.Add(2*time.Minute))
	expect("the next pod is rejected", 2)
	const timeout = "create Pod db-4 in StatefulSet db failed error: etcdserver: request timed out"
	c.PutFailedCreate(w, FailedCreate{At: begin.Add(3 * time.Minute), Message: timeout})
	expect("the last attempt was not rejected", 0)
	failed(4, begin.Add(4*time.Minute))
	c.PutTarget(statefulSet("db", 4, "u1"))
	expect("no pod is missing", 0)
	if sets := c.IncompleteStatefulSets(w); sets != nil {
		t.Errorf("Events are read although no pod is missing: %v", sets)
	}
	c.PutTarget(statefulSet("db", 9, "u1"))
	expect("the failure before the scale-down does not count", 0)
	failed(4, begin.Add(5*time.Minute))
	c.PutTarget(statefulSet("db", 9, "u2"))
	expect("another StatefulSet with the same name", 0)
}

// A LeaderWorkerSet with four pods per replica has three replicas: the first is complete, the second lacks a worker, and the third lacks
// all pods. Events must be read for two StatefulSets: the StatefulSet of the leaders, and the StatefulSet of the workers of the second
// replica.
func TestQuotaOfALeaderWorkerSetIsNamed(t *testing.T) {
	c, w := New(0), fixture.GroupWorkload("big")
	c.PutTarget(fixture.Must[*Target](TrimLeaderWorkerSet(fixture.LeaderWorkerSet("big", 3))))
	for _, set := range []StatefulSet{{"big", "leaders"}, {"big-0", "workers-0"}, {"big-1", "workers-1"}} {
		c.PutTarget(statefulSet(set.Name, 3, set.UID))
	}
	for i := range 7 {
		c.PutPod(createdAt(fixture.GroupPod("big", i/4, i%4, "ready"), begin))
	}
	if got, want := c.IncompleteStatefulSets(w), []StatefulSet{{"big", "leaders"}, {"big-1", "workers-1"}}; !slices.Equal(got, want) {
		t.Fatalf("incomplete %v, want %v", got, want)
	}
	c.PutFailedCreate(w, FailedCreate{At: begin.Add(time.Second),
		Message: `create Pod big-1-3 in StatefulSet big-1 failed error: pods "big-1-3" is forbidden: ` + exceeded})
	if v, _ := c.View(w); v.Rejected != 2 || v.Rejection.Name != "gpus" {
		t.Errorf("%d rejected by %+v, want 2 by the quota", v.Rejected, v.Rejection)
	}
}

// The status of a Deployment reports rejected pods, so its Events must not be read.
func TestEventsOfADeploymentAreNotRead(t *testing.T) {
	c := New(0)
	c.PutTarget(rejectedDeployment(7, ""))
	if sets := c.IncompleteStatefulSets(fixture.Workload("chat")); sets != nil {
		t.Errorf("incomplete StatefulSets %v", sets)
	}
}
