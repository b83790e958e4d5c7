package karpenter

import (
	"maps"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/fixture"
)

func decode(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatal(err)
	}
	return u
}

func decodeNodePool(t *testing.T, text string) *NodePool {
	t.Helper()
	p := DecodeNodePool(decode(t, text))
	if p.Err != nil {
		t.Fatal(p.Err)
	}
	return p
}

// If gpuscaler is the field manager of a NodePool's record annotation, gpuscaler wrote it. A tool that creates a NodePool from a copy of
// another NodePool becomes the field manager of the copied annotation, so this record must not count as gpuscaler's.
func TestOwnerOfARecord(t *testing.T) {
	for manager, ours := range map[string]bool{"gpuscaler": true, "velero-server": false} {
		p := decodeNodePool(t, `{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: a, annotations: {gpuscaler.io/record: "{}"},
  managedFields: [{manager: `+manager+`, operation: Apply, fieldsType: FieldsV1,
    fieldsV1: {"f:metadata": {"f:annotations": {"f:gpuscaler.io/record": {}}}}}]}}`)
		if v := p.View(groupOf(t, "nvidia.com/gpu"), nil, Schema{}); v.RecordOurs != ours || v.Record != "{}" {
			t.Errorf("written by %s: record %q, ours %t", manager, v.Record, v.RecordOurs)
		}
	}
}

func TestViewOfANodePool(t *testing.T) {
	p := decodeNodePool(t, fixture.SpotNodePool)
	p.Object.SetUID("a")
	p = DecodeNodePool(p.Object)
	v := p.View(groupOf(t, "nvidia.com/gpu"), nil, Schema{Known: true, Limits: true, Weight: true, Budgets: true})
	if !v.Exists || v.UID != "a" || !v.Ready || v.Mixed || v.NodeGPUs != 8 || v.Usage != 3 {
		t.Errorf("view %+v", v)
	}
	if v.Weight.Value != "80" || v.Template != "1" || v.Consent.String() != "limits,weight" {
		t.Errorf("view %+v", v)
	}
	if v.Budgets.Value != `[{"nodes":"10%"}]` || v.ConsolidateAfter.Value != `"1m"` ||
		!v.ConsolidateAfter.Unsupported || v.Budgets.Unsupported {
		t.Errorf("disruption %+v %+v", v.Budgets, v.ConsolidateAfter)
	}
	if len(v.Limits) != 2 || v.Limits[0].Resource != "cpu" || v.Limits[0].Value != `"400"` || v.Limits[1].Value != `16` {
		t.Errorf("limits %+v", v.Limits)
	}
	mig := p.View(groupOf(t, "nvidia.com/mig-1g.10gb"), nil, Schema{})
	if len(mig.Limits) != 3 || mig.Limits[2].Value != "" || !mig.Limits[2].Unsupported || mig.Usage != 0 {
		t.Errorf("another resource: %+v", mig.Limits)
	}
	static := decodeNodePool(t, `{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: s}, spec: {replicas: 2}}`)
	v = static.View(groupOf(t, "nvidia.com/gpu"), nil, Schema{Known: true, Limits: true, Weight: true})
	if !v.Weight.Unsupported || !v.Limits[0].Unsupported || !v.Mixed {
		t.Errorf("a static NodePool supports a weight or a GPU limit: %+v", v)
	}
}

// A disruption budget of 0 nodes with a schedule is a quiet time (a time without replacement of drifted nodes) if its reasons include
// Drifted or it has no reasons. The schedule can be a descriptor of cron, such as @daily.
func TestQuietTimesOfANodePool(t *testing.T) {
	decoded := decodeNodePool(t, `{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: s}, spec: {disruption: {budgets: [
		{nodes: "10%"}, {nodes: "0"}, {nodes: "0", schedule: "0 8 * * 1-5", duration: 10h},
		{nodes: "0%", schedule: "@daily", duration: 2h, reasons: [Drifted, Empty]},
		{nodes: "0", schedule: "@hourly", duration: 5m, reasons: [Underutilized]}, {nodes: "1", schedule: "0 20 * * *", duration: 1h},
		{nodes: "0", schedule: "61 8 * * *", duration: 1h}]}}}`)
	quiet := decoded.View(groupOf(t, "nvidia.com/gpu"), nil, Schema{}).Quiet
	if len(quiet) != 2 || quiet[0].Duration != 10*time.Hour || quiet[1].Duration != 2*time.Hour {
		t.Fatalf("quiet times %+v", quiet)
	}
	for i, want := range []string{"2026-11-20T08:00:00Z", "2026-11-22T00:00:00Z"} { // Friday and Sunday
		start, _ := quiet[i].Start.AtOrBefore(time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC))
		if got := start.Format(time.RFC3339); got != want {
			t.Errorf("quiet time %d began at %s, want %s", i, got, want)
		}
	}
}

