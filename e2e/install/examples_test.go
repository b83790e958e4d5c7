package install

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscaler/gpuscaler/e2e/definitions"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
)

const clusterExamples = "../../config/examples/cluster"

// Users copy the examples, so the API server must accept each object, and each object must have the effect that its comment describes.
func TestClusterExamplesAreAcceptedAndWork(t *testing.T) {
	serve(t, "karpenter.sh", "nodepools")
	// The test creates the objects of the files in this order, because a file can need the objects of an earlier file.
	files := []string{"priorityclasses.yaml", "resourcequotas.yaml", "nodepools.yaml", "gpu-server.yaml"}
	all, err := filepath.Glob(clusterExamples + "/*.yaml")
	if err != nil || len(all) != len(files) {
		t.Fatalf("%d files, %d are tested (%v)", len(all), len(files), err)
	}
	kinds := map[string]int{}
	for _, name := range files {
		for _, o := range definitions.ReadAll[unstructured.Unstructured](t, filepath.Join(clusterExamples, name)) {
			// Strict validation: a misspelled field is an error.
			if err := cluster.Client.Create(t.Context(), o, client.FieldValidation("Strict")); err != nil {
				t.Fatalf("%s: %s %s: %v", name, o.GetKind(), o.GetName(), err)
			}
			kinds[o.GetKind()]++
			t.Cleanup(func() { _ = cluster.Client.Delete(context.Background(), o) })
		}
	}
	for kind, want := range map[string]int{"NodePool": 2, "PriorityClass": 3, "ResourceQuota": 2, "Deployment": 1} {
		if kinds[kind] != want {
			t.Errorf("%d %ss, want %d", kinds[kind], kind, want)
		}
	}
	guarded(t)
	quota(t)
}

// guarded checks that the pod of the example Deployment passes all guard-rails, and that the API server rejects it without its
// PriorityClass.
func guarded(t *testing.T) {
	t.Helper()
	var server appsv1.Deployment
	if err := cluster.Client.Get(t.Context(), client.ObjectKey{Namespace: "team-chat", Name: "llama-chat"}, &server); err != nil {
		t.Fatal(err)
	}
	h := newHelm(t, restricted(t, "examples"))
	h.install("examples", map[string]any{"mode": "hpa", "guardrails": map[string]any{"enabled": true, "actions": []any{"Deny"}}})
	defer h.uninstall("examples", false)
	pod := &corev1.Pod{Spec: *server.Spec.Template.Spec.DeepCopy()}
	pod.GenerateName, pod.Namespace = "llama-", "team-chat"
	bad := pod.DeepCopy()
	bad.Spec.PriorityClassName = ""
	stack.Eventually(t, time.Minute, "the guard-rails are in force", func(ctx context.Context) error {
		if refusal(ctx, bad.DeepCopy()) == nil {
			return context.DeadlineExceeded
		}
		return nil
	})
	if err := refusal(t.Context(), pod); err != nil {
		t.Errorf("the guard-rails reject the example: %v", err)
	}
}

// quota checks that the example ResourceQuotas set the limits that their comments describe.
func quota(t *testing.T) {
	t.Helper()
	gpus := func(n int64, class string) *corev1.Pod {
		pod := goodPod("team-chat")
		pod.Spec.PriorityClassName = class
		pod.Spec.Containers[0].Resources.Limits["nvidia.com/gpu"] = *resource.NewQuantity(n, resource.DecimalSI)
		return pod
	}
	stack.Eventually(t, time.Minute, "the quota is in force", func(ctx context.Context) error {
		if refusal(ctx, gpus(17, "gpu-serving")) == nil {
			return context.DeadlineExceeded
		}
		return nil
	})
	for _, c := range []struct {
		gpus  int64
		class string
		taken bool
	}{{8, "gpu-serving", true}, {17, "gpu-serving", false}, {4, "gpu-batch", true}, {5, "gpu-batch", false}} {
		if err := refusal(t.Context(), gpus(c.gpus, c.class)); (err == nil) != c.taken {
			t.Errorf("%d GPUs for %s: %v", c.gpus, c.class, err)
		}
	}
}
