package nodes

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/buffers"
)

// BufferTask returns the task for a buffer action of a group. If the workload was in the last Observe of the group, the task contains its
// scale target and an owner reference to it.
func (n *Cache) BufferTask(g *capacity.Group, a capacity.Buffer) buffers.Task {
	task := n.options.Buffers.NewTask(a)
	v := n.views[g]
	if v == nil {
		return task
	}
	w := n.options.Workloads
	w.RLock()
	defer w.RUnlock()
	for _, member := range v.members {
		if member.Key.String() != a.Workload {
			continue
		}
		task.For(member)
		if t, ok := w.NodeTarget(member); ok {
			task.Owner = &metav1.OwnerReference{APIVersion: t.APIVersion, Kind: task.Target.Kind, Name: task.Target.Name, UID: t.UID}
			task.LimitsOnly = t.LimitsOnly
		}
	}
	return task
}
