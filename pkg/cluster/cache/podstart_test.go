package cache

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/fixture"
	"github.com/gpuscaler/gpuscaler/pkg/scaling/planner"
)

var nine = time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)

// after returns the time at the given number of seconds after nine o'clock.
func after(seconds int) time.Time { return nine.Add(time.Duration(seconds) * time.Second) }

// began sets the times of a ready pod, which was created at nine o'clock. scheduled, running and ready are the ends of the phases of its
// start, in seconds after nine o'clock. The pod's sidecar started later than its model server and has restarted.
func began(p *corev1.Pod, scheduled, running, ready int) *corev1.Pod {
	p.CreationTimestamp = metav1.NewTime(nine)
	p.Status.Conditions = []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(after(scheduled))},
		{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(after(ready))},
	}
	p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "sidecar"})
	at := func(seconds int) corev1.ContainerState {
		return corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(after(seconds))}}
	}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "sidecar", RestartCount: 3, State: at(ready + 50)},
		{Name: "server", State: at(running)}}
	return p
}

// chat returns a cache with the Deployment chat. Karpenter launched its node after 5 s. The node joined the cluster after 35 s and reported
// its GPUs after 50 s. The starts of other nodes are unknown.
func chat() *Cache {
	c := New(0)
	c.SetNodeStarts(func(node string) NodeStart {
		if node != "node" {
			return NodeStart{}
		}
		return NodeStart{Launched: Stamp(after(5)), Registered: Stamp(after(35)), Allocatable: Stamp(after(50))}
	})
	c.PutTarget(fixture.Must[*Target](TrimDeployment(fixture.Deployment("chat", 2, "1"))))
	return c
}

func started(t *testing.T, c *Cache) *planner.ReplicaStarts {
	t.Helper()
	v, ok := c.View(fixture.Workload("chat"))
	if !ok {
		t.Fatal("no view")
	}
	return v.Started
}

func TestViewHasTheTimesOfCompletedStarts(t *testing.T) {
	c := chat()
	c.PutPod(fixture.Must[*Pod](TrimPod(fixture.GPUPod("chat", 1, "loading", "1"))))
	if s := started(t, c); s != nil {
		t.Errorf("starts of a pod that is not ready: %+v", s)
	}
	first := began(fixture.GPUPod("chat", 1, "ready", "1"), 51, 73, 104)
	c.PutPod(fixture.Must[*Pod](TrimPod(first)))
	want := planner.ReplicaStart{Created: Stamp(after(0)), Launched: Stamp(after(5)), Registered: Stamp(after(35)),
		Allocatable: Stamp(after(50)), Scheduled: Stamp(after(51)), Running: Stamp(after(73)), Ready: Stamp(after(104))}
	s := started(t, c)
	if s == nil || s.N != 1 || s.List[0] != want {
		t.Fatalf("%+v, want %+v", s, want)
	}
	c.PutPod(fixture.Must[*Pod](TrimPod(first)))
	if again := started(t, c); again != s {
		t.Error("an update that changes no time creates a new value")
	}
	elsewhere := began(fixture.GPUPod("chat", 2, "ready", "1"), 1, 4, 40)
	elsewhere.Spec.NodeName = "static"
	c.PutPod(fixture.Must[*Pod](TrimPod(elsewhere)))
	s = started(t, c)
	want = planner.ReplicaStart{Created: Stamp(after(0)), Scheduled: Stamp(after(1)), Running: Stamp(after(4)), Ready: Stamp(after(40))}
	if s.N != 2 || s.List[0] != want || s.List[1].Ready != Stamp(after(104)) {
		t.Errorf("a pod on a node without NodeClaim: %+v, want %+v first", s, want)
	}
	c.DropPod(fixture.Namespace, "chat-1")
	c.DropPod(fixture.Namespace, "chat-2")
	if s := started(t, c); s != nil {
		t.Errorf("no pod is left: %+v", s)
	}
}

// A restart of the server, a status that is not reported yet, and a pod without a creation time must not look like a fast start.
func TestTimesThatAreNotKnownAreZero(t *testing.T) {
	for name, change := range map[string]func(p *corev1.Pod){
		"the server has restarted":   func(p *corev1.Pod) { p.Status.ContainerStatuses[1].RestartCount = 1 },
		"the server does not run":    func(p *corev1.Pod) { p.Status.ContainerStatuses[1].State.Running = nil },
		"the statuses are not known": func(p *corev1.Pod) { p.Status.ContainerStatuses = nil },
		"one of two GPU containers":  func(p *corev1.Pod) { p.Spec.Containers = append(p.Spec.Containers, other(p)) },
		// if no container requests a GPU, the restart of the sidecar makes the time unknown
		"no container requests a GPU": func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Limits = nil },
	} {
		c, p := chat(), began(fixture.GPUPod("chat", 1, "ready", "1"), 51, 73, 104)
		change(p)
		c.PutPod(fixture.Must[*Pod](TrimPod(p)))
		if s := started(t, c); s == nil || s.List[0].Running != 0 || s.List[0].Scheduled == 0 || s.List[0].Ready == 0 {
			t.Errorf("%s: %+v, want the time of the containers to be unknown", name, s)
		}
	}
	c, p := chat(), began(fixture.GPUPod("chat", 1, "ready", "1"), 51, 73, 104)
	p.CreationTimestamp = metav1.Time{}
	c.PutPod(fixture.Must[*Pod](TrimPod(p)))
	if s := started(t, c); s != nil {
		t.Errorf("without a creation time: %+v", s)
	}
}

func other(p *corev1.Pod) corev1.Container {
	second := *p.Spec.Containers[0].DeepCopy()
	second.Name = "second"
	return second
}

// The start of a replica with four pods begins with the creation of its first pod. Each phase ends with the last pod that completes it.
func TestStartOfAReplicaWithSeveralPods(t *testing.T) {
	c := New(0)
	c.SetNodeStarts(func(node string) NodeStart {
		return map[string]NodeStart{"late": {Launched: 7}, "early": {Launched: 3}}[node]
	})
	c.PutTarget(fixture.Must[*Target](TrimLeaderWorkerSet(fixture.LeaderWorkerSet("big", 1))))
	for worker, scheduled := range []int{10, 20, 60, 30} {
		p := began(fixture.GroupPod("big", 0, worker, "ready"), scheduled, scheduled+5, scheduled+9)
		p.CreationTimestamp = metav1.NewTime(after(worker))
		p.Spec.NodeName = "early"
		if worker == 2 {
			p.Spec.NodeName = "late"
		}
		p.Spec.Containers = p.Spec.Containers[len(p.Spec.Containers)-1:]
		p.Status.ContainerStatuses[0].RestartCount, p.Status.ContainerStatuses[0].State = 0, p.Status.ContainerStatuses[1].State
		c.PutPod(fixture.Must[*Pod](TrimPod(p)))
		if v, _ := c.View(fixture.GroupWorkload("big")); (v.Started != nil) != (worker == 3) {
			t.Errorf("with %d of 4 pods: starts %+v", worker+1, v.Started)
		}
	}
	v, _ := c.View(fixture.GroupWorkload("big"))
	want := planner.ReplicaStart{Created: Stamp(after(0)), Launched: 7, Scheduled: Stamp(after(60)),
		Running: Stamp(after(65)), Ready: Stamp(after(69))}
	if v.Started == nil || v.Started.N != 1 || v.Started.List[0] != want {
		t.Errorf("%+v, want %+v", v.Started, want)
	}
}
