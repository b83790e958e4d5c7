package findings

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/cache"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/events"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/fixture"
)

// A quota rejects pods of a workload with a policy. The Reporter must send one Event with the quota, its limit and its use, and another
// Event when the use changes. It must send no Event when the ReplicaSet controller tries again with another pod name, and none for a
// workload without a policy.
func TestRejectedPodsAreReported(t *testing.T) {
	r, sent := newTestReporter(Options{}, *fixture.Workload("chat"))
	reject := func(name, pod, used string) {
		d := fixture.Deployment(name, 7, "1")
		d.Status.Conditions = []appsv1.DeploymentCondition{{
			Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Message: `pods "` + pod + `" is forbidden: exceeded quota: ` +
				"gpus, requested: requests.nvidia.com/gpu=1, used: requests.nvidia.com/gpu=" + used + ", limited: requests.nvidia.com/gpu=4",
		}}
		r.options.Cache.PutTarget(fixture.Must[*cache.Target](cache.TrimDeployment(d)))
	}
	reject("chat", "chat-1-aaaaa", "4")
	reject("without-a-policy", "other-1-aaaaa", "4")
	r.round(start)
	got := sent.take()
	if len(got) != 1 || got[0].reason != events.PodsRejected || got[0].about.Name != "chat" {
		t.Fatalf("Events %+v", got)
	}
	for _, part := range []string{"ResourceQuota gpus rejects pods of Deployment chat (policy team/chat)", "used: requests.nvidia.com/gpu=4",
		"limited: requests.nvidia.com/gpu=4", "kubectl -n team describe resourcequota gpus"} {
		if !strings.Contains(got[0].note, part) {
			t.Errorf("no %q in %q", part, got[0].note)
		}
	}
	reject("chat", "chat-1-bbbbb", "4")
	r.round(start.Add(10 * time.Second))
	if again := sent.take(); len(again) != 0 {
		t.Errorf("reported again for another attempt: %+v", again)
	}
	reject("chat", "chat-1-ccccc", "3")
	r.round(start.Add(20 * time.Second))
	if again := sent.take(); len(again) != 1 || !strings.Contains(again[0].note, "gpu=3,") {
		t.Errorf("another use: %+v", again)
	}
}
