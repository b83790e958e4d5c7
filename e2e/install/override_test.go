package install

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/gpuscaler/gpuscaler/e2e/stack"
)

// nudging is a capacity group with a schedule that is always open and overrides the weight, the limits and the disruption settings of the
// group's NodePools.
var nudging = []any{map[string]any{
	"name": "gpu", "resource": "nvidia.com/gpu", "nodePools": map[string]any{"spot": "nudged-spot", "on-demand": "nudged-od"},
	"schedules": []any{map[string]any{
		"name": "always", "timezone": "UTC", "from": "2020-01-01", "until": "2099-12-31",
		"weight": 33, "limits": map[string]any{"nvidia.com/gpu": 4}, "disruption": map[string]any{"consolidateAfter": "Never"},
	}},
}}

const nudgedPool = `apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: NAME, annotations: {gpuscaler.io/nudge: "limits,weight,disruption", team: ml}}
spec:
  weight: 80
  limits: {nvidia.com/gpu: 16, cpu: "1000"}
  disruption: {consolidateAfter: 30s, consolidationPolicy: WhenEmpty}
  template:
    spec:
      nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}
      requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [TYPE]}]
`

// nudge creates two NodePools, one with kubectl and one with Argo CD, and waits until the chart's pods override their fields. The
// returned check fails if an override is left.
func nudge(t *testing.T) (whole func() error) {
	t.Helper()
	before := map[string]string{}
	for name, kind := range map[string]string{"nudged-spot": "spot", "nudged-od": "on-demand"} {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(strings.NewReplacer("NAME", name, "TYPE", kind).Replace(nudgedPool)), &u.Object); err != nil {
			t.Fatal(err)
		}
		var err error
		if kind == "spot" {
			err = cluster.Client.Create(t.Context(), u.DeepCopy(), client.FieldOwner("kubectl-client-side-apply"))
		} else {
			err = cluster.Client.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(u.DeepCopy()), client.FieldOwner("argocd-controller"))
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cluster.Client.Delete(context.Background(), u) })
		original, _, _ := unstructured.NestedMap(u.Object, "spec")
		original["disruption"].(map[string]any)["budgets"] = []any{map[string]any{"nodes": "10%"}} // the CRD sets this default
		original["template"].(map[string]any)["spec"].(map[string]any)["expireAfter"] = "720h"
		text, err := json.Marshal(original)
		if err != nil {
			t.Fatal(err)
		}
		before[name] = string(text)
	}
	stack.Eventually(t, time.Minute, "both NodePools have overrides", func(ctx context.Context) error {
		for name := range before {
			u := get(ctx, name)
			weight, _, _ := unstructured.NestedInt64(u.Object, "spec", "weight")
			limit, _, _ := unstructured.NestedFieldNoCopy(u.Object, "spec", "limits", "nvidia.com/gpu")
			after, _, _ := unstructured.NestedString(u.Object, "spec", "disruption", "consolidateAfter")
			if weight != 33 || fmt.Sprint(limit) != "4" || after != "Never" {
				return fmt.Errorf("%s: weight %d, limit %v, consolidateAfter %s", name, weight, limit, after)
			}
		}
		return nil
	})
	return func() error {
		for name, want := range before {
			u := get(t.Context(), name)
			spec, _ := json.Marshal(u.Object["spec"])
			if string(spec) != want {
				return fmt.Errorf("%s differs:\n%s\nbefore:\n%s", name, spec, want)
			}
			if a := u.GetAnnotations(); len(a) != 2 || a["team"] != "ml" {
				return fmt.Errorf("%s: annotations %v", name, a)
			}
			owners := []string{}
			for _, m := range u.GetManagedFields() {
				owners = append(owners, m.Manager)
			}
			if !slices.Equal(owners, []string{map[string]string{"nudged-spot": "kubectl-client-side-apply",
				"nudged-od": "argocd-controller"}[name]}) {
				return fmt.Errorf("fields of %s are owned by %v", name, owners)
			}
		}
		return nil
	}
}

func get(ctx context.Context, name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion("karpenter.sh/v1")
	u.SetKind("NodePool")
	if err := cluster.Client.Get(ctx, client.ObjectKey{Name: name}, u); err != nil {
		u.Object = map[string]any{}
	}
	return u
}
