package store_test

import (
	"fmt"
	"testing/fstest"

	"github.com/gpuscaler/gpuscaler/pkg/policy/store"
)

func ExampleStore_LoadFS() {
	files := fstest.MapFS{"llama.yaml": {Data: []byte(`apiVersion: gpuscaler.io/v1alpha1
kind: ScalingPolicy
metadata: {name: llama, namespace: team-chat}
spec: {scaleTargetRef: {name: llama}, maxReplicas: 9, signals: [{name: queue, type: vllm, target: 10}]}
---
apiVersion: gpuscaler.io/v1alpha1
kind: ScalingPolicy
metadata: {name: embed, namespace: team-chat}
spec: {scaleTargetRef: {name: embed}, maxReplica: 9, signals: [{name: queue, type: vllm, target: 10}]}
`)}}
	policies := store.New(store.Options{})
	report := policies.LoadFS(files)
	for _, w := range policies.Current() {
		fmt.Println(w.Key, w.Policy.MinReplicas, w.Policy.MaxReplicas)
	}
	for _, p := range report.Problems {
		fmt.Printf("line %d: %s: %s\n", p.Line, p.Field, p.Message)
	}
	// Output:
	// team-chat/llama 1 9
	// line 9: spec.maxReplica: there is no such field, did you mean "maxReplicas"?
}