// groupOf returns a capacity group with one NodePool. The group counts the given resource.
func groupOf(t *testing.T, resource string) *capacity.Group {
	t.Helper()
	g, err := capacity.NewGroup(capacity.Group{Name: "g", Resource: resource, Pools: []capacity.Pool{{Name: "p"}}})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestLimitsHaveUsageAndSmallestNode(t *testing.T) {
	p := decodeNodePool(t, `
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: p}
spec: {limits: {nvidia.com/gpu: "8", cpu: 100, memory: 300Gi, nodes: 4}, template: {spec: {requirements: []}}}
status: {resources: {nvidia.com/gpu: "2", cpu: "12", memory: "20Gi", nodes: "2"}}`)
	claim := func(name, capacity string) *NodeClaim {
		return DecodeNodeClaim(decode(t, `
apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata: {name: `+name+`, labels: {karpenter.sh/nodepool: p}}
spec: {resources: {requests: {nvidia.com/gpu: "1", cpu: 100m, memory: 1Mi}}}
status: {capacity: `+capacity+`}`))
	}
	claims := []*NodeClaim{
		claim("a", `{nvidia.com/gpu: "1", cpu: "7910m", memory: 64Gi}`), claim("b", `{nvidia.com/gpu: "1", cpu: "4", memory: 64Gi}`),
		claim("not-launched", `{}`),
	}
	v := p.View(groupOf(t, "nvidia.com/gpu"), claims, Schema{Limits: true})
	got := map[string][2]float64{}
	for _, l := range v.Limits {
		got[l.Resource] = [2]float64{l.Used, l.Node}
	}
	want := map[string][2]float64{"nvidia.com/gpu": {2, 1}, "cpu": {12, 4}, "memory": {128 << 30, 64 << 30}, "nodes": {2, 0}}
	if !maps.Equal(got, want) {
		t.Errorf("used, and least of one node: %v, want %v", got, want)
	}
}

func TestNodePoolIsMixedIfItMayLaunchSpotAndAnotherCapacityType(t *testing.T) {
	for requirement, want := range map[string]bool{
		`{key: karpenter.sh/capacity-type, operator: In, values: [reserved, on-demand]}`: false, // from Karpenter's documentation of reservations
		`{key: karpenter.sh/capacity-type, operator: NotIn, values: [spot]}`:             false,
		`{key: karpenter.sh/capacity-type, operator: In, values: [reserved]}`:            false,
		`{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}`:           false,
		`{key: karpenter.sh/capacity-type, operator: In, values: [spot]}`:                false,
		`{key: karpenter.sh/capacity-type, operator: In, values: [spot, reserved]}`:      true,
		`{key: karpenter.sh/capacity-type, operator: In, values: [spot, on-demand]}`:     true,
		`{key: karpenter.sh/capacity-type, operator: Exists}`:                            true,
		`{key: kubernetes.io/arch, operator: In, values: [amd64]}`:                       true,
	} {
		p := decodeNodePool(t, `{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: p}, spec: {template: {spec: {requirements: [`+
			requirement+`]}}}}`)
		if got := p.View(groupOf(t, "nvidia.com/gpu"), nil, Schema{}).Mixed; got != want {
			t.Errorf("%s: mixed %v, want %v", requirement, got, want)
		}
	}
}

// A NodePool of only on-demand nodes can contain instances that are paid for in advance. If the group lists such a NodePool as reserved,
// the NodePool must stay reserved, so LaunchesOnDemand is false.
func TestNodePoolThatLaunchesOnDemandNodesBesidesReservedNodes(t *testing.T) {
	for values, want := range map[string]bool{"[reserved]": false, "[spot]": false, "[reserved, on-demand]": true, "[on-demand]": false} {
		p := decodeNodePool(t, `{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: p}, spec: {template: {spec: {requirements: [`+
			`{key: karpenter.sh/capacity-type, operator: In, values: `+values+`}]}}}}`)
		if got := p.View(groupOf(t, "nvidia.com/gpu"), nil, Schema{}).LaunchesOnDemand; got != want {
			t.Errorf("%s: launches on-demand nodes %v, want %v", values, got, want)
		}
	}
}

// After a change of the spec, the condition Ready is Unknown until Karpenter has checked the NodePool. Karpenter launches nodes during that
// time, so the NodePool must count as ready.
func TestNodePoolIsNotReadyOnlyIfTheConditionIsFalse(t *testing.T) {
	for status, want := range map[string]bool{"True": true, "Unknown": true, "False": false} {
		u := &unstructured.Unstructured{Object: map[string]any{
			"status": map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": status}}},
		}}
		if got := DecodeNodePool(u).view.Ready; got != want {
			t.Errorf("Ready %s: %t, want %t", status, got, want)
		}
	}
	if !DecodeNodePool(&unstructured.Unstructured{Object: map[string]any{}}).view.Ready {
		t.Error("a NodePool without conditions is not ready")
	}
}

func TestUndecodableNodePoolKeepsItsFieldsAndReportsWhy(t *testing.T) {
	old := DecodeNodePool(decode(t, strings.Replace(fixture.SpotNodePool, "karpenter.sh/v1", "karpenter.sh/v1beta1", 1)))
	if old.Err == nil || !strings.Contains(old.Err.Error(), "kubectl get nodepools.v1.karpenter.sh") || old.view.Weight.Value != "80" {
		t.Errorf("v1beta1: %v, view %+v", old.Err, old.view)
	}
	broken := DecodeNodePool(decode(t, strings.Replace(fixture.SpotNodePool, "labels: {pool: l40s}", "labels: [pool]", 1)))
	if broken.Err == nil || len(broken.view.Limits) != 2 || !broken.view.Exists {
		t.Errorf("broken template: %v, view %+v", broken.Err, broken.view)
	}
}
