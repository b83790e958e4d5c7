package line

import (
	"context"
	"fmt"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscaler/gpuscaler/e2e/stack"
	"github.com/gpuscaler/gpuscaler/e2e/workload"
)

// The activator must scale a StatefulSet through /scale in the same way as a Deployment.
func TestStatefulSetIsActivatedAndReturnsToZero(t *testing.T) {
	t.Parallel()
	ns := suite.Namespace(t, "sharded")
	set := statefulSet(ns, "shards", 0)
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

// statefulSet returns a StatefulSet whose pods request one GPU each.
func statefulSet(namespace, name string, replicas int32) *appsv1.StatefulSet {
	of := workload.Deployment(namespace, name, replicas)
	return &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: appsv1.StatefulSetSpec{
		Replicas: of.Spec.Replicas, Selector: of.Spec.Selector, Template: of.Spec.Template, ServiceName: name,
	}}
}

// A ResourceQuota permits two of four pods of a StatefulSet. The status of the StatefulSet does not report this. gpuscaler must name the
// quota and its limit in explain and in an Event until the quota is raised and the StatefulSet controller creates the missing pods.
func TestResourceQuotaOfAStatefulSetIsNamed(t *testing.T) {
	t.Parallel()
	ns := suite.Namespace(t, "set-quota")
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "pods"}, Spec: corev1.ResourceQuotaSpec{
		Hard: corev1.ResourceList{"pods": resource.MustParse("2")},
	}}
	set := statefulSet(ns, "db", 4)
	workload.Create(t, suite.Stack.Client, quota, set)
	suite.Policies.Write(t, ns+"-db", `apiVersion: gpuscaler.io/v1alpha1
kind: ScalingPolicy
metadata: {name: db, namespace: `+ns+`}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: StatefulSet, name: db}
  minReplicas: 4
  maxReplicas: 4
  signals:
  - {name: backlog, type: redis, source: jobs, listName: db-jobs, target: 10}
`)
	rejected := func(replicas int32, by string) func(context.Context) error {
		return func(ctx context.Context) error {
			e, err := suite.Explain(ctx, ns+"/db")
			if err == nil && (e.Rejected != replicas || e.Rejection.By() != by) {
				err = fmt.Errorf("%d replicas rejected by %+v, want %d by %s", e.Rejected, e.Rejection, replicas, by)
			}
			return err
		}
	}
	stack.Eventually(t, 2*time.Minute, "explain names the quota", rejected(2, "ResourceQuota pods"))
	stack.Eventually(t, time.Minute, "an Event names the quota and its limit", suite.Event(ns, "StatefulSet", "db", "PodsRejected",
		"ResourceQuota pods rejects pods of StatefulSet db", "used: pods=2, limited: pods=2", "kubectl -n "+ns+" describe resourcequota pods"))
	raise := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"hard":{"pods":"10"}}}`))
	if err := suite.Stack.Client.Patch(t.Context(), quota, raise); err != nil {
		t.Fatal(err)
	}
	stack.Eventually(t, time.Minute, "the quota is raised", func(ctx context.Context) error {
		if err := suite.Stack.Client.Get(ctx, client.ObjectKeyFromObject(quota), quota); err != nil {
			return err
		}
		if hard := quota.Status.Hard["pods"]; hard.Value() != 10 {
			return fmt.Errorf("the limit in the status is %s", hard.String())
		}
		return nil
	})
	// The StatefulSet controller waits longer after each failed attempt. A change of an annotation makes it retry at once.
	retry := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"quota-raised":"now"}}}`))
	if err := suite.Stack.Client.Patch(t.Context(), set, retry); err != nil {
		t.Fatal(err)
	}
	stack.Eventually(t, 2*time.Minute, "nothing is rejected", rejected(0, ""))
}
