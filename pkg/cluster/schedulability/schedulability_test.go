package schedulability

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/yaml"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/fixture"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/gpupods"
)

func nodePool(t *testing.T, text string) NodePool {
	t.Helper()
	p := &karpv1.NodePool{}
	if err := yaml.Unmarshal([]byte(text), p); err != nil {
		t.Fatal(err)
	}
	return Of(p.Name, &p.Spec.Template)
}

// podWith returns the facts of a pod that requests one GPU. spec is YAML with additional fields of the pod's spec.
func podWith(t *testing.T, spec string) *gpupods.Facts {
	t.Helper()
	p := &corev1.Pod{}
	text := `{spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: "1"}}}], ` + spec + `}}`
	if err := yaml.UnmarshalStrict([]byte(text), p); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return gpupods.FactsOf(p)
}

// tolerant is the YAML of a toleration of the GPU taint. A test appends other fields of the pod's spec to it.
const tolerant = `tolerations: [{key: nvidia.com/gpu, operator: Exists}], `

// required returns the YAML of a required node affinity with one expression, and a toleration of the GPU taint.
func required(expression string) string {
	return tolerant + `affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [` +
		expression + `]}]}}}`
}

func TestAccepts(t *testing.T) {
	p := nodePool(t, fixture.SpotNodePool)
	for _, c := range []struct {
		name, spec string
		want       Answer
	}{
		{"no toleration", ``, No},
		{"a toleration of every taint", `tolerations: [{operator: Exists}]`, Yes},
		{"a toleration of another value", `tolerations: [{key: nvidia.com/gpu, value: x}]`, No},
		{"a toleration of the taint", tolerant, Yes},
		{"the label of this NodePool", tolerant + `nodeSelector: {pool: l40s}`, Yes},
		{"another NodePool", tolerant + `nodeSelector: {karpenter.sh/nodepool: other}`, No},
		{"on-demand only", tolerant + `nodeSelector: {karpenter.sh/capacity-type: on-demand}`, No},
		{"spot only", tolerant + `nodeSelector: {karpenter.sh/capacity-type: spot}`, Yes},
		{"a label without a domain that no node has", tolerant + `nodeSelector: {team: chat}`, No},
		{"a label of an unknown domain", tolerant + `nodeSelector: {eks.amazonaws.com/compute-type: auto}`, Unknown},
		{"a label of an unknown domain in an affinity", required(`{key: nvidia.com/gpu.product, operator: Exists}`), Unknown},
		{"a label of an unknown domain and on-demand only",
			tolerant + `nodeSelector: {nvidia.com/gpu.product: L40S, karpenter.sh/capacity-type: on-demand}`, No},
		{"an architecture by its deprecated label", tolerant + `nodeSelector: {beta.kubernetes.io/arch: amd64}`, Yes},
		{"an operating system by its deprecated label", tolerant + `nodeSelector: {beta.kubernetes.io/os: linux}`, Yes},
		{"an instance type by its deprecated label", tolerant + `nodeSelector: {beta.kubernetes.io/instance-type: g6e.xlarge}`, Yes},
		{"a region by its deprecated label", tolerant + `nodeSelector: {failure-domain.beta.kubernetes.io/region: us-east-1}`, Yes},
		{"an excluded zone by its deprecated label", tolerant + `nodeSelector: {failure-domain.beta.kubernetes.io/zone: us-east-1e}`, No},
		{"a label that Karpenter chooses", tolerant + `nodeSelector: {node.kubernetes.io/instance-type: g6e.xlarge}`, Yes},
		{"an excluded zone", required(`{key: topology.kubernetes.io/zone, operator: In, values: [us-east-1e]}`), No},
		{"an allowed zone", required(`{key: topology.kubernetes.io/zone, operator: In, values: [us-east-1a]}`), Yes},
		{"any zone", required(`{key: topology.kubernetes.io/zone, operator: Exists}`), Yes},
		{"not on spot", required(`{key: karpenter.sh/capacity-type, operator: NotIn, values: [spot]}`), No},
		{"more GPUs than some instance types have", required(`{key: karpenter.k8s.aws/instance-gpu-count, operator: Gt, values: ["4"]}`), Yes},
		{"more GPUs than any instance type has", required(`{key: karpenter.k8s.aws/instance-gpu-count, operator: Gt, values: ["8"]}`), No},
		{"one existing node", tolerant + `affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [
			{matchFields: [{key: metadata.name, operator: In, values: [n1]}]}]}}}`, No},
		{"the second of two alternatives", tolerant + `affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {
			nodeSelectorTerms: [{matchExpressions: [{key: team, operator: Exists}]}, {matchExpressions: [{key: pool, operator: Exists}]}]}}}`, Yes},
		{"nodes with one GPU and with eight", tolerant + `nodeSelector: {karpenter.k8s.aws/instance-gpu-count: "1"},
			affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {
			nodeSelectorTerms: [{matchExpressions: [{key: karpenter.k8s.aws/instance-gpu-count, operator: In, values: ["8"]}]}]}}}`, No},
	} {
		if got := p.Accepts(podWith(t, c.spec)); got != c.want {
			t.Errorf("a pod that requires %s: %d, want %d", c.name, got, c.want)
		}
	}
}

func TestDeprecatedLabelsOfANodePool(t *testing.T) {
	p := nodePool(t, strings.Replace(fixture.SpotNodePool, "topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone", 1))
	if got := p.Accepts(podWith(t, tolerant+`nodeSelector: {topology.kubernetes.io/zone: us-east-1e}`)); got != No {
		t.Errorf("answer %d for a zone that the NodePool excludes by its deprecated label", got)
	}
}

func TestTaintThatOnlyPrefersOtherPodsIsIgnored(t *testing.T) {
	p := nodePool(t, strings.Replace(fixture.SpotNodePool, "effect: NoSchedule", "effect: PreferNoSchedule", 1))
	if got := p.Accepts(podWith(t, ``)); got != Yes {
		t.Errorf("answer %d", got)
	}
}

func TestUndecodedNodePoolAnswersUnknown(t *testing.T) {
	if got := (&NodePool{}).Accepts(podWith(t, ``)); got != Unknown {
		t.Errorf("answer %d", got)
	}
}

// The API server rejects a requirement with the operator Gt and no value, but a file that `gpuscaler lint` reads may contain such a
// requirement.
func TestComparisonWithoutAValueDoesNotPanic(t *testing.T) {
	p := nodePool(t, `{metadata: {name: p}, spec: {template: {spec: {requirements: [
		{key: karpenter.k8s.aws/instance-gpu-count, operator: Gt}]}}}}`)
	if got := p.Accepts(podWith(t, `nodeSelector: {karpenter.k8s.aws/instance-gpu-count: "4"}`)); got != Yes {
		t.Errorf("answer %d", got)
	}
}
