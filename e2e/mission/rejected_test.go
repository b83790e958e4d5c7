package mission

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscaler/gpuscaler/e2e/stack"
	"github.com/gpuscaler/gpuscaler/e2e/workload"
	"github.com/gpuscaler/gpuscaler/pkg/dashboard/explain"
)

const rejectedPolicy = `
minReplicas: 0
maxReplicas: 12
cooldownPeriod: 3s
activate: true
capacityGroup: chat
signals:
- {name: queue, type: redis, source: jobs, listName: %s, target: 10}
behavior:
  scaleUp: {tolerance: 0, policies: [{type: Pods, value: 100, periodSeconds: 15}]}
  scaleDown: {tolerance: 0, stabilizationWindowSeconds: 3}
`

// The queue needs eight replicas, and a ResourceQuota permits three GPUs. gpuscaler must explain the five missing replicas with the
// quota, its limit and its use. A longer queue must not raise the target, and no node may be launched for pods that do not exist. After
// the quota is raised, the replicas must be created, and gpuscaler must not report the quota any more.
func TestResourceQuotaIsNamedAsTheCauseOfMissingReplicas(t *testing.T) {
	ns, queue := suite.Namespace(t, "quota"), jobs(t, "quota")
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "gpus"}, Spec: corev1.ResourceQuotaSpec{
		Hard: corev1.ResourceList{"requests.nvidia.com/gpu": resource.MustParse("3"), "pods": resource.MustParse("30")},
	}}
	workload.Create(t, suite.Stack.Client, quota)
	s := suite.Workload(t, workload.Deployment(ns, "chat", 0), fmt.Sprintf(rejectedPolicy, "quota"))
	stack.Eventually(t, time.Minute, "the target is 0", s.HasTarget(0))
	queue(73)
	stack.Eventually(t, time.Minute, "explain names the quota", s.Explained(rejected(5, "ResourceQuota", "gpus",
		"used: requests.nvidia.com/gpu=3", "limited: requests.nvidia.com/gpu=3")))
	stack.Eventually(t, time.Minute, "an Event names the quota, its limit and its use", suite.Event(ns, "Deployment", "chat", "PodsRejected",
		"ResourceQuota gpus rejects pods of Deployment chat", "used: requests.nvidia.com/gpu=3, limited: requests.nvidia.com/gpu=3",
		"kubectl -n quota describe resourcequota gpus"))
	stack.Eventually(t, time.Minute, "the metric of the alert names the quota", hasMetric(5,
		"gpuscaler_rejected_replicas", "kind", "ResourceQuota", "name", "gpus", "namespace", "quota", "policy", "chat"))
	stack.Eventually(t, time.Minute, "a node for each pod that exists", nodesOfAnyType(3))

	queue(110)
	stack.Eventually(t, time.Minute, "the queue needs eleven replicas", s.Explained(func(e explain.Explanation) error {
		if len(e.Signals) != 1 || e.Signals[0].Recommends == nil || *e.Signals[0].Recommends != 11 {
			return fmt.Errorf("signals %+v", e.Signals)
		}
		return nil
	}))
	stack.Always(t, 15*time.Second, "neither target nor nodes increase for pods that cannot exist", func(ctx context.Context) error {
		if err := nodesOfAnyType(3)(ctx); err != nil {
			return err
		}
		return s.Explained(func(e explain.Explanation) error {
			if e.Target != 8 || !strings.Contains(e.Why, "capped at 8: the API server rejects further pods") {
				return errors.New(e.Why)
			}
			return nil
		})(ctx)
	})

	raise := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"hard":{"requests.nvidia.com/gpu":"20"}}}`))
	if err := suite.Stack.Client.Patch(t.Context(), quota, raise); err != nil {
		t.Fatal(err)
	}
	// The ReplicaSet controller waits up to 17 minutes between two attempts. The patch makes it retry at once, as the runbook PodsRejected
	// recommends.
	d := workload.Deployment(ns, "chat", 0)
	retry := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"quota-raised":"now"}}}`))
	if err := suite.Stack.Client.Patch(t.Context(), d, retry); err != nil {
		t.Fatal(err)
	}
	stack.Eventually(t, 2*time.Minute, "eleven replicas are ready", s.HasReplicas(11))
	stack.Eventually(t, time.Minute, "nothing is rejected", s.Explained(func(e explain.Explanation) error {
		if e.Rejected != 0 || strings.Contains(e.Why, "rejects") {
			return fmt.Errorf("%d rejected: %s", e.Rejected, e.Why)
		}
		return nil
	}))
	queue(0)
	stack.Eventually(t, 2*time.Minute, "no replicas", s.HasReplicas(0))
	stack.Eventually(t, 2*time.Minute, "no nodes", nodes(0, 0))
}

