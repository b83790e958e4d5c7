package mission

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/gpuscaler/gpuscaler/e2e/controller"
	"github.com/gpuscaler/gpuscaler/e2e/karpenter"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
	"github.com/gpuscaler/gpuscaler/e2e/workload"
)

// The test simulates a day. At night there are no GPU nodes. Before a cron window opens, nodes and replicas are ready. A burst in the
// queue adds spot nodes. When the provider rejects spot launches, on-demand nodes are used instead. When spot is available again, the
// replicas move back at the configured pace, and no ready replica is missing during the move. In the evening all nodes are removed except
// the node of a GPU Job that has no policy and is still running. After a failure, gpuscaler does not use spot for 15 minutes of real
// time. The return to spot is therefore tested only if GPUSCALER_E2E_LONG is set.
func TestCapacityFollowsADayFromZeroToZero(t *testing.T) {
	ns := suite.Namespace(t, "mission")
	queue := jobs(t, "chat")
	specs := map[string]string{}
	for _, pool := range pools {
		specs[pool] = face(t, pool)
	}
	opens := time.Now().UTC().Add(50 * time.Second).Truncate(time.Minute).Add(time.Minute)
	closes := opens.Add(time.Minute)
	s := suite.Workload(t, workload.Deployment(ns, "chat", 0), fmt.Sprintf(`
minReplicas: 0
maxReplicas: 12
cooldownPeriod: 3s
activate: true
capacityGroup: chat
signals:
- {name: queue, type: redis, source: jobs, listName: chat, target: 10}
schedules:
- {name: office, timezone: UTC, start: "%d %d * * *", end: "%d %d * * *", minReplicas: 1, leadTime: 40s}
behavior:
  scaleUp: {tolerance: 0, policies: [{type: Pods, value: 100, periodSeconds: 15}]}
  scaleDown: {tolerance: 0, stabilizationWindowSeconds: 3}
`, opens.Minute(), opens.Hour(), closes.Minute(), closes.Hour()))
	stack.Eventually(t, time.Minute, "night: the policy is in force and its target is 0", s.HasTarget(0))
	if err := nodes(0, 0)(t.Context()); err != nil {
		t.Errorf("night: %v", err)
	}
	stack.Eventually(t, time.Until(opens), "a replica is ready before the window opens", s.HasReplicas(1))
	t.Logf("the replica is ready %s before the window opens", time.Until(opens).Round(time.Second))
	because(t, "consolidation freeze: known demand arrives: Karpenter keeps the empty nodes of NodePool gpu-spot until")
	stack.Eventually(t, time.Minute, "explain names the window", func(ctx context.Context) error {
		text, err := suite.CLI(ctx, "explain", s.Policy(), "--server", suite.PageURL())
		if want := "at least 1 replica ahead of schedule office, which begins at " + opens.Format("15:04"); err == nil &&
			!strings.Contains(text, want) {
			err = fmt.Errorf("no %q in\n%s", want, text)
		}
		return err
	})
	// Wait also for the node, because Karpenter may report it as ready later than the pod on it.
	stack.Eventually(t, time.Minute, "one node for the window", nodes(1, 0))

	queue(27)
	stack.Eventually(t, time.Minute, "spot nodes for a burst", s.HasReplicas(3))
	stack.Eventually(t, time.Minute, "only spot nodes", nodes(3, 0))
	job := train(t, ns)
	stack.Eventually(t, time.Minute, "a Job without a policy runs too", nodes(4, 0))

	if err := cloud.Scarce(karpenter.Shortage{CapacityType: "spot"}); err != nil {
		t.Fatal(err)
	}
	queue(85)
	stack.Eventually(t, 2*time.Minute, "on-demand replaces rejected spot", s.HasReplicas(9))
	stack.Eventually(t, time.Minute, "spot nodes stay", nodes(4, 6))
	because(t, "spot fallback: launches in NodePool gpu-spot failed for lack of capacity")
	stack.Eventually(t, time.Minute, "on-demand has the higher weight", weight("gpu-on-demand", 81))

	if os.Getenv("GPUSCALER_E2E_LONG") != "" {
		least := fewest(t, ns)
		if err := cloud.Scarce(); err != nil {
			t.Fatal(err)
		}
		stack.Eventually(t, 40*time.Minute, "the nodes move back to spot, four a minute", nodes(10, 0))
		because(t, "spot probe: the fallback is over: NodePool gpu-spot may grow by one node to 5", "return to spot: ",
			"move: replicas of mission/chat")
		if n := least.Load(); n < 9 {
			t.Errorf("at one time only %d of 9 required replicas were ready", n)
		}
	}

	undrifted(t)
	queue(0)
	stack.Eventually(t, max(time.Until(closes), 0)+2*time.Minute, "evening: no replicas", s.HasReplicas(0))
	stack.Eventually(t, 2*time.Minute, "only the node of the Job is left", nodes(1, 0))
	var now corev1.Pod
	if err := suite.Stack.Client.Get(t.Context(), client.ObjectKeyFromObject(job),
		&now); err != nil || now.UID != job.UID || now.Spec.NodeName != job.Spec.NodeName {
		t.Errorf("the Job's pod was moved: %v", err)
	}
	if err := suite.Stack.Client.Delete(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	stack.Eventually(t, time.Minute, "zero again", nodes(0, 0))
	held := "" // name of the NodePool whose weight stays overridden, because the return to spot is not awaited; "": none
	if os.Getenv("GPUSCALER_E2E_LONG") == "" {
		held = "gpu-on-demand"
	}
	stack.Eventually(t, 2*time.Minute, "all NodePools are restored", func(context.Context) error {
		for _, pool := range pools {
			if now := face(t, pool); pool != held && now != specs[pool] {
				return fmt.Errorf("%s differs:\n%s\nbefore:\n%s", pool, now, specs[pool])
			}
		}
		return nil
	})
}

// jobs returns a function that replaces the jobs in a list of Redis.
func jobs(t *testing.T, list string) (set func(n int)) {
	t.Helper()
	redisClient := goredis.NewClient(&goredis.Options{Addr: redis})
	t.Cleanup(func() { _ = redisClient.Close() })
	return func(n int) {
		t.Helper()
		values := make([]any, n)
		for i := range values {
			values[i] = fmt.Sprint("job-", i)
		}
		pipe := redisClient.TxPipeline() // in one transaction, so that no reader sees an empty list
		pipe.Del(t.Context(), list)
		if n > 0 {
			pipe.RPush(t.Context(), list, values...)
		}
		if _, err := pipe.Exec(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

var pools = []string{"gpu-spot", "gpu-on-demand"}

// because waits up to a minute until gpuscaler's log contains the given reasons in the given order, and fails the test otherwise.
func because(t *testing.T, reasons ...string) {
	t.Helper()
	stack.Eventually(t, time.Minute, fmt.Sprintf("the log has the reasons %q", reasons), func(context.Context) error {
		text := suite.Log()
		for _, reason := range reasons {
			_, after, found := strings.Cut(text, reason)
			if !found {
				return fmt.Errorf("no %q", reason)
			}
			text = after
		}
		return nil
	})
}

// nodes returns a check of the number of NodeClaims of each type, all of which must be initialized.
func nodes(spot, onDemand int) func(context.Context) error {
	return func(ctx context.Context) error {
		var claims v1.NodeClaimList
		if err := suite.Stack.Client.List(ctx, &claims); err != nil {
			return err
		}
		have := map[string]int{}
		for _, c := range claims.Items {
			if c.StatusConditions().Get(v1.ConditionTypeInitialized).IsTrue() {
				have[c.Labels[v1.CapacityTypeLabelKey]]++
			}
		}
		if len(claims.Items) != spot+onDemand || have["spot"] != spot || have["on-demand"] != onDemand {
			return fmt.Errorf("%d NodeClaims, ready: %v; want %d on spot and %d on demand", len(claims.Items), have, spot, onDemand)
		}
		return nil
	}
}

// nodesOfAnyType returns a check that the two NodePools together have n NodeClaims, all of them ready. Their capacity types do not matter,
// because spot may still be unavailable after an earlier test.
func nodesOfAnyType(n int) func(context.Context) error {
	return func(ctx context.Context) error {
		var all error
		for spot := range n + 1 {
			err := nodes(spot, n-spot)(ctx)
			if err == nil {
				return nil
			}
			all = err
		}
		return all
	}
}

func nodePoolNow(ctx context.Context, name string) (*unstructured.Unstructured, error) {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion("karpenter.sh/v1")
	u.SetKind("NodePool")
	return u, suite.Stack.Client.Get(ctx, client.ObjectKey{Name: name}, u)
}

// face returns everything in a NodePool that gpuscaler can change, as one text: the spec, the annotations and the fields that gpuscaler
// owns. At the end of the test, the text must be the same as before.
func face(t *testing.T, name string) string {
	t.Helper()
	u, err := nodePoolNow(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	spec, err := json.Marshal(u.Object["spec"])
	if err != nil {
		t.Fatal(err)
	}
	ours := ""
	for _, m := range u.GetManagedFields() {
		if strings.HasPrefix(m.Manager, controller.Name) {
			ours += m.FieldsV1.String()
		}
	}
	return fmt.Sprintf("spec %s\nannotations %v\nowned by gpuscaler: %q", spec, u.GetAnnotations(), ours)
}

func weight(pool string, want int64) func(context.Context) error {
	return func(ctx context.Context) error {
		u, err := nodePoolNow(ctx, pool)
		if err != nil {
			return err
		}
		if have, _, _ := unstructured.NestedInt64(u.Object, "spec", "weight"); have != want {
			return fmt.Errorf("weight %d", have)
		}
		return nil
	}
}

// train starts a pod with a GPU and without a policy, and waits until it runs.
func train(t *testing.T, namespace string) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "train"},
		Spec: workload.Deployment(namespace, "train", 1).Spec.Template.Spec}
	workload.Create(t, suite.Stack.Client, pod)
	stack.Eventually(t, 2*time.Minute, "the Job runs", func(ctx context.Context) error {
		if err := suite.Stack.Client.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
			return err
		}
		if pod.Status.Phase != corev1.PodRunning {
			return errors.New("it is " + string(pod.Status.Phase))
		}
		return nil
	})
	return pod
}

// fewest returns a counter of the minimum number of ready pods of the Deployment since the call of fewest. The counter is updated until
// the test ends.
func fewest(t *testing.T, namespace string) *atomic.Int64 {
	t.Helper()
	least := &atomic.Int64{}
	least.Store(1 << 20)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	go func() {
		for ; ctx.Err() == nil; time.Sleep(100 * time.Millisecond) {
			var pods corev1.PodList
			if suite.Stack.Client.List(ctx, &pods, client.InNamespace(namespace), client.MatchingLabels{"app": "chat"}) != nil {
				continue
			}
			ready := int64(0)
			for i := range pods.Items {
				for _, c := range pods.Items[i].Status.Conditions {
					if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue && pods.Items[i].DeletionTimestamp == nil {
						ready++
					}
				}
			}
			least.Store(min(least.Load(), ready))
		}
	}()
	return least
}

// undrifted fails if Karpenter reports a node as drifted from its NodePool.
func undrifted(t *testing.T) {
	t.Helper()
	var claims v1.NodeClaimList
	if err := suite.Stack.Client.List(t.Context(), &claims); err != nil {
		t.Fatal(err)
	}
	for _, c := range claims.Items {
		if drifted := c.StatusConditions().Get(v1.ConditionTypeDrifted); drifted != nil && drifted.IsTrue() {
			t.Errorf("%s drifted: %s", c.Name, drifted.Reason)
		}
	}
}
