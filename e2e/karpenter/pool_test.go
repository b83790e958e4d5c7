package karpenter_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscaler/gpuscaler/e2e/karpenter"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
)

// pool describes a NodePool of a test.
type pool struct {
	name, kind string // kind is a capacity type
	weight     int64
	limit      any // GPU limit; nil: no limit
	nudge      string
	by         style
	after      string                    // consolidateAfter
	edit       func(spec map[string]any) // changes the spec; nil: no change
}

// style is the way in which a NodePool is created. It determines the field managers that own its fields.
type style string

const (
	clientSide style = "kubectl apply"
	updated    style = "create, then edit"
	serverSide style = "server-side apply"
)

// suite returns the name of the test to which the pool belongs: the part of the pool's name before the first hyphen.
func (p pool) suite() string {
	name, _, _ := strings.Cut(p.name, "-")
	return name
}

// instance returns the instance type of the NodePool: the type that the map market contains for the test or, without such a type, the
// type that the remaining tests share.
func (p pool) instance() string {
	if own, has := market[p.suite()]; has {
		return own.Name
	}
	return common.Name
}

func (p pool) object() *unstructured.Unstructured {
	after := p.after
	if after == "" {
		after = "1s"
	}
	spec := map[string]any{
		"weight":     p.weight,
		"disruption": map[string]any{"consolidateAfter": after, "consolidationPolicy": "WhenEmpty"},
		"template": map[string]any{
			"metadata": map[string]any{"labels": map[string]any{"pool": p.name, "suite": p.suite()}},
			"spec": map[string]any{
				"nodeClassRef": map[string]any{"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": karpenter.NodeClass},
				"requirements": []any{
					map[string]any{"key": "karpenter.sh/capacity-type", "operator": "In", "values": []any{p.kind}},
					map[string]any{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": []any{p.instance()}},
				},
			},
		},
	}
	if p.by == clientSide { // NodePools of other styles have the default budget of 10%, which has no field manager
		spec["disruption"].(map[string]any)["budgets"] = []any{map[string]any{"nodes": "100%"}}
	}
	if p.limit != nil {
		spec["limits"] = map[string]any{"nvidia.com/gpu": p.limit, "cpu": "1000"}
	}
	if p.edit != nil {
		p.edit(spec)
	}
	u := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	u.SetAPIVersion("karpenter.sh/v1")
	u.SetKind("NodePool")
	u.SetName(p.name)
	if p.nudge != "" {
		u.SetAnnotations(map[string]string{"gpuscaler.io/nudge": p.nudge})
	}
	return u
}

// create creates a NodePool in the way that p.by specifies, and deletes it at the end of the test.
func (p pool) create(t *testing.T) {
	t.Helper()
	u, c := p.object(), suite.Client
	var err error
	switch p.by {
	case serverSide:
		err = c.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(u), client.FieldOwner("argocd-controller"))
	case updated:
		edit := fmt.Appendf(nil, `{"spec":{"weight":%d}}`, p.weight)
		p.weight++
		if err = c.Create(t.Context(), p.object(), client.FieldOwner("kubectl-create")); err == nil {
			err = c.Patch(t.Context(), p.object(), client.RawPatch(types.MergePatchType, edit), client.FieldOwner("kubectl-edit"))
		}
	default:
		text, _ := json.Marshal(u.Object)
		annotations := u.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations["kubectl.kubernetes.io/last-applied-configuration"] = string(text)
		u.SetAnnotations(annotations)
		err = c.Create(t.Context(), u, client.FieldOwner("kubectl-client-side-apply"))
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Delete(context.Background(), p.object()); client.IgnoreNotFound(err) != nil {
			t.Error(err)
		}
	})
	stack.Eventually(t, 30*time.Second, "NodePool "+p.name+" is Ready", func(ctx context.Context) error {
		u := p.get(ctx)
		conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
		for _, c := range conditions {
			if c.(map[string]any)["type"] == "Ready" && c.(map[string]any)["status"] == "True" {
				return nil
			}
		}
		return fmt.Errorf("conditions %v", conditions)
	})
}

func (p pool) get(ctx context.Context) *unstructured.Unstructured {
	u := p.object()
	if err := suite.Client.Get(ctx, client.ObjectKeyFromObject(u), u); err != nil {
		return &unstructured.Unstructured{Object: map[string]any{}}
	}
	return u
}

// content returns, as text, everything in a NodePool that gpuscaler must restore: the spec, the annotations, and the owners of the
// fields.
func (p pool) content(t *testing.T) string {
	t.Helper()
	u := p.get(t.Context())
	spec, err := json.Marshal(u.Object["spec"])
	if err != nil {
		t.Fatal(err)
	}
	var owners []string
	for _, m := range u.GetManagedFields() {
		if m.Subresource == "" && m.Manager != "karpenter" && !strings.HasPrefix(m.Manager, "karpenter") {
			owners = append(owners, fmt.Sprintf("%s/%s %s", m.Manager, m.Operation, normal(m.FieldsV1.Raw)))
		}
	}
	slices.Sort(owners)
	return fmt.Sprintf("spec %s\nannotations %v\n%s", spec, u.GetAnnotations(), strings.Join(owners, "\n"))
}

// normal returns JSON with sorted keys.
func normal(raw []byte) string {
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		return err.Error()
	}
	text, _ := json.Marshal(v) // cannot fail, because the value was decoded from JSON
	return string(text)
}

// hash returns the hash by which Karpenter detects drift.
func (p pool) hash(ctx context.Context) string {
	return p.get(ctx).GetAnnotations()["karpenter.sh/nodepool-hash"]
}

func (p pool) limitNow(ctx context.Context) string {
	v, found, _ := unstructured.NestedFieldNoCopy(p.get(ctx).Object, "spec", "limits", "nvidia.com/gpu")
	if !found {
		return "absent"
	}
	return fmt.Sprint(v)
}
