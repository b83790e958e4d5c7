package cluster

import (
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/gpupods"
)

func poolFrom(t *testing.T, text string) *poolFacts {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatal(err)
	}
	return poolOf(u)
}

const spotPool = `
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

func TestWherePodsMayLand(t *testing.T) {
	p := poolFrom(t, spotPool)
	gpu := []corev1.Toleration{{Key: "nvidia.com/gpu", Operator: corev1.TolerationOpExists}}
	need := func(e ...corev1.NodeSelectorRequirement) *corev1.NodeSelector {
		return &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: e}}}
	}
	for _, c := range []struct {
		name string
		pod  gpupods.Facts
		want landing
	}{
		{"without the taint's toleration", gpupods.Facts{}, never},
		{"tolerating everything", gpupods.Facts{Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}}}, lands},
		{"tolerating another value", gpupods.Facts{Tolerations: []corev1.Toleration{{Key: "nvidia.com/gpu", Value: "x"}}}, never},
		{"plain", gpupods.Facts{Tolerations: gpu}, lands},
		{"for this pool by its label", gpupods.Facts{Tolerations: gpu, NodeSelector: map[string]string{"pool": "l40s"}}, lands},
		{"for another pool", gpupods.Facts{Tolerations: gpu, NodeSelector: map[string]string{"karpenter.sh/nodepool": "other"}}, never},
		{"pinned to on-demand", gpupods.Facts{Tolerations: gpu, NodeSelector: map[string]string{capacityTypeLabel: "on-demand"}}, never},
		{"pinned to spot", gpupods.Facts{Tolerations: gpu, NodeSelector: map[string]string{capacityTypeLabel: "spot"}}, lands},
		{"a label that no node has", gpupods.Facts{Tolerations: gpu, NodeSelector: map[string]string{"team": "chat"}}, never},
		{"a label of somebody's that we do not know", gpupods.Facts{Tolerations: gpu, NodeSelector: map[string]string{"eks.amazonaws.com/compute-type": "auto"}}, unsure},
		{"such a label in an affinity", gpupods.Facts{Tolerations: gpu, NodeAffinity: need(corev1.NodeSelectorRequirement{Key: "nvidia.com/gpu.product", Operator: corev1.NodeSelectorOpExists})}, unsure},
		{"such a label, and pinned to on-demand", gpupods.Facts{Tolerations: gpu, NodeSelector: map[string]string{"nvidia.com/gpu.product": "L40S", capacityTypeLabel: "on-demand"}}, never},
		{"an architecture by its old name", gpupods.Facts{Tolerations: gpu, NodeSelector: map[string]string{"beta.kubernetes.io/arch": "amd64"}}, lands},
		{"a system by its old name", gpupods.Facts{Tolerations: gpu, NodeSelector: map[string]string{"beta.kubernetes.io/os": "linux"}}, lands},
		{"an instance type by its old name", gpupods.Facts{Tolerations: gpu, NodeSelector: map[string]string{"beta.kubernetes.io/instance-type": "g6e.xlarge"}}, lands},
		{"a region by its old name", gpupods.Facts{Tolerations: gpu, NodeSelector: map[string]string{"failure-domain.beta.kubernetes.io/region": "us-east-1"}}, lands},
		{"an excluded zone by its old name", gpupods.Facts{Tolerations: gpu, NodeSelector: map[string]string{"failure-domain.beta.kubernetes.io/zone": "us-east-1e"}}, never},
		{"a label that Karpenter chooses", gpupods.Facts{Tolerations: gpu, NodeSelector: map[string]string{"node.kubernetes.io/instance-type": "g6e.xlarge"}}, lands},
		{"a zone that is excluded", gpupods.Facts{Tolerations: gpu, NodeAffinity: need(corev1.NodeSelectorRequirement{Key: "topology.kubernetes.io/zone", Operator: corev1.NodeSelectorOpIn, Values: []string{"us-east-1e"}})}, never},
		{"a zone that is not", gpupods.Facts{Tolerations: gpu, NodeAffinity: need(corev1.NodeSelectorRequirement{Key: "topology.kubernetes.io/zone", Operator: corev1.NodeSelectorOpIn, Values: []string{"us-east-1a"}})}, lands},
		{"not on spot", gpupods.Facts{Tolerations: gpu, NodeAffinity: need(corev1.NodeSelectorRequirement{Key: capacityTypeLabel, Operator: corev1.NodeSelectorOpNotIn, Values: []string{"spot"}})}, never},
		{"more GPUs than some have", gpupods.Facts{Tolerations: gpu, NodeAffinity: need(corev1.NodeSelectorRequirement{Key: "karpenter.k8s.aws/instance-gpu-count", Operator: corev1.NodeSelectorOpGt, Values: []string{"4"}})}, lands},
		{"more than any has", gpupods.Facts{Tolerations: gpu, NodeAffinity: need(corev1.NodeSelectorRequirement{Key: "karpenter.k8s.aws/instance-gpu-count", Operator: corev1.NodeSelectorOpGt, Values: []string{"8"}})}, never},
		{"a range against a range", gpupods.Facts{Tolerations: gpu, NodeAffinity: need(corev1.NodeSelectorRequirement{Key: "topology.kubernetes.io/zone", Operator: corev1.NodeSelectorOpExists})}, unsure},
		{"one node by name", gpupods.Facts{Tolerations: gpu, NodeAffinity: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name"}}}}}}, never},
		{"either of two", gpupods.Facts{Tolerations: gpu, NodeAffinity: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
			{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "team", Operator: corev1.NodeSelectorOpExists}}},
			{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "pool", Operator: corev1.NodeSelectorOpExists}}}}}}, lands},
	} {
		if got := p.landsIn(&c.pod); got != c.want {
			t.Errorf("a pod %s: %d, want %d", c.name, got, c.want)
		}
	}
}

func TestANodePoolMayUseOldNamesToo(t *testing.T) {
	p := poolFrom(t, strings.Replace(spotPool, "topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone", 1))
	pod := gpupods.Facts{Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}}, NodeSelector: map[string]string{"topology.kubernetes.io/zone": "us-east-1e"}}
	if got := p.landsIn(&pod); got != never {
		t.Errorf("%d in a zone that the NodePool excludes by its old name", got)
	}
}

func TestANodePoolIsReadAsItIsWritten(t *testing.T) {
	p := poolFrom(t, spotPool)
	v := p.of(groupOf(t, "nvidia.com/gpu"), nil, nodeSchema{known: true, limits: true, weight: true, budgets: true})
	if !v.Exists || !v.Ready || v.Mixed || v.NodeGPUs != 8 || v.Usage != 3 || v.Weight.Value != "80" || v.Template != "1" || v.Consent.String() != "limits,weight" {
		t.Errorf("view %+v", v)
	}
	if v.Budgets.Value != `[{"nodes":"10%"}]` || v.ConsolidateAfter.Value != `"1m"` || !v.ConsolidateAfter.Unsupported || v.Budgets.Unsupported {
		t.Errorf("disruption %+v %+v", v.Budgets, v.ConsolidateAfter)
	}
	if len(v.Limits) != 2 || v.Limits[0].Resource != "cpu" || v.Limits[0].Value != `"400"` || v.Limits[1].Value != `16` {
		t.Errorf("limits %+v", v.Limits)
	}
	mig := p.of(groupOf(t, "nvidia.com/mig-1g.10gb"), nil, nodeSchema{})
	if len(mig.Limits) != 3 || mig.Limits[2].Value != "" || !mig.Limits[2].Unsupported || mig.Usage != 0 {
		t.Errorf("another resource: %+v", mig.Limits)
	}
	static := poolFrom(t, `{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: s}, spec: {replicas: 2}}`)
	if v := static.of(groupOf(t, "nvidia.com/gpu"), nil, nodeSchema{known: true, limits: true, weight: true}); !v.Weight.Unsupported || !v.Limits[0].Unsupported || !v.Mixed {
		t.Errorf("a static pool takes no weight and no limit of GPUs: %+v", v)
	}
}

func TestAPodThatMayNotLandOnSpotIsNotMovedThere(t *testing.T) {
	v := &groupView{group: &capacity.Group{Resource: "nvidia.com/gpu", Pools: []capacity.Pool{{Name: "l40s-spot", Type: capacity.Spot}}}, seen: map[string]*poolFacts{"l40s-spot": poolFrom(t, spotPool)}}
	for label, want := range map[string]bool{"pool": false, "eks.amazonaws.com/compute-type": true, "team": true} {
		gpuPod := &gpupods.Facts{NodeSelector: map[string]string{label: "l40s"}, Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}}}
		if p, _ := (&nodes{}).pod(v, nil, &podFacts{gpuPod: gpuPod, phase: podReady}); p.Pinned != want || p.UnknownLabels != (label == "eks.amazonaws.com/compute-type") {
			t.Errorf("a pod that asks for the label %s: pinned %v, want %v, untold %v", label, p.Pinned, want, p.UnknownLabels)
		}
	}
}

// groupOf is a group of one NodePool that counts a resource.
func groupOf(t *testing.T, resource string) *capacity.Group {
	t.Helper()
	g, err := capacity.NewGroup(capacity.Group{Name: "g", Resource: resource, Pools: []capacity.Pool{{Name: "p"}}})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestEveryLimitComesWithWhatTheNodesHaveOfItsResource(t *testing.T) {
	p := poolFrom(t, `
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: p}
spec: {limits: {nvidia.com/gpu: "8", cpu: 100, memory: 300Gi, nodes: 4}, template: {spec: {requirements: []}}}
status: {resources: {nvidia.com/gpu: "2", cpu: "12", memory: "20Gi", nodes: "2"}}`)
	claim := func(name, capacity string) *claimFacts {
		return claimOf(fromYAML(t, `
apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata: {name: `+name+`, labels: {karpenter.sh/nodepool: p}}
spec: {resources: {requests: {nvidia.com/gpu: "1", cpu: 100m, memory: 1Mi}}}
status: {capacity: `+capacity+`}`))
	}
	claims := []*claimFacts{claim("a", `{nvidia.com/gpu: "1", cpu: "7910m", memory: 64Gi}`), claim("b", `{nvidia.com/gpu: "1", cpu: "4", memory: 64Gi}`), claim("asked", `{}`)}
	v := p.of(groupOf(t, "nvidia.com/gpu"), claims, nodeSchema{limits: true})
	got := map[string][2]float64{}
	for _, l := range v.Limits {
		got[l.Resource] = [2]float64{l.Used, l.Node}
	}
	want := map[string][2]float64{"nvidia.com/gpu": {2, 1}, "cpu": {12, 4}, "memory": {128 << 30, 64 << 30}, "nodes": {2, 0}}
	if !maps.Equal(got, want) {
		t.Errorf("used, and the least of a node: %v, want %v", got, want)
	}
}

func TestAPoolIsMixedWhereItMayLaunchSpotAndAnotherCapacityType(t *testing.T) {
	for requirement, want := range map[string]bool{
		`{key: karpenter.sh/capacity-type, operator: In, values: [reserved, on-demand]}`: false, // as documented for capacity reservations
		`{key: karpenter.sh/capacity-type, operator: NotIn, values: [spot]}`:             false,
		`{key: karpenter.sh/capacity-type, operator: In, values: [reserved]}`:            false,
		`{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}`:           false,
		`{key: karpenter.sh/capacity-type, operator: In, values: [spot]}`:                false,
		`{key: karpenter.sh/capacity-type, operator: In, values: [spot, reserved]}`:      true,
		`{key: karpenter.sh/capacity-type, operator: In, values: [spot, on-demand]}`:     true,
		`{key: karpenter.sh/capacity-type, operator: Exists}`:                            true,
		`{key: kubernetes.io/arch, operator: In, values: [amd64]}`:                       true,
	} {
		p := poolFrom(t, `{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: p}, spec: {template: {spec: {requirements: [`+requirement+`]}}}}`)
		if got := p.of(groupOf(t, "nvidia.com/gpu"), nil, nodeSchema{}).Mixed; got != want {
			t.Errorf("%s: mixed %v, want %v", requirement, got, want)
		}
	}
}
