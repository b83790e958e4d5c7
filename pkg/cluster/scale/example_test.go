package scale_test

import (
	"context"
	"fmt"
	"log/slog"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/cache"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/fixture"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/scale"
)

// received passes the scale targets that a Reader has read to the example.
type received chan *cache.Target

func (r received) PutTarget(t *cache.Target) { r <- t }
func (r received) DropTarget(cache.Ref)      {}

// An Argo Rollout changes. The Reader reads the Rollout's replicas and selector from /scale.
func ExampleReader_Run() {
	client := dynamicfake.NewSimpleDynamicClient(runtime.NewScheme())
	client.PrependReactor("get", "rollouts", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, &unstructured.Unstructured{Object: map[string]any{"apiVersion": "autoscaling/v1", "kind": "Scale",
			"spec": map[string]any{"replicas": int64(3)}, "status": map[string]any{"selector": "app=chat"}}}, nil
	})
	targets := make(received)
	r := scale.NewReader(targets, client, func(k schema.GroupKind) (schema.GroupVersionResource, bool) {
		return schema.GroupVersionResource{Group: k.Group, Version: "v1alpha1", Resource: "rollouts"}, true
	}, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go r.Run(ctx)

	kind, _ := cache.ParseScaleKind("Rollout.v1alpha1.argoproj.io")
	r.Handler().OnAdd(fixture.Must[*cache.Target](kind.Trim(fixture.Rollout(1))), false)
	target := <-targets
	fmt.Println(target.Replicas, target.Selector)
	// Output: 3 app=chat
}
