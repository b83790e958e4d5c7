package nodepoolwriter

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/nodepool"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/override"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/karpenter"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/ownership"
)

// patchServer is a fake API server with one NodePool. It applies JSON patches, changes the resource version with each patch, and records
// the type of each patch.
type patchServer struct {
	t       *testing.T
	current *unstructured.Unstructured
	kinds   []types.PatchType
	applied string // the body of the last server-side apply

	losesAfter int // number of requests after which the Lease is lost; 0: the Lease is never lost
	lost       bool
}

func (s *patchServer) patch(action clienttesting.Action) (bool, runtime.Object, error) {
	a := action.(clienttesting.PatchAction)
	s.kinds = append(s.kinds, a.GetPatchType())
	s.lost = s.lost || len(s.kinds) == s.losesAfter
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

// newPatchServer returns a fake API server with a NodePool of which gpuscaler overrides three fields, and a writer for the NodePool.
func newPatchServer(t *testing.T) (*Writer, *patchServer, *unstructured.Unstructured) {
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "spec": map[string]any{
		"weight": int64(90), "limits": map[string]any{"nvidia.com/gpu": int64(0), "cpu": "400"},
		"disruption": map[string]any{"consolidateAfter": "Never"},
	}}}
	u.SetUID("pool-1")
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
	w := New(Options{Client: client, Release: "gpuscaler-system/gpuscaler", Writes: NewWritesMetric(), Log: slog.New(slog.DiscardHandler),
		Leading: func() bool { return !s.lost }})
	return w, s, u
}

// restoredAndFrozen returns a patch that restores the limit and the weight, and keeps the override of consolidateAfter.
func restoredAndFrozen() capacity.NodePoolPatch {
	frozen := override.Change{Field: nodepool.FieldConsolidateAfter, To: `"Never"`, Original: `"1m"`}
	return capacity.NodePoolPatch{Pool: "l40s-spot", Patch: override.Patch{
		Record: `{"v":1}`, Overrides: []override.Change{frozen},
		Changes: []override.Change{
			{Field: nodepool.FieldLimit, Resource: "nvidia.com/gpu", From: "0", To: "16", Original: "16", Owner: "kubectl/Update", Restore: true},
			{Field: nodepool.FieldWeight, From: "90", To: "", Restore: true},
		},
	}}
}

// A process that is suspended between two requests of a patch for longer than its Lease must not send the second request.
func TestRequestIsNotSentAfterTheLeaseWasLost(t *testing.T) {
	for requests := range 3 {
		w, s, u := newPatchServer(t)
		s.losesAfter = requests
		s.lost = requests == 0
		err := w.Patch(context.Background(), restoredAndFrozen(), karpenter.DecodeNodePool(u))
		if len(s.kinds) != requests || err == nil || !strings.Contains(err.Error(), "Lease") {
			t.Errorf("Lease lost after %d requests: sent %v, %v", requests, s.kinds, err)
		}
	}
}

// A newer version of gpuscaler wrote the record annotation. This version must not change the record, because an apply would remove fields
// that only the newer version knows.
func TestPatchThatKeepsTheRecordAppliesNothing(t *testing.T) {
	w, s, u := newPatchServer(t)
	p := restoredAndFrozen()
	p.Record, p.Overrides, p.KeepsRecord = `{"v":2}`, nil, true
	if err := w.Patch(context.Background(), p, karpenter.DecodeNodePool(u)); err != nil {
		t.Fatal(err)
	}
	if want := []types.PatchType{types.JSONPatchType, types.JSONPatchType}; !slices.Equal(s.kinds, want) {
		t.Errorf("requests %v, want %v", s.kinds, want)
	}
	owned := ownership.Read(s.current.GetManagedFields())
	if kept := owned.Owners("spec", "disruption", "consolidateAfter"); len(kept) != 1 || kept[0].Manager != ownership.Manager {
		t.Errorf("consolidateAfter is owned by %v, want gpuscaler", kept)
	}
}

