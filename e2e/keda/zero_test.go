package keda

import (
	"fmt"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/gpuscaler/gpuscaler/e2e/controller"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
	"github.com/gpuscaler/gpuscaler/e2e/workload"
)

func TestFromZeroToManyToZero(t *testing.T) {
	t.Parallel()
	ns := scene.Space(t, "zero")
	list := goredis.NewClient(&goredis.Options{Addr: redis})
	defer list.Close()
	workload.Create(t, scene.Stack.Client, workload.Deployment(ns, "embed", 0))
	scene.Policies.Write(t, "zero", controller.Policy(ns, "embed", `
minReplicas: 0
maxReplicas: 8
cooldownPeriod: 3s
signals:
- {name: backlog, type: redis, source: jobs, listName: zero-jobs, target: 10}
behavior:
  scaleUp: {tolerance: 0}
  scaleDown: {tolerance: 0, stabilizationWindowSeconds: 3}
`))
	if err := Apply(t.Context(), scene.Stack.Client, fmt.Sprintf(`
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: embed, namespace: %s}
spec:
  scaleTargetRef: {name: embed}
  minReplicaCount: 0
  maxReplicaCount: 8
  cooldownPeriod: 0
  pollingInterval: 30
  advanced:
    horizontalPodAutoscalerConfig:
      behavior:
        scaleUp: {tolerance: "0", stabilizationWindowSeconds: 0, policies: [{type: Pods, value: 1000, periodSeconds: 15}]}
        scaleDown: {tolerance: "0", stabilizationWindowSeconds: 0, policies: [{type: Percent, value: 100, periodSeconds: 15}]}
  triggers:
  - type: external-push
    name: gpuscaler
    metadata: {scalerAddress: "%s"}
    authenticationRef: {name: gpuscaler, kind: ClusterTriggerAuthentication}
`, ns, scaler.Address)); err != nil {
		t.Fatal(err)
	}
	time.Sleep(8 * time.Second)
	pushed := time.Now()
	for i := range 37 {
		if err := list.RPush(t.Context(), "zero-jobs", i).Err(); err != nil {
			t.Fatal(err)
		}
	}
	has := func(n int32) {
		stack.Eventually(t, 45*time.Second, fmt.Sprintf("%d replicas", n), workload.Has(scene.Stack.Client, ns, "embed", n))
		t.Logf("%d after %s", n, time.Since(pushed))
	}
	has(4)
	list.Del(t.Context(), "zero-jobs")
	has(0)
}
