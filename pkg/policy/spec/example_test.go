package spec_test

import (
	"fmt"

	"github.com/gpuscaler/gpuscaler/pkg/policy/spec"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

func ExampleMarshal() {
	target, err := spec.NewAmount("80%")
	if err != nil {
		fmt.Println(err)
		return
	}
	maxReplicas := int32(12)
	text, err := spec.Marshal(scaling.Key{Namespace: "team-chat", Name: "llama"}, &spec.Policy{
		MaxReplicas: &maxReplicas, Signals: []spec.Signal{{Name: "kv", Type: "vllm", Metric: "kvCacheUsage", Target: target}},
	})
	fmt.Print(string(text), err)
	// Output:
	// apiVersion: gpuscaler.io/v1alpha1
	// kind: ScalingPolicy
	// metadata:
	//   name: llama
	//   namespace: team-chat
	// spec:
	//   maxReplicas: 12
	//   signals:
	//     - name: kv
	//       type: vllm
	//       target: 80%
	//       metric: kvCacheUsage
	// <nil>
}
