package buffers_test

import (
	"fmt"
	"log/slog"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/buffers"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/fixture"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// Replicas is above 0 only if gpuscaler wrote the buffer for the scale target of the policy.
func ExampleCache_Replicas() {
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(fixture.ChatBuffer), &u.Object); err != nil {
		fmt.Println(err)
		return
	}
	cache := buffers.New(buffers.Options{Changed: func() {}, Log: slog.New(slog.DiscardHandler)})
	cache.Put(buffers.Decode(u))

	policy := scaling.Workload{Key: scaling.Key{Namespace: "team", Name: "chat"}, Target: scaling.Target{Kind: "Deployment", Name: "chat"}}
	fmt.Println("same target:", cache.Replicas(&policy))
	policy.Target.Name = "chat-v2"
	fmt.Println("another target:", cache.Replicas(&policy))
	policy.Key.Name = "code"
	fmt.Println("another policy:", cache.Replicas(&policy))
	// Output:
	// same target: 3
	// another target: -1
	// another policy: 0
}
