package nodepoolwriter_test

import (
	"context"
	"fmt"
	"log/slog"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/yaml"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/nodepool"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/override"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/fixture"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/karpenter"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/nodepoolwriter"
)

// A zero limit is written by server-side apply, together with the record annotation, which contains the original value of the limit.
func ExampleWriter_Write() {
	pool := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(fixture.SpotNodePool), &pool.Object); err != nil {
		fmt.Println(err)
		return
	}
	client := dynamicfake.NewSimpleDynamicClient(runtime.NewScheme())
	client.PrependReactor("patch", "nodepools", func(a clienttesting.Action) (bool, runtime.Object, error) {
		patch := a.(clienttesting.PatchAction)
		fmt.Println(patch.GetPatchType())
		var applied unstructured.Unstructured
		if err := applied.UnmarshalJSON(patch.GetPatch()); err != nil {
			return true, nil, err
		}
		fmt.Println(applied.GetAnnotations(), applied.Object["spec"])
		return true, pool, nil
	})
	base := karpenter.DecodeNodePool(pool)
	writer := nodepoolwriter.New(nodepoolwriter.Options{
		Client: client, Leading: func() bool { return true }, OverriddenByOther: func(context.Context, *karpenter.NodePool) string { return "" },
		Current: func(string) *karpenter.NodePool { return base },
		Event: func(about corev1.ObjectReference, _, reason, _ string) {
			fmt.Println("Event", reason, "about", about.Kind, about.Name)
		},
		Writes: nodepoolwriter.NewWritesMetric(), Log: slog.New(slog.DiscardHandler),
	})
	zero := override.Change{Field: nodepool.FieldLimit, Resource: "nvidia.com/gpu", From: "16", To: `"0"`, Original: "16"}
	writer.Write(capacity.NodePoolPatch{Pool: "l40s-spot", Patch: override.Patch{
		Record: `{"v":1}`, Overrides: []override.Change{zero}, Changes: []override.Change{zero},
	}}, base)
	// Output:
	// application/apply-patch+yaml
	// map[gpuscaler.io/record:{"v":1}] map[limits:map[nvidia.com/gpu:0]]
	// Event NodePoolOverridden about NodePool l40s-spot
}
