package cluster

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
	"k8s.io/client-go/dynamic/fake"
	"sigs.k8s.io/yaml"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/apiservice"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/karpenter"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

func fromYAML(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	content, err := yaml.YAMLToJSON([]byte(text))
	if err == nil {
		err = u.UnmarshalJSON(content) // whole numbers become int64, as from an API server
	}
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// pool is a NodePool for GPUs that goes to zero and has nothing to be said of; change is YAML of its spec that comes on top.
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

func TestEachNodePoolThatCannotGoToZeroOrFallBackIsFound(t *testing.T) {
	group := map[string]map[string]string{"chat": {"spot": "spot", "on-demand": "on-demand"}}
	requirements := func(values ...any) func(map[string]any) {
		return set("template.spec.requirements", []any{map[string]any{"key": "karpenter.sh/capacity-type", "operator": "In", "values": values}, map[string]any{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": []any{"g6e.xlarge", "p5.48xlarge"}}})
	}
	for name, c := range map[string]struct {
		spot, demand func(map[string]any)
		groups       map[string]map[string]string
		want         []string
	}{
		"two good pools":                   {nil, nil, group, nil},
		"empty nodes stay":                 {set("disruption.consolidateAfter", "Never"), nil, group, []string{NoZero}},
		"a budget that never lets go":      {set("disruption.budgets", []any{map[string]any{"nodes": "0"}}), nil, group, []string{NoZero}},
		"a budget for office hours":        {set("disruption.budgets", []any{map[string]any{"nodes": "0", "schedule": "0 8 * * 1-5", "duration": "10h"}}), nil, group, nil},
		"a budget for drift alone":         {set("disruption.budgets", []any{map[string]any{"nodes": "0", "reasons": []any{"Drifted"}}}), nil, group, nil},
		"static capacity":                  {set("replicas", int64(2)), nil, group, []string{NoZero}},
		"no taint":                         {set("template.spec.taints", []any{}), nil, group, []string{NoTaint}},
		"a group that names no pool":       {nil, nil, map[string]map[string]string{"chat": {"spot": "spot", "on-demand": "ondemand"}}, []string{NoSuchPool}},
		"spot alone in the group":          {nil, nil, map[string]map[string]string{"chat": {"spot": "spot"}}, []string{NoFallback}},
		"spot that is on demand":           {requirements("on-demand"), nil, group, []string{NoFallback}},
		"on demand behind a shut door":     {nil, set("limits", map[string]any{"nvidia.com/gpu": "0"}), group, []string{NoFallback}},
		"on demand comes first":            {nil, set("weight", int64(50)), group, []string{SpotLast}},
		"no groups: on demand is there":    {nil, nil, nil, nil},
		"no groups: spot alone":            {requirements("spot"), requirements("spot"), nil, []string{NoFallback}},
		"no groups: a pool that says none": {requirements("spot"), set("template.spec.requirements", []any{map[string]any{"key": "karpenter.k8s.aws/instance-family", "operator": "In", "values": []any{"g5"}}}), nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			found := LintNodePools([]*unstructured.Unstructured{pool(t, "spot", c.spot), pool(t, "on-demand", c.demand)}, c.groups)
			var got []string
			for _, f := range found {
				got = append(got, f.What)
				if f.Why == "" || f.Fix == "" || f.Object == "" {
					t.Errorf("says not all of it: %+v", f)
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("found %+v, want %v", found, c.want)
			}
		})
	}
}

func TestAPoolWithoutGPUsIsNobodysBusiness(t *testing.T) {
	for _, values := range [][]any{{"r5.large"}, {"m5.large", "c5.large"}, {"g6e.xlarge", "m5.large"}} {
		u := pool(t, "general", func(spec map[string]any) {
			set("template.spec.requirements", []any{map[string]any{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": values}})(spec)
			set("template.spec.taints", []any{})(spec)
			set("disruption.consolidateAfter", "Never")(spec)
		})
		if found := LintNodePools([]*unstructured.Unstructured{u}, nil); len(found) > 0 {
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

func surveyOf(t *testing.T, minor string, objects ...runtime.Object) *Survey {
	t.Helper()
	lists := map[schema.GroupVersionResource]string{hpasResource: "HorizontalPodAutoscalerList", scaledObjectsResource: "ScaledObjectList", karpenter.NodePools: "NodePoolList",
		deploymentsResource: "DeploymentList", apiservice.Resource: "APIServiceList"}
	s, err := ReadSurvey(t.Context(), fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists, objects...), fixedVersion(minor))
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
	u.SetKind(kindHPA)
	return u
}

func TestASurveyFindsWhatObjectsDoWrong(t *testing.T) {
	loose := exactHPA("chat", "chat", "chat")
	loose.Spec.Behavior = nil
	foreign := exactHPA("by-cpu", "train", "x")
	foreign.Spec.Metrics = nil
	rival := fromYAML(t, `
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
	keda := fromYAML(t, `{apiVersion: apps/v1, kind: Deployment, metadata: {namespace: keda, name: keda-operator, labels: {app.kubernetes.io/name: keda-operator}}, spec: {template: {spec: {containers: [{image: "ghcr.io/kedacore/keda:2.13.1@sha256:1"}]}}}}`)
	s := surveyOf(t, "34", unstructuredHPA(t, loose), unstructuredHPA(t, foreign), rival, keda, fromYAML(t, takenAPIService), pool(t, "spot", nil))
	found := s.Judge([]scaling.Workload{workloadFor(loose, "chat")}, true, nil)
	var got []string
	for _, f := range found {
		got = append(got, f.Object+" "+f.What)
	}
	for _, want := range []string{"HorizontalPodAutoscaler " + loose.Namespace + "/chat Tolerance", "HorizontalPodAutoscaler " + loose.Namespace + "/chat StabilizationWindow",
		"Deployment " + foreign.Namespace + "/train TwoOwners", "APIService v1beta1.external.metrics.k8s.io ExternalMetricsUnavailable", "APIService v1beta1.external.metrics.k8s.io ExternalMetricsTaken",
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

func TestASurveyOfAClusterAsItShouldBeFindsNothing(t *testing.T) {
	h := exactHPA("chat", "chat", "chat")
	s := surveyOf(t, "36", unstructuredHPA(t, h), pool(t, "spot", nil), pool(t, "on-demand", nil))
	if found := s.Judge([]scaling.Workload{workloadFor(h, "chat")}, true, map[string]map[string]string{"chat": {"spot": "spot", "on-demand": "on-demand"}}); len(found) > 0 || s.Owner() != apiservice.NoOwner {
		t.Errorf("found %+v, owner %s", found, s.Owner())
	}
}

// Without policies an HPA that names one is not called wrong: which policies there are is not known.
func TestWithoutPoliciesNoneIsMissing(t *testing.T) {
	s := surveyOf(t, "36", unstructuredHPA(t, exactHPA("chat", "chat", "chat")))
	if found := s.Judge(nil, false, nil); len(found) > 0 {
		t.Errorf("found %+v", found)
	}
	if found := s.Judge(nil, true, nil); len(found) != 1 || found[0].What != UnknownPolicy || !found[0].Grave {
		t.Errorf("found %+v", found)
	}
}

// workloadFor decides for the HPA's target with its bounds.
func workloadFor(h *autoscalingv2.HorizontalPodAutoscaler, name string) scaling.Workload {
	return scaling.Workload{Key: scaling.Key{Namespace: h.Namespace, Name: name},
		Target: scaling.Target{APIVersion: "apps/v1", Kind: "Deployment", Name: h.Spec.ScaleTargetRef.Name},
		Policy: &scaling.Policy{MinReplicas: 0, MaxReplicas: h.Spec.MaxReplicas, CooldownPeriod: time.Minute}}
}

func TestVersionsAreReadFromTags(t *testing.T) {
	for text, want := range map[string][2]int{"2.21.0": {2, 21}, "v1.15.0": {1, 15}, "1.15": {1, 15}} {
		if major, minor, ok := versionOf(text); !ok || major != want[0] || minor != want[1] {
			t.Errorf("%q: %d.%d %v", text, major, minor, ok)
		}
	}
	for _, text := range []string{"", "latest", "main-abc", "sha"} {
		if _, _, ok := versionOf(text); ok {
			t.Errorf("%q is no version", text)
		}
	}
}