// TestRestoreReturnsTheValueAndItsOwner sends one patch for three overridden fields. The limit must have its original value and its
// original owner kubectl again. The weight did not exist before the override and must be removed. The override of consolidateAfter must
// remain.
func TestRestoreReturnsTheValueAndItsOwner(t *testing.T) {
	w, s, u := newPatchServer(t)
	if err := w.Patch(context.Background(), restoredAndFrozen(), karpenter.DecodeNodePool(u)); err != nil {
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
		`"gpuscaler.io/record":"{\"v\":1}"},"name":"l40s-spot","resourceVersion":"100","uid":"pool-1"},` +
		`"spec":{"disruption":{"consolidateAfter":"Never"}}}`
	if s.applied != want {
		t.Errorf("applied %s\nwant %s", s.applied, want)
	}
}

// The owner of the NodePool removes the field weight, and gpuscaler restores the NodePool by removing the same field. The cache has not
// received the owner's change yet. The API server executes the patch before it compares versions, and returns 422 because the field does
// not exist. This response must count as a conflict, so that the next tick decides with the new version.
func TestRestoreFromAnOldVersionIsAConflict(t *testing.T) {
	for name, c := range map[string]struct {
		current string // version in the API server
		result  string // the result under which the metric counts the patch
		level   slog.Level
	}{
		"the cache is old":     {"8", "conflict", slog.LevelInfo},
		"the cache is current": {"7", "failed", slog.LevelError},
	} {
		stored := newNodePool(c.current)
		client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
			map[schema.GroupVersionResource]string{karpenter.NodePools: "NodePoolList"}, stored)
		client.PrependReactor("patch", "nodepools", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "",
				"remove operation does not apply: doc is missing path: /spec/weight: missing value", 0, false)
		})
		var log bytes.Buffer
		w := New(Options{Client: client, Leading: func() bool { return true },
			OverriddenByOther: func(context.Context, *karpenter.NodePool) string { return "" },
			Current:           func(string) *karpenter.NodePool { return nil },
			Writes:            NewWritesMetric(), Log: slog.New(slog.NewTextHandler(&log, nil))})
		removed := override.Change{Field: nodepool.FieldWeight, From: "81", Restore: true}
		patch := override.Patch{Changes: []override.Change{removed}}
		w.Write(capacity.NodePoolPatch{Pool: "spot", Patch: patch}, karpenter.DecodeNodePool(newNodePool("7")))
		if n := testutil.ToFloat64(w.options.Writes.WithLabelValues("nodepool", c.result)); n != 1 {
			t.Errorf("%s: %v writes counted as %s", name, n, c.result)
		}
		want, cause := "level="+c.level.String(), "the server rejected our request"
		if !strings.Contains(log.String(), want) || !strings.Contains(log.String(), cause) {
			t.Errorf("%s: the log lacks %s or the cause: %s", name, want, log.String())
		}
	}
}

// The alert NodeWritesFailing needs every series before the first failure, because Prometheus observes no increase from a missing series to
// 1.
func TestEveryResultOfWritesIsCountedFromZero(t *testing.T) {
	if n := testutil.CollectAndCount(NewWritesMetric()); n != 9 {
		t.Errorf("%d series before the first write, want 3 objects with 3 results", n)
	}
}

// newNodePool returns the NodePool spot with a weight and the given resource version.
func newNodePool(version string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "karpenter.sh/v1", "kind": "NodePool",
		"metadata": map[string]any{"name": "spot"}, "spec": map[string]any{"weight": int64(81)}}}
	u.SetResourceVersion(version)
	return u
}

// The record annotation contains only the fields of Overrides. A patch that changes another field must be refused before any request,
// because the original value of that field would be lost.
func TestFieldWithoutARecordIsNotWritten(t *testing.T) {
	weight := override.Change{Field: nodepool.FieldWeight, From: "20", To: "81", Original: "20"}
	lower := weight
	lower.To = "79"
	for name, overrides := range map[string][]override.Change{"not listed": nil, "listed with another value": {lower}} {
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "karpenter.sh/v1", "kind": "NodePool",
			"metadata": map[string]any{"name": "l40s-spot", "resourceVersion": "1"}, "spec": map[string]any{"weight": int64(20)}}}
		s := &patchServer{t: t, current: u}
		client := dynamicfake.NewSimpleDynamicClient(runtime.NewScheme())
		client.PrependReactor("patch", "nodepools", s.patch)
		w := New(Options{Client: client, Writes: NewWritesMetric(), Log: slog.New(slog.DiscardHandler), Leading: func() bool { return true }})
		p := capacity.NodePoolPatch{Pool: "l40s-spot",
			Patch: override.Patch{Record: `{"v":1}`, Changes: []override.Change{weight}, Overrides: overrides}}
		err := w.Patch(context.Background(), p, karpenter.DecodeNodePool(u))
		if err == nil || !strings.Contains(err.Error(), "NodePool l40s-spot: weight") || len(s.kinds) > 0 {
			t.Errorf("%s: %v after the requests %v", name, err, s.kinds)
		}
	}
}
