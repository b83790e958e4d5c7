package schedulability

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/yaml"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/gpupods"
)

const spotNodePool = `
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: l40s-spot, annotations: {gpuscaler.io/nudge: "limits, weight", karpenter.sh/nodepool-hash: "1"}}
spec:
  weight: 80
  limits: {nvidia.com/gpu: 16, cpu: "400"}
  disruption: {consolidateAfter: 1m, budgets: [{nodes: 10%}]}
  template:
    metadata: {labels: {pool: l40s}}
    spec:
      taints: [{key: nvidia.com/gpu, effect: NoSchedule}]
      requirements:
      - {key: karpenter.sh/capacity-type, operator: In, values: [spot]}
      - {key: karpenter.k8s.aws/instance-gpu-count, operator: In, values: ["1", "8"]}
      - {key: topology.kubernetes.io/zone, operator: NotIn, values: [us-east-1e]}
status: {conditions: [{type: Ready, status: "True"}], resources: {nvidia.com/gpu: "3", cpu: 12100m}}`

func nodePool(t *testing.T, text string) NodePool {
	t.Helper()
	p := &karpv1.NodePool{}
	if err := yaml.Unmarshal([]byte(text), p); err != nil {
		t.Fatal(err)
	}
	return Of(p.Name, &p.Spec.Template)
}

func TestAccepts(t *testing.T) {
	p := nodePool(t, spotNodePool)
	gpu := []corev1.Toleration{{Key: "nvidia.com/gpu", Operator: corev1.TolerationOpExists}}
	need := func(e ...corev1.NodeSelectorRequirement) *corev1.NodeSelector {
		return &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: e}}}
	}
	for _, c := range []struct {
		name string
		pod  gpupods.Facts
		want Answer
	}{
		{"without a toleration of the taint", gpupods.Facts{}, No},
		{"a toleration of every taint", gpupods.Facts{Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}}}, Yes},
		{"a toleration of another value", gpupods.Facts{Tolerations: []corev1.Toleration{{Key: "nvidia.com/gpu", Value: "x"}}}, No},
		{"a toleration of the taint", gpupods.Facts{Tolerations: gpu}, Yes},
		{"the label of this NodePool", gpupods.Facts{Tolerations: gpu, NodeSelector: map[string]string{"pool": "l40s"}}, Yes},
		{"another NodePool", gpupods.Facts{Tolerations: gpu, NodeSelector: map[string]string{"karpenter.sh/nodepool": "other"}}, No},
		{"on-demand only", gpupods.Facts{Tolerations: gpu, NodeSelector: map[string]string{karpv1.CapacityTypeLabelKey: "on-demand"}}, No},
		{"spot only", gpupods.Facts{Tolerations: gpu, NodeSelector: map[string]string{karpv1.CapacityTypeLabelKey: "spot"}}, Yes},
		{"a label without a domain that no node has", gpupods.Facts{Tolerations: gpu, NodeSelector: map[string]string{"team": "chat"}}, No},
		{"a label of an unknown domain", gpupods.Facts{Tolerations: gpu, NodeSelector: map[string]string{"eks.amazonaws.com/compute-type": "auto"}}, Unknown},
		{"a label of an unknown domain in an affinity", gpupods.Facts{Tolerations: gpu, NodeAffinity: need(corev1.NodeSelectorRequirement{Key: "nvidia.com/gpu.product", Operator: corev1.NodeSelectorOpExists})}, Unknown},
		{"a label of an unknown domain, and on-demand only", gpupods.Facts{Tolerations: gpu, NodeSelector: map[string]string{"nvidia.com/gpu.product": "L40S", karpv1.CapacityTypeLabelKey: "on-demand"}}, No},
		{"an architecture by its deprecated label", gpupods.Facts{Tolerations: gpu, NodeSelector: map[string]string{"beta.kubernetes.io/arch": "amd64"}}, Yes},
		{"an operating system by its deprecated label", gpupods.Facts{Tolerations: gpu, NodeSelector: map[string]string{"beta.kubernetes.io/os": "linux"}}, Yes},
		{"an instance type by its deprecated label", gpupods.Facts{Tolerations: gpu, NodeSelector: map[string]string{"beta.kubernetes.io/instance-type": "g6e.xlarge"}}, Yes},
		{"a region by its deprecated label", gpupods.Facts{Tolerations: gpu, NodeSelector: map[string]string{"failure-domain.beta.kubernetes.io/region": "us-east-1"}}, Yes},
		{"an excluded zone by its deprecated label", gpupods.Facts{Tolerations: gpu, NodeSelector: map[string]string{"failure-domain.beta.kubernetes.io/zone": "us-east-1e"}}, No},
		{"a label that Karpenter chooses", gpupods.Facts{Tolerations: gpu, NodeSelector: map[string]string{"node.kubernetes.io/instance-type": "g6e.xlarge"}}, Yes},
		{"an excluded zone", gpupods.Facts{Tolerations: gpu, NodeAffinity: need(corev1.NodeSelectorRequirement{Key: "topology.kubernetes.io/zone", Operator: corev1.NodeSelectorOpIn, Values: []string{"us-east-1e"}})}, No},
		{"an allowed zone", gpupods.Facts{Tolerations: gpu, NodeAffinity: need(corev1.NodeSelectorRequirement{Key: "topology.kubernetes.io/zone", Operator: corev1.NodeSelectorOpIn, Values: []string{"us-east-1a"}})}, Yes},
		{"not on spot", gpupods.Facts{Tolerations: gpu, NodeAffinity: need(corev1.NodeSelectorRequirement{Key: karpv1.CapacityTypeLabelKey, Operator: corev1.NodeSelectorOpNotIn, Values: []string{"spot"}})}, No},
		{"more GPUs than some instance types have", gpupods.Facts{Tolerations: gpu, NodeAffinity: need(corev1.NodeSelectorRequirement{Key: "karpenter.k8s.aws/instance-gpu-count", Operator: corev1.NodeSelectorOpGt, Values: []string{"4"}})}, Yes},
		{"more GPUs than any instance type has", gpupods.Facts{Tolerations: gpu, NodeAffinity: need(corev1.NodeSelectorRequirement{Key: "karpenter.k8s.aws/instance-gpu-count", Operator: corev1.NodeSelectorOpGt, Values: []string{"8"}})}, No},
		{"any zone", gpupods.Facts{Tolerations: gpu, NodeAffinity: need(corev1.NodeSelectorRequirement{Key: "topology.kubernetes.io/zone", Operator: corev1.NodeSelectorOpExists})}, Yes},
		{"one existing node", gpupods.Facts{Tolerations: gpu, NodeAffinity: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name"}}}}}}, No},
		{"the second of two alternatives", gpupods.Facts{Tolerations: gpu, NodeAffinity: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
			{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "team", Operator: corev1.NodeSelectorOpExists}}},
			{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "pool", Operator: corev1.NodeSelectorOpExists}}}}}}, Yes},
	} {
		if got := p.Accepts(&c.pod); got != c.want {
			t.Errorf("a pod %s: %d, want %d", c.name, got, c.want)
		}
	}
}

