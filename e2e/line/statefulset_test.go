package line

import (
	"context"
	"fmt"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscaler/gpuscaler/e2e/stack"
	"github.com/gpuscaler/gpuscaler/e2e/workload"
)

// The activator scales a StatefulSet through /scale as it scales a Deployment.
func TestStatefulSetIsActivatedAndReturnsToZero(t *testing.T) {
	t.Parallel()
	ns := suite.Namespace(t, "sharded")
	of := workload.Deployment(ns, "shards", 0)
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "shards"}, Spec: appsv1.StatefulSetSpec{
		Replicas: of.Spec.Replicas, Selector: of.Spec.Selector, Template: of.Spec.Template, ServiceName: "shards",
	}}
	hpa := workload.HPA(ns, "shards", 8)
	hpa.Spec.ScaleTargetRef.Kind = "StatefulSet"
	workload.Create(t, suite.Stack.Client, set, hpa)
	suite.Policies.Write(t, ns+"-shards", `apiVersion: gpuscaler.io/v1alpha1
kind: ScalingPolicy
metadata: {name: shards, namespace: `+ns+`}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: StatefulSet, name: shards}
  minReplicas: 0
  maxReplicas: 8
  cooldownPeriod: 3s
  activate: true
  signals:
  - {name: backlog, type: redis, source: jobs, listName: shard-jobs, target: 10}
`)
	has := func(replicas int32) func(context.Context) error {
		return func(ctx context.Context) error {
			if err := suite.Stack.Client.Get(ctx, client.ObjectKeyFromObject(set), set); err != nil {
				return err
			}
			if *set.Spec.Replicas != replicas || set.Status.ReadyReplicas != replicas {
				return fmt.Errorf("%d replicas, %d ready; want %d", *set.Spec.Replicas, set.Status.ReadyReplicas, replicas)
			}
			return nil
		}
	}
	list := goredis.NewClient(&goredis.Options{Addr: redis})
	defer list.Close()
	if err := list.RPush(t.Context(), "shard-jobs", "one", "two").Err(); err != nil {
		t.Fatal(err)
	}
	stack.Eventually(t, time.Minute, "one replica for two jobs", has(1))
	if err := list.Del(t.Context(), "shard-jobs").Err(); err != nil {
		t.Fatal(err)
	}
	stack.Eventually(t, time.Minute, "no replicas for no jobs", has(0))
	for _, reason := range []string{"ActivatedFromZero", "DeactivatedToZero"} {
		stack.Eventually(t, time.Minute, "an Event "+reason, suite.Event(ns, "StatefulSet", "shards", reason))
	}
}
