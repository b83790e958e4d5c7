package snapshot

import (
	"slices"
	"strings"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"sigs.k8s.io/yaml"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/apiservice"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/cache"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/fixture"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/karpenter"
	"github.com/gpuscaler/gpuscaler/pkg/lint/objects"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

func fromYAML(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	content, err := yaml.YAMLToJSON([]byte(text))
	if err == nil {
		err = u.UnmarshalJSON(content) // decoded like this, whole numbers are int64, as in objects from an API server
	}
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// pool returns a NodePool for GPUs that can scale to zero and causes no finding. The function change modifies its spec.
func pool(t *testing.T, name string, change func(spec map[string]any)) *unstructured.Unstructured {
	u := fromYAML(t, `
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: `+name+`}
spec:
  weight: 10
  template:
    spec:
      requirements:
      - {key: karpenter.k8s.aws/instance-gpu-count, operator: Gt, values: ["0"]}
      - {key: karpenter.sh/capacity-type, operator: In, values: [`+name+`]}
      taints: [{key: nvidia.com/gpu, effect: NoSchedule}]
  disruption: {consolidateAfter: 5m, budgets: [{nodes: "100%", reasons: [Empty]}, {nodes: "10%"}]}
`)
	if change != nil {
		change(u.Object["spec"].(map[string]any))
	}
	return u
}

func set(path string, value any) func(map[string]any) {
	return func(spec map[string]any) {
		if err := unstructured.SetNestedField(spec, value, strings.Split(path, ".")...); err != nil {
			panic(err)
		}
	}
}

func TestChecksOfNodePools(t *testing.T) {
	group := map[string]map[string][]string{"chat": {"spot": {"spot"}, "on-demand": {"on-demand"}}}
	requirements := func(values ...any) func(map[string]any) {
		return set("template.spec.requirements", []any{map[string]any{"key": "karpenter.sh/capacity-type", "operator": "In", "values": values},
			map[string]any{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": []any{"g6e.xlarge", "p5.48xlarge"}}})
	}
	for name, c := range map[string]struct {
		spot, demand func(map[string]any)
		groups       map[string]map[string][]string
		want         []string
	}{
		"two correct NodePools": {nil, nil, group, nil},
		"consolidateAfter Never": {
			set("disruption.consolidateAfter", "Never"), nil, group, []string{objects.CannotReachZero},
		},
		"a budget of 0 without a schedule": {
			set("disruption.budgets", []any{map[string]any{"nodes": "0"}}), nil, group, []string{objects.CannotReachZero},
		},
		"a budget for office hours": {
			set("disruption.budgets", []any{map[string]any{"nodes": "0", "schedule": "0 8 * * 1-5", "duration": "10h"}}), nil, group, nil,
		},
		"a budget for drift alone": {
			set("disruption.budgets", []any{map[string]any{"nodes": "0", "reasons": []any{"Drifted"}}}), nil, group, nil,
		},
		"static capacity": {set("replicas", int64(2)), nil, group, []string{objects.CannotReachZero}},
		"no taint":        {set("template.spec.taints", []any{}), nil, group, []string{objects.NoTaint}},
		"a group with an unknown NodePool": {
			nil, nil, map[string]map[string][]string{"chat": {"spot": {"spot"}, "on-demand": {"ondemand"}}}, []string{objects.NodePoolMissing},
		},
		"one NodePool of a list does not exist": {
			nil, nil, map[string]map[string][]string{"chat": {"spot": {"spot", "spot-b"}, "on-demand": {"on-demand"}}},
			[]string{objects.NodePoolMissing},
		},
		"one on-demand NodePool of a list has the greater weight": {
			nil, set("weight", int64(50)), map[string]map[string][]string{"chat": {"spot": {"spot"}, "on-demand": {"other", "on-demand"}}},
			[]string{objects.NodePoolMissing, objects.SpotIsNotFirst},
		},
		"only spot in the group": {
			nil, nil, map[string]map[string][]string{"chat": {"spot": {"spot"}}}, []string{objects.NoFallback},
		},
		"a spot NodePool that allows only on-demand": {requirements("on-demand"), nil, group, []string{objects.NoFallback}},
		"on-demand with a limit of 0": {
			nil, set("limits", map[string]any{"nvidia.com/gpu": "0"}), group, []string{objects.NoFallback},
		},
		"on-demand has the greater weight": {nil, set("weight", int64(50)), group, []string{objects.SpotIsNotFirst}},
		"no groups: on-demand exists":      {nil, nil, nil, nil},
		"no groups: only spot":             {requirements("spot"), requirements("spot"), nil, []string{objects.NoFallback}},
		"no groups: no capacity type": {
			requirements("spot"), set("template.spec.requirements",
				[]any{map[string]any{"key": "karpenter.k8s.aws/instance-family", "operator": "In", "values": []any{"g5"}}}), nil, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			found := objects.NodePools(nodePoolFacts([]*unstructured.Unstructured{pool(t, "spot", c.spot), pool(t, "on-demand", c.demand)}),
				c.groups)
			var got []string
			for _, f := range found {
				got = append(got, f.Check)
				if f.What == "" || f.Fix == "" || f.Object == "" {
					t.Errorf("incomplete: %+v", f)
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("found %+v, want %v", found, c.want)
			}
		})
	}
}

func TestNodePoolWithoutGPUsIsNotChecked(t *testing.T) {
	for _, values := range [][]any{{"r5.large"}, {"m5.large", "c5.large"}, {"g6e.xlarge", "m5.large"}} {
		u := pool(t, "general", func(spec map[string]any) {
			set("template.spec.requirements", []any{map[string]any{"key": "node.kubernetes.io/instance-type", "operator": "In",
				"values": values}})(spec)
			set("template.spec.taints", []any{})(spec)
			set("disruption.consolidateAfter", "Never")(spec)
		})
		if found := objects.NodePools(nodePoolFacts([]*unstructured.Unstructured{u}), nil); len(found) > 0 {
			t.Errorf("%v: %+v", values, found)
		}
	}
}

type fixedVersion string

func (v fixedVersion) ServerVersion() (*version.Info, error) {
	return &version.Info{GitVersion: "v1." + string(v) + ".0", Minor: string(v)}, nil
}

const takenAPIService = `
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1beta1.external.metrics.k8s.io}
spec: {group: external.metrics.k8s.io, version: v1beta1, service: {namespace: monitoring, name: prometheus-adapter}}
status: {conditions: [{type: Available, status: "False", reason: MissingEndpoints, message: no endpoints}]}
`

func snapshotOf(t *testing.T, minor string, all ...runtime.Object) *Snapshot {
	t.Helper()
	lists := map[schema.GroupVersionResource]string{
		hpas: "HorizontalPodAutoscalerList", scaledObjects: "ScaledObjectList", karpenter.NodePools: "NodePoolList",
		deployments: "DeploymentList", apiservice.Resource: "APIServiceList",
	}
	client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists, all...)
	s, err := Read(t.Context(), client, fixedVersion(minor))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func unstructuredHPA(t *testing.T, h *autoscalingv2.HorizontalPodAutoscaler) *unstructured.Unstructured {
	t.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(h)
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{Object: content}
	u.SetAPIVersion("autoscaling/v2")
	u.SetKind(cache.HPAKind)
	return u
}

func TestFindingsOfAMisconfiguredCluster(t *testing.T) {
	loose := fixture.HPA("chat", "chat", "chat")
	loose.Spec.Behavior = nil
	foreign := fixture.HPA("by-cpu", "train", "x")
	foreign.Spec.Metrics = nil
	other := fromYAML(t, `
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {namespace: `+foreign.Namespace+`, name: train}
spec:
  minReplicaCount: 1
  scaleTargetRef: {name: train}
  triggers:
  - {type: prometheus, metadata: {query: "sum(vllm:num_requests_waiting)", serverAddress: "http://prometheus"}}
  - {type: cpu, metadata: {value: "50"}}
`)
	keda := fromYAML(t, `{apiVersion: apps/v1, kind: Deployment, metadata: {namespace: keda, name: keda-operator, labels: `+
		`{app.kubernetes.io/name: keda-operator}}, spec: {template: {spec: {containers: [{image: "ghcr.io/kedacore/keda:2.13.1@sha256:1"}]}}}}`)
	s := snapshotOf(t, "34", unstructuredHPA(t, loose), unstructuredHPA(t, foreign), other, keda,
		fromYAML(t, takenAPIService), pool(t, "spot", nil))
	found := s.Findings([]scaling.Workload{workloadFor(loose, "chat")}, true, nil)
	var got []string
	for _, f := range found {
		got = append(got, f.Object+" "+f.Check)
	}
	for _, want := range []string{"HorizontalPodAutoscaler " + loose.Namespace + "/chat Tolerance",
		"HorizontalPodAutoscaler " + loose.Namespace + "/chat StabilizationWindow",
		"Deployment " + foreign.Namespace + "/train TwoOwners", "APIService v1beta1.external.metrics.k8s.io ExternalMetricsUnavailable",
		"APIService v1beta1.external.metrics.k8s.io ExternalMetricsTaken",
		"Kubernetes v1.34.0 KubernetesTolerance", "KEDA 2.13.1 KEDAVersion", "NodePool spot CannotFallBack"} {
		if !slices.Contains(got, want) {
			t.Errorf("%q is not found in\n%s", want, strings.Join(got, "\n"))
		}
	}
	if s.Owner() != "monitoring/prometheus-adapter" || s.KEDA != "2.13.1" || len(s.Unread) > 0 {
		t.Errorf("owner %s, KEDA %s, unread %v", s.Owner(), s.KEDA, s.Unread)
	}
	queries := s.Queries()
	if len(queries) != 1 || queries[0].Queries["0"] != "sum(vllm:num_requests_waiting)" || queries[0].Others || queries[0].MinReplicas != 1 {
		t.Errorf("queries %+v", queries)
	}
}

func TestCorrectClusterHasNoFindings(t *testing.T) {
	h := fixture.HPA("chat", "chat", "chat")
	s := snapshotOf(t, "36", unstructuredHPA(t, h), pool(t, "spot", nil), pool(t, "on-demand", nil))
	groups := map[string]map[string][]string{"chat": {"spot": {"spot"}, "on-demand": {"on-demand"}}}
	found := s.Findings([]scaling.Workload{workloadFor(h, "chat")}, true, groups)
	if len(found) > 0 || s.Owner() != apiservice.NoOwner {
		t.Errorf("found %+v, owner %s", found, s.Owner())
	}
}

// If the policies of the cluster are unknown, an HPA must not be reported because it selects a missing policy.
func TestWithoutPoliciesNoPolicyIsMissing(t *testing.T) {
	s := snapshotOf(t, "36", unstructuredHPA(t, fixture.HPA("chat", "chat", "chat")))
	if found := s.Findings(nil, false, nil); len(found) > 0 {
		t.Errorf("found %+v", found)
	}
	if found := s.Findings(nil, true, nil); len(found) != 1 || found[0].Check != objects.UnknownPolicy || !found[0].Severe {
		t.Errorf("found %+v", found)
	}
}

// workloadFor returns a workload with the scale target and the bounds of the HPA.
func workloadFor(h *autoscalingv2.HorizontalPodAutoscaler, name string) scaling.Workload {
	return scaling.Workload{Key: scaling.Key{Namespace: h.Namespace, Name: name},
		Target: scaling.Target{APIVersion: "apps/v1", Kind: "Deployment", Name: h.Spec.ScaleTargetRef.Name},
		Policy: &scaling.Policy{MinReplicas: 0, MaxReplicas: h.Spec.MaxReplicas, CooldownPeriod: time.Minute}}
}

// A NodePool with the API version of Karpenter before 1.0 must be reported, with the advice to upgrade Karpenter.
func TestNodePoolOfAnUnsupportedVersionIsReported(t *testing.T) {
	u := pool(t, "spot", nil)
	u.SetAPIVersion("karpenter.sh/v1beta1")
	found := objects.NodePools(nodePoolFacts([]*unstructured.Unstructured{u}),
		map[string]map[string][]string{"chat": {"spot": {"spot"}, "on-demand": {"spot"}}})
	if len(found) != 1 || found[0].Check != objects.UnreadablePool || !found[0].Severe ||
		!strings.Contains(found[0].What, "upgrade Karpenter") {
		t.Errorf("found %+v", found)
	}
}

// While gpuscaler serves no target (in mode hold or during an outage), an HPA scales to the replicas of its fallback. A fallback below
// maxReplicas can therefore cause a scale-down, and must be reported.
func TestFallbackBelowMaxReplicasIsFoundInAClusterAndInFiles(t *testing.T) {
	most := int64(fixture.HPA("chat", "chat", "chat").Spec.MaxReplicas)
	for _, c := range []struct {
		replicas int64
		found    bool
	}{{1, true}, {most - 1, true}, {most, false}, {0, true}} {
		u := unstructuredHPA(t, fixture.HPA("chat", "chat", "chat"))
		metrics, _, _ := unstructured.NestedSlice(u.Object, "spec", "metrics")
		external := metrics[0].(map[string]any)["external"].(map[string]any)
		external["fallback"] = map[string]any{"failureDurationSeconds": int64(180), "replicas": c.replicas}
		if err := unstructured.SetNestedSlice(u.Object, metrics, "spec", "metrics"); err != nil {
			t.Fatal(err)
		}
		files := &Snapshot{}
		if err := files.Add(u.DeepCopy()); err != nil {
			t.Fatal(err)
		}
		for name, s := range map[string]*Snapshot{"cluster": snapshotOf(t, "36", u), "files": files} {
			is := func(f objects.ObjectFinding) bool {
				return f.Check == objects.FallbackScalesDown && f.Severe && f.Object == "HorizontalPodAutoscaler team/chat"
			}
			if found := s.Findings(nil, false, nil); slices.ContainsFunc(found, is) != c.found {
				t.Errorf("%s, fallback.replicas %d: %+v", name, c.replicas, found)
			}
		}
	}
}
