package inspect

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const planPlatform = `apiVersion: gpuscaler.io/v1alpha1
kind: PlatformConfig
metadata: {name: prod}
spec:
  capacityGroups:
  - {name: chat, resource: nvidia.com/gpu, zeroLimit: true, nodePools: {spot: l40s-spot, on-demand: l40s-od},
     schedules: [{name: always, timezone: UTC, from: "2020-01-01", until: "2099-12-31", weight: 30, nodePools: [on-demand]}]}
`

const planPools = `apiVersion: v1
kind: List
items:
- apiVersion: karpenter.sh/v1
  kind: NodePool
  metadata: {name: l40s-spot, annotations: {gpuscaler.io/nudge: weight}}
  spec: {weight: 80, limits: {nvidia.com/gpu: 16}, template: {spec: {requirements: [{key: karpenter.sh/capacity-type, ` +
	`operator: In, values: [spot]}]}}}
  status: {conditions: [{type: Ready, status: "True"}]}
- apiVersion: karpenter.sh/v1
  kind: NodePool
  metadata: {name: l40s-od, annotations: {gpuscaler.io/nudge: "limits,weight,disruption"}}
  spec: {weight: 20, template: {spec: {requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}]}}}
  status: {conditions: [{type: Ready, status: "True"}]}
`

// planned returns the output of `gpuscaler capacity plan` for a PlatformConfig and a file with NodePools.
func planned(t *testing.T, platform, pools, output string) (string, error) {
	t.Helper()
	dir := t.TempDir()
	files := map[string]string{"platform.yaml": platform, "pools.yaml": pools}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	o := planOptions{config: []string{filepath.Join(dir, "platform.yaml")}, from: []string{filepath.Join(dir, "pools.yaml")}, output: output,
		ahead: 10 * time.Minute}
	var out bytes.Buffer
	err := o.run(t.Context(), &out)
	return out.String(), err
}

func TestPlanIsADiffWithRuleAndTime(t *testing.T) {
	text, err := planned(t, planPlatform, planPools, "text")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"capacity group chat (prefer spot)\n",
		"  NodePool l40s-od\n  - spec.weight: 20\n  + spec.weight: 30   # schedule, now\n  - spec.limits[nvidia.com/gpu]: (absent)\n  + " +
			"spec.limits[nvidia.com/gpu]: \"0\"   # zero limit, in 5m0s\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no\n%s in\n%s", want, text)
		}
	}
	if strings.Contains(text, "+ spec.limits[nvidia.com/gpu]: \"0\"   # zero limit, in 5m0s\n\n  NodePool l40s-spot") {
		t.Errorf("the plan contains a limit that gpuscaler may not set:\n%s", text)
	}
}

func TestPlanOfAnAdvisoryGroupIsTheSame(t *testing.T) {
	text, err := planned(t, strings.Replace(planPlatform, "zeroLimit: true", "zeroLimit: true, mode: advisory", 1), planPools, "json")
	if err != nil {
		t.Fatal(err)
	}
	var plan struct {
		Groups []struct {
			Advisory bool
			Changes  []plannedRow
		}
	}
	if err := json.Unmarshal([]byte(text), &plan); err != nil {
		t.Fatal(err)
	}
	if len(plan.Groups) != 1 || !plan.Groups[0].Advisory || len(plan.Groups[0].Changes) != 2 || plan.Groups[0].Changes[0] != (plannedRow{"0s",
		"NodePool l40s-od", "spec.weight", "30"}) {
		t.Errorf("plan %+v", plan)
	}
}

type plannedRow struct{ In, Object, Field, To string }

func TestPlanNeedsAGroupAndReadableFiles(t *testing.T) {
	if _, err := planned(t, strings.Split(planPlatform, "  capacityGroups")[0]+"  cluster: x\n", planPools,
		"text"); err == nil || !strings.Contains(err.Error(), "capacityGroups") {
		t.Errorf("without groups: %v", err)
	}
	if _, err := planned(t, planPlatform, "kind: [", "text"); err == nil || !strings.Contains(err.Error(), "pools.yaml") {
		t.Errorf("a broken file: %v", err)
	}
	if _, err := planned(t, planPlatform, planPools, "yaml"); err == nil {
		t.Error("an unknown output format is accepted")
	}
}
