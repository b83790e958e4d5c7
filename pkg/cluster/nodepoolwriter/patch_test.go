package nodepoolwriter

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/karpenter"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/ownership"
)

// patchServer is a fake API server with one NodePool. It applies JSON patches, changes the resource version with each, and records the type
// of each patch.
type patchServer struct {
	t       *testing.T
	current *unstructured.Unstructured
	kinds   []types.PatchType
	applied string // the body of the last server-side apply
}

func (s *patchServer) patch(action clienttesting.Action) (bool, runtime.Object, error) {
	a := action.(clienttesting.PatchAction)
	s.kinds = append(s.kinds, a.GetPatchType())
	if a.GetPatchType() == types.ApplyPatchType {
		s.applied = strings.TrimSpace(string(a.GetPatch()))
		return true, s.current, nil
	}
	operations, err := jsonpatch.DecodePatch(a.GetPatch())
	if err != nil {
		s.t.Fatal(err)
	}
	before, err := s.current.MarshalJSON()
	if err != nil {
		s.t.Fatal(err)
	}
	after, err := operations.Apply(before)
	if err != nil {
		s.t.Fatalf("%v in %s", err, a.GetPatch())
	}
	next := &unstructured.Unstructured{}
	if err := next.UnmarshalJSON(after); err != nil {
		s.t.Fatal(err)
	}
	if next.GetResourceVersion() != s.current.GetResourceVersion() {
		s.t.Errorf("a patch of version %s, the NodePool has version %s", next.GetResourceVersion(), s.current.GetResourceVersion())
	}
	next.SetResourceVersion(next.GetResourceVersion() + "0")
	s.current = next
	return true, next, nil
}

// TestRestoreReturnsTheValueAndItsOwner sends one patch for three overridden fields. The limit gets its original value and its owner
// kubectl again. The weight did not exist before and is removed. The override of consolidateAfter remains.
func TestRestoreReturnsTheValueAndItsOwner(t *testing.T) {
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "spec": map[string]any{
		"weight": int64(90), "limits": map[string]any{"nvidia.com/gpu": int64(0), "cpu": "400"},
		"disruption": map[string]any{"consolidateAfter": "Never"},
	}}}
	u.SetName("l40s-spot")
	u.SetResourceVersion("1")
	u.SetManagedFields([]metav1.ManagedFieldsEntry{
		{Manager: "kubectl", Operation: "Update", APIVersion: "karpenter.sh/v1", FieldsType: "FieldsV1",
			FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:spec":{"f:limits":{"f:cpu":{}}}}`)}},
		{Manager: ownership.Manager, Operation: "Apply", APIVersion: "karpenter.sh/v1", FieldsType: "FieldsV1",
			FieldsV1: &metav1.FieldsV1{Raw: []byte(
				`{"f:spec":{"f:weight":{},"f:limits":{"f:nvidia.com/gpu":{}},"f:disruption":{"f:consolidateAfter":{}}}}`)}},
	})
	s := &patchServer{t: t, current: u}
	client := dynamicfake.NewSimpleDynamicClient(runtime.NewScheme())
	client.PrependReactor("patch", "nodepools", s.patch)
	w := New(Options{Client: client, Release: "gpuscaler-system/gpuscaler", Writes: NewWritesMetric(), Log: slog.New(slog.DiscardHandler)})
	frozen := capacity.Change{Field: capacity.FieldConsolidateAfter, To: `"Never"`, Original: `"1m"`}
	err := w.Patch(context.Background(), capacity.NodePoolPatch{
		Pool: "l40s-spot", Record: `{"v":1}`, Overrides: []capacity.Change{frozen},
		Changes: []capacity.Change{
			{Field: capacity.FieldLimit, Resource: "nvidia.com/gpu", From: "0", To: "16", Original: "16", Owner: "kubectl/Update", Restore: true},
			{Field: capacity.FieldWeight, From: "90", To: "", Restore: true},
		},
	}, karpenter.DecodeNodePool(u))
	if err != nil {
		t.Fatal(err)
	}
	if want := []types.PatchType{types.JSONPatchType, types.JSONPatchType, types.ApplyPatchType}; !slices.Equal(s.kinds, want) {
		t.Errorf("patches %v, want values, ownership and apply", s.kinds)
	}
	spec := fmt.Sprint(s.current.Object["spec"])
	if want := "map[disruption:map[consolidateAfter:Never] limits:map[cpu:400 nvidia.com/gpu:16]]"; spec != want {
		t.Errorf("spec %s, want %s", spec, want)
	}
	owned := ownership.Read(s.current.GetManagedFields())
	if got := fmt.Sprint(owned.Owners("spec", "limits", "nvidia.com/gpu"), owned.Owners("spec", "weight")); got != "[kubectl/Update] []" {
		t.Errorf("owners of the limit and the weight: %s", got)
	}
	want := `{"apiVersion":"karpenter.sh/v1","kind":"NodePool",` +
		`"metadata":{"annotations":{"gpuscaler.io/holder":"gpuscaler-system/gpuscaler",` +
		`"gpuscaler.io/record":"{\"v\":1}"},"name":"l40s-spot","resourceVersion":"100"},"spec":{"disruption":{"consolidateAfter":"Never"}}}`
	if s.applied != want {
		t.Errorf("applied %s\nwant %s", s.applied, want)
	}
}
