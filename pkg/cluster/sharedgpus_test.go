package cluster

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// What a pod requests, and what its node says, shows that a GPU is offered in shares.
func TestSharesOfGPUsAreRecognized(t *testing.T) {
	for name, want := range map[string]bool{"nvidia.com/gpu": false, "nvidia.com/gpu.shared": true, "nvidia.com/mig-1g.10gb": false, "nvidia.com/mig-1g.10gb.shared": true,
		"example.com/x.shared": false, "cpu": false} {
		p := podOf("llama", 0, "ready")
		p.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceName(name): resource.MustParse("1")}}}}
		f, err := trimPod(p)
		if err != nil {
			t.Fatal(err)
		}
		if got := f.(*podFacts).pod.SharedGPU; got != want {
			t.Errorf("a pod that requests %s: shared %t, want %t", name, got, want)
		}
	}
}

// The device plugin is reconfigured while pods run: the node's label changes, and with it what its pods are.
func TestANodesGPUsAreSharedAsSoonAsItSaysSo(t *testing.T) {
	c := clusterWithPools(t)
	node := func(replicas string) {
		if err := c.show(object(t, `{apiVersion: v1, kind: Node, metadata: {name: "n", labels: {nvidia.com/gpu.replicas: "`+replicas+`"}}}`)); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct {
		replicas string
		want     bool
	}{{"1", false}, {"4", true}, {"1", false}} {
		node(step.replicas)
		if got := c.SharesGPUs("n"); got != step.want {
			t.Errorf("replicas %s: shares %t, want %t", step.replicas, got, step.want)
		}
	}
	if c.SharesGPUs("") || c.SharesGPUs("other") {
		t.Error("a node that is not known shares its GPUs")
	}
}

// An Event on the workload names the signal that will not raise.
func TestTheLinterNamesASignalOfSharedGPUs(t *testing.T) {
	c := clusterWithPools(t)
	w := scaling.Workload{Key: scaling.Key{Namespace: "team", Name: "llama"}, Target: scaling.Target{APIVersion: "apps/v1", Kind: "Deployment", Name: "llama"},
		Policy: &scaling.Policy{Signals: []scaling.Signal{{Name: "queue", Type: "vllm"}, {Name: "gpu", Type: "dcgm"}}}}
	c.options.Policies = surveyPolicies{w}
	c.world.putTarget(must(trimDeployment(deployment("llama", 1, "1"))).(*targetFacts))
	p := podOf("llama", 0, "ready")
	p.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"nvidia.com/gpu.shared": resource.MustParse("1")}}}}
	f, err := trimPod(p)
	if err != nil {
		t.Fatal(err)
	}
	c.world.putPod(f.(*podFacts))
	all := c.sharedGPUs()
	if len(all) != 1 || all[0].about.Name != "llama" || !strings.Contains(all[0].problem, "signal gpu of policy team/llama") {
		t.Fatalf("%+v", all)
	}
	w.Policy.Signals = w.Policy.Signals[:1]
	if all := c.sharedGPUs(); len(all) != 0 {
		t.Errorf("a policy without a GPU signal: %+v", all)
	}
}
