package migrate_test

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gpuscaler/gpuscaler/pkg/migrate"
)

// An HPA that reads a metric of vLLM becomes a policy that reads the same metric.
func ExampleImport() {
	hpa := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
		"metadata": map[string]any{"name": "llama-chat", "namespace": "team-chat"},
		"spec": map[string]any{
			"scaleTargetRef": map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": "llama-chat"},
			"maxReplicas":    int64(12),
			"metrics": []any{map[string]any{"type": "Pods", "pods": map[string]any{
				"metric": map[string]any{"name": "vllm:num_requests_waiting"},
				"target": map[string]any{"type": "AverageValue", "averageValue": "10"},
			}}},
		},
	}}
	plan, err := migrate.Import(hpa, migrate.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(plan.Policy)
	// Output:
	// apiVersion: gpuscaler.io/v1alpha1
	// kind: ScalingPolicy
	// metadata:
	//   name: llama-chat
	//   namespace: team-chat
	// spec:
	//   scaleTargetRef:
	//     name: llama-chat
	//   minReplicas: 1
	//   maxReplicas: 12
	//   signals:
	//     - name: vllm_num_requests_waiting
	//       type: vllm
	//       target: 10
	//       metric: requestsWaiting
	//   mode: advisory
}
