package cache

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/fixture"
	"github.com/gpuscaler/gpuscaler/pkg/engine"
)

const exceeded = "exceeded quota: gpus, requested: requests.nvidia.com/gpu=1, used: requests.nvidia.com/gpu=4, " +
	"limited: requests.nvidia.com/gpu=4"

func rejectedDeployment(replicas int32, message string) *Target {
	d := fixture.Deployment("chat", replicas, "1")
	d.Status.Conditions = []appsv1.DeploymentCondition{
		{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue, Message: `pods "a" is forbidden: exceeded quota: other`},
		{Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Reason: "FailedCreate", Message: message},
	}
	return fixture.Must[*Target](TrimDeployment(d))
}

// A quota permits four of seven replicas. The view must name the quota until the Deployment no longer has the condition ReplicaFailure. A
// second attempt with another pod name must not change the view.
func TestReplicasThatAQuotaRejectsAreCountedAndExplained(t *testing.T) {
	c := New(0)
	chat := fixture.Workload("chat")
	c.PutTarget(rejectedDeployment(7, `pods "chat-5d8f-aaaaa" is forbidden: `+exceeded))
	for i := range 4 {
		c.PutPod(fixture.Must[*Pod](TrimPod(fixture.Pod("chat", i, "ready"))))
	}
	want := engine.Rejection{Kind: "ResourceQuota", Name: "gpus", Text: exceeded}
	v, _ := c.View(chat)
	if v.Rejected != 3 || v.Rejection != want {
		t.Fatalf("%d rejected by %+v, want 3 by %+v", v.Rejected, v.Rejection, want)
	}
	c.PutTarget(rejectedDeployment(7, `pods "chat-5d8f-bbbbb" is forbidden: `+exceeded))
	if again, _ := c.View(chat); again != v {
		t.Errorf("another attempt changed the view from %+v to %+v", v, again)
	}
	c.PutTarget(rejectedDeployment(4, `pods "chat-77b4-aaaaa" is forbidden: `+exceeded))
	if v, _ := c.View(chat); v.Rejected != 1 {
		t.Errorf("%d rejected, want 1: the additional pod of a rolling update", v.Rejected)
	}
	c.PutTarget(fixture.Must[*Target](TrimDeployment(fixture.Deployment("chat", 7, "1"))))
	if v, _ := c.View(chat); v.Rejected != 0 || v.Rejection != (engine.Rejection{}) {
		t.Errorf("%+v after the condition ended", v)
	}
}

func TestRejectionNamesTheAdmissionCheck(t *testing.T) {
	pod := `pods "chat-5d8f-aaaaa" is forbidden: `
	for message, want := range map[string]engine.Rejection{
		pod + exceeded: {Kind: "ResourceQuota", Name: "gpus"},
		pod + "failed quota: cpu: must specify limits.cpu for: vllm":                        {Kind: "ResourceQuota", Name: "cpu"},
		pod + "insufficient quota to match these scopes: [{PriorityClass In [gpu-high]}]":   {Kind: "ResourceQuota"},
		pod + "maximum cpu usage per Container is 2, but limit is 4":                        {Kind: "LimitRange"},
		pod + "[minimum memory usage per Pod is 1Gi.  No request is specified, and others]": {Kind: "LimitRange"},
		pod + "cpu max limit to request ratio per Container is 2, but provided ratio is 4":  {Kind: "LimitRange"},
		pod + `violates PodSecurity "restricted:latest": maximum effort`:                    {Kind: "admission"},
		`admission webhook "pods.example.com" denied the request: no label team`:            {Kind: "admission"},
		pod + "exceeded quota: g\x1b[2J\u202e, requested: x":                                {Kind: "ResourceQuota", Name: `g\u001b[2J\u202e`},
		"Internal error occurred: failed calling webhook: context deadline exceeded":        {},
		"etcdserver: request timed out":                                                     {},
		"":                                                                                  {},
	} {
		got := parseRejection(message)
		if got.Kind != want.Kind || got.Name != want.Name || (got.Kind != "") != (got.Text != "") || strings.Contains(got.Text, "chat-5d8f") {
			t.Errorf("%q: %+v, want %+v", message, got, want)
		}
		if strings.ContainsAny(got.Text+got.Name, "\x1b\u202e") {
			t.Errorf("%q: control characters in %q", message, got)
		}
	}
	if long := parseRejection(pod + strings.Repeat("x", 10_000)); len(long.Text) > maxForeignText+3 {
		t.Errorf("%d bytes", len(long.Text))
	}
}

func TestRejectionOfAKindWithScale(t *testing.T) {
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": map[string]any{"namespace": "team", "name": "chat"},
		"spec": map[string]any{"replicas": int64(3), "template": fixture.GPUTemplate("1")},
		"status": map[string]any{"conditions": []any{"not a condition", map[string]any{
			"type": "ReplicaFailure", "status": "True", "message": `pods "chat-x" is forbidden: ` + exceeded,
		}}},
	}}
	if got := fixture.Must[*Target](ScaleKind{}.Trim(u)).Rejection; got.Name != "gpus" {
		t.Errorf("%+v", got)
	}
}