func TestDeprecatedLabelsOfANodePool(t *testing.T) {
	p := nodePool(t, strings.Replace(spotNodePool, "topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone", 1))
	pod := gpupods.Facts{Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}}, NodeSelector: map[string]string{"topology.kubernetes.io/zone": "us-east-1e"}}
	if got := p.Accepts(&pod); got != No {
		t.Errorf("answer %d for a zone that the NodePool excludes by its deprecated label", got)
	}
}

func TestContradictionBetweenNodeSelectorAndAffinity(t *testing.T) {
	p := nodePool(t, spotNodePool)
	pod := gpupods.Facts{
		Tolerations:  []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		NodeSelector: map[string]string{"karpenter.k8s.aws/instance-gpu-count": "1"},
		NodeAffinity: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
			{Key: "karpenter.k8s.aws/instance-gpu-count", Operator: corev1.NodeSelectorOpIn, Values: []string{"8"}}}}}},
	}
	if got := p.Accepts(&pod); got != No {
		t.Errorf("answer %d for a pod that requires nodes with one GPU and with eight", got)
	}
}

func TestUndecodedNodePoolAnswersUnknown(t *testing.T) {
	if got := (&NodePool{}).Accepts(&gpupods.Facts{}); got != Unknown {
		t.Errorf("answer %d", got)
	}
}

func TestComparisonWithoutAValueDoesNotPanic(t *testing.T) {
	p := nodePool(t, `{metadata: {name: p}, spec: {template: {spec: {requirements: [{key: karpenter.k8s.aws/instance-gpu-count, operator: Gt}]}}}}`)
	if got := p.Accepts(&gpupods.Facts{NodeSelector: map[string]string{"karpenter.k8s.aws/instance-gpu-count": "4"}}); got != Yes {
		t.Errorf("answer %d", got)
	}
}
