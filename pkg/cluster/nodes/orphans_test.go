package nodes

import (
	"iter"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/gpupods"
)

// annotatedPods is a cache of workloads. It returns pods in the given order. The pods belong to no workload and have the deletion cost that
// gpuscaler sets.
type annotatedPods struct {
	noWorkloads
	names []string
}

func (a annotatedPods) GPUPods() iter.Seq[Pod] {
	return func(yield func(Pod) bool) {
		for _, name := range a.names {
			if !yield(&annotatedPod{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name}}) {
				return
			}
		}
	}
}

type annotatedPod struct{ metav1.ObjectMeta }

func (*annotatedPod) NodeName() string       { return "" }
func (*annotatedPod) Ended() bool            { return false }
func (*annotatedPod) Ready() bool            { return true }
func (*annotatedPod) Loading() bool          { return false }
func (*annotatedPod) Daemon() bool           { return false }
func (*annotatedPod) BlocksDisruption() bool { return false }

func (*annotatedPod) ReplicaSize(string) int32 { return 0 }

func (*annotatedPod) GPU() *gpupods.Facts {
	return &gpupods.Facts{DeletionCost: capacity.Annotation{Value: "-10", Ours: true}}
}

// TestOrphanedAnnotationsAreRemovedInTheOrderOfNames checks that the order of the actions does not depend on the order in which the cache
// returns pods, which is random. Otherwise gpuscaler would write in different orders for the same observations.
func TestOrphanedAnnotationsAreRemovedInTheOrderOfNames(t *testing.T) {
	n := newCache(t, nil)
	n.options.Workloads = annotatedPods{names: []string{"chat-3", "chat-1", "chat-2"}}
	_, actions := n.Orphans(nil, nil)
	var names []string
	for _, action := range actions {
		names = append(names, action.(capacity.PodAnnotation).Name)
	}
	if want := []string{"chat-1", "chat-2", "chat-3"}; !slices.Equal(names, want) {
		t.Errorf("annotations are removed from %v, want %v", names, want)
	}
}
