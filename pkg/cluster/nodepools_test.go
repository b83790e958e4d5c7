package cluster

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// A write of ours makes Ready Unknown for a moment: that must not look like a
// pool that brings nothing.
func TestANodePoolIsClosedOnlyByConditionReadyFalse(t *testing.T) {
	for status, want := range map[string]bool{"True": true, "Unknown": true, "False": false} {
		u := &unstructured.Unstructured{Object: map[string]any{
			"status": map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": status}}},
		}}
		if got := poolOf(u).view.Ready; got != want {
			t.Errorf("Ready %s: %t, want %t", status, got, want)
		}
	}
	if !poolOf(&unstructured.Unstructured{Object: map[string]any{}}).view.Ready {
		t.Error("a NodePool that Karpenter has not looked at yet is closed")
	}
}