// A LimitRange sets a request of one GPU and half a CPU for each container, because the pod template has no requests. Each replica must
// count as one GPU and must get a node. A second workload requests more CPU than the LimitRange permits: its pods are rejected, and
// explain must name the LimitRange.
func TestLimitRangeDefaultsAreCountedAndItsRejectionIsNamed(t *testing.T) {
	ns, queue, large := suite.Namespace(t, "limitrange"), jobs(t, "limitrange"), jobs(t, "large")
	limits := &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "defaults"}, Spec: corev1.LimitRangeSpec{
		Limits: []corev1.LimitRangeItem{{
			Type:    corev1.LimitTypeContainer,
			Default: corev1.ResourceList{stack.GPU: resource.MustParse("1"), "cpu": resource.MustParse("500m")},
			Max:     corev1.ResourceList{"cpu": resource.MustParse("2")},
		}},
	}}
	workload.Create(t, suite.Stack.Client, limits)
	d := workload.Deployment(ns, "chat", 0)
	d.Spec.Template.Spec.Containers[0].Resources = corev1.ResourceRequirements{}
	s := suite.Workload(t, d, fmt.Sprintf(rejectedPolicy, "limitrange"))
	big := workload.Deployment(ns, "big", 0)
	big.Spec.Template.Spec.Containers[0].Resources.Limits["cpu"] = resource.MustParse("3")
	b := suite.Workload(t, big, fmt.Sprintf(rejectedPolicy, "large"))

	queue(20)
	stack.Eventually(t, time.Minute, "two replicas", s.HasReplicas(2))
	stack.Eventually(t, time.Minute, "a node for each", nodesOfAnyType(2))
	stack.Eventually(t, time.Minute, "the pods show how many GPUs a replica requests", hasMetric(1,
		"gpuscaler_gpus_per_replica", "namespace", "limitrange", "policy", "chat"))
	var pods corev1.PodList
	if err := suite.Stack.Client.List(t.Context(), &pods, client.InNamespace(ns), client.MatchingLabels{"app": "chat"}); err != nil {
		t.Fatal(err)
	}
	for i := range pods.Items {
		requests := pods.Items[i].Spec.Containers[0].Resources.Requests
		if gpu, cpu := requests[stack.GPU], requests["cpu"]; gpu.Value() != 1 || cpu.MilliValue() != 500 {
			t.Errorf("%s requests %v, so the LimitRange had no effect", pods.Items[i].Name, requests)
		}
	}

	large(10)
	stack.Eventually(t, time.Minute, "explain names the LimitRange", b.Explained(rejected(1, "LimitRange", "",
		"maximum cpu usage per Container is 2, but limit is 3")))
	stack.Eventually(t, time.Minute, "an Event names the LimitRange", suite.Event(ns, "Deployment", "big", "PodsRejected",
		"a LimitRange rejects pods of Deployment big", "kubectl -n limitrange describe limitrange"))
	if err := nodesOfAnyType(2)(t.Context()); err != nil {
		t.Errorf("a node for a pod that does not exist: %v", err)
	}
	queue(0)
	large(0)
	stack.Eventually(t, 2*time.Minute, "no replicas", s.HasReplicas(0))
	stack.Eventually(t, 2*time.Minute, "no nodes", nodes(0, 0))
}

// rejected returns a check that an object of the given kind and name rejects the pods of n replicas, and that the text of the rejection
// contains the given parts.
func rejected(n int32, kind, name string, parts ...string) func(explain.Explanation) error {
	return func(e explain.Explanation) error {
		if r := e.Rejection; e.Rejected != n || r.Kind != kind || r.Name != name {
			return fmt.Errorf("%d rejected by %+v", e.Rejected, r)
		}
		return contains(e.Rejection.Text, parts)
	}
}

// hasMetric returns a check of the value of a series.
func hasMetric(want float64, name string, pairs ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		have, err := suite.Metric(ctx, name, pairs...)
		if err == nil && have != want {
			err = fmt.Errorf("%s %v is %v, want %v", name, pairs, have, want)
		}
		return err
	}
}

func contains(text string, parts []string) error {
	for _, part := range parts {
		if !strings.Contains(text, part) {
			return fmt.Errorf("no %q in %q", part, text)
		}
	}
	return nil
}
