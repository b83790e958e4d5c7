package night

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscaler/gpuscaler/e2e/controller"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
)

// afterLease is the longest time that the new leader may need to serve targets, after the Lease of a killed leader has expired. It
// includes the standby's next attempt to acquire the Lease, the label on its pod, the proxy, the first tick, and a stall of a busy
// machine.
const afterLease = time.Minute

// The leader's process and its pod end at the same time, as when a node fails.
func TestStandbyServesWithinTheLeaseAfterTheLeaderIsKilled(t *testing.T) {
	s, load := busy(t, "killed", 5)
	load.Set(67)
	stack.Eventually(t, time.Minute, "a target before the change of the leader", s.Followed(7))
	stack.Eventually(t, time.Minute, "an Event about that target", suite.Event(s.Namespace, "Deployment", s.Name, "TargetChanged", "5 -> "))
	time.Sleep(time.Second) // explain --at has a resolution of one second
	asked := time.Now()
	old := leader(t)
	serving := watchServing(t, s, 7)

	killed := time.Now()
	suite.Kubelet.Process(controller.Namespace, old.Name).Kill()
	if err := suite.Stack.Client.Delete(t.Context(), old, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	stack.Eventually(t, lease+afterLease, "the standby leads and decides", func(ctx context.Context) error {
		return errors.Join(ledByAnother(ctx, old.UID), s.HasTarget(7)(ctx))
	})
	time.Sleep(2 * time.Second) // long enough for one sync of the HPA with the new leader
	serving.end(t, lease+afterLease)
	still(t, s, killed)
	stack.Eventually(t, time.Minute, "two replicas again", suite.Ready(2))
	explainedAcross(t, s, asked)
}

// The leader's container crashes and is restarted in the same pod. The restarted process has the same identity in the Lease, so it leads
// again without waiting for the Lease to expire.
func TestCrashedLeaderLeadsAgainAfterItsRestart(t *testing.T) {
	s, _ := busy(t, "crashed", 4)
	old := leader(t)
	serving, crashed := watchServing(t, s, 4), time.Now()
	suite.Kubelet.Process(controller.Namespace, old.Name).Kill()
	stack.Eventually(t, lease+afterLease, "a leader decides again", func(ctx context.Context) error {
		e, err := suite.Explain(ctx, s.Policy())
		if err == nil && (e.At.Before(crashed) || e.Target != 4) {
			err = fmt.Errorf("%d, decided at %s", e.Target, e.At)
		}
		return err
	})
	time.Sleep(2 * time.Second)
	serving.end(t, lease+afterLease)
	still(t, s, crashed)
	stack.Eventually(t, time.Minute, "both replicas are ready", suite.Ready(2))
}

// explainedAcross runs explain for a time at which the previous leader led, which is not in the new leader's history. With access to the
// cluster, the command must read the Events. Without access, it must fail and suggest --from with a log file. With the logs of both
// leaders in a file, it must print the complete explanation.
func explainedAcross(t *testing.T, s controller.Workload, at time.Time) {
	t.Helper()
	moment := at.UTC().Format(time.RFC3339)
	text, err := suite.CLI(t.Context(), "explain", s.Policy(), "--at", moment, "--server", suite.PageURL())
	if err == nil || !strings.Contains(text, "--from") {
		t.Errorf("the new leader explains a time before it led: %v\n%s", err, text)
	}
	text, err = suite.CLI(t.Context(), "explain", s.Policy(), "--at", moment, "--server", suite.PageURL(), "--kubeconfig",
		suite.Stack.Kubeconfig)
	if err != nil || !strings.Contains(text, "from Kubernetes Events") || !strings.Contains(text, "  5 -> ") {
		t.Errorf("Events across a leader change: %v\n%s", err, text)
	}
	file := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(file, []byte(suite.Log()), 0o600); err != nil {
		t.Fatal(err)
	}
	text, err = suite.CLI(t.Context(), "explain", s.Policy(), "--at", at.Add(time.Second).UTC().Format(time.RFC3339), "--from", file)
	if err != nil || !strings.Contains(text, " -> 7  at ") || !strings.Contains(text, "SIGNAL  TYPE") || !strings.Contains(text, "BINDING") {
		t.Errorf("explanation from the logs of both: %v\n%s", err, text)
	}
}

// The leader's process is suspended until the standby leads and every timer of the old leader has expired. When the process resumes, it
// has not observed yet that another replica leads. It must not lead again.
func TestSuspendedLeaderDoesNotLeadAfterItResumes(t *testing.T) {
	s, _ := busy(t, "frozen", 4)
	old := leader(t)
	froze := time.Now()
	process := suite.Kubelet.Process(controller.Namespace, old.Name)
	if err := process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	stack.Eventually(t, lease+afterLease, "the standby leads",
		func(ctx context.Context) error { return ledByAnother(ctx, old.UID) })
	time.Sleep(time.Until(froze.Add(16 * time.Second))) // the longest timer of a leader is 15 s
	if err := process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	stack.Always(t, lease+2*time.Second, "the old leader does not lead again",
		func(ctx context.Context) error { return ledByAnother(ctx, old.UID) })
	stack.Eventually(t, time.Minute, "both replicas are ready, one leads and its target is served", func(ctx context.Context) error {
		n, err := suite.ServedTarget(ctx, s.Namespace, s.Name)
		if err == nil && n != 4 {
			err = fmt.Errorf("%d is served", n)
		}
		return errors.Join(err, suite.Ready(2)(ctx))
	})
	still(t, s, froze)
}

func TestRollingUpdateCompletesAndNoHPAScales(t *testing.T) {
	s, _ := busy(t, "rolled", 6)
	before, err := suite.Pods(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	handover := watchLease(t)
	serving, began := watchServing(t, s, 6), time.Now()
	roll(t)
	stack.Eventually(t, time.Minute, "two new replicas, and one leads", rolled(before))
	stack.Eventually(t, time.Minute, "the new leader decides", s.HasTarget(6))
	time.Sleep(2 * time.Second)
	serving.end(t, lease+afterLease) // config/guides/operation.md states less than 3 s for an idle machine
	handover.released(t)
	still(t, s, began)
}

func TestDrainOfTheLeadersNodeCompletesAndNoHPAScales(t *testing.T) {
	s, _ := busy(t, "drained", 3)
	one := intstr.FromInt32(1)
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: controller.Namespace, Name: controller.Name},
		Spec: policyv1.PodDisruptionBudgetSpec{MinAvailable: &one,
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app.kubernetes.io/name": "gpuscaler"}}},
	}
	if err := suite.Stack.Client.Create(t.Context(), budget); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = suite.Stack.Client.Delete(context.Background(), budget) })

	old := leader(t)
	cordon(t, old.Spec.NodeName, true)
	t.Cleanup(func() { cordon(t, old.Spec.NodeName, false) })
	began := time.Now()
	stack.Eventually(t, time.Minute, "the leader is evicted", func(ctx context.Context) error {
		// The API server rejects the eviction until the disruption budget counts both replicas as ready. `kubectl drain` retries in the same
		// way.
		return suite.Stack.Client.SubResource("eviction").Create(ctx, old, &policyv1.Eviction{
			ObjectMeta: metav1.ObjectMeta{Namespace: old.Namespace, Name: old.Name},
		})
	})
	stack.Eventually(t, time.Minute, "two replicas on other nodes, and one leads", func(ctx context.Context) error {
		pods, err := suite.Pods(ctx)
		if err != nil {
			return err
		}
		for _, p := range pods {
			if p.Spec.NodeName == old.Spec.NodeName {
				return fmt.Errorf("%s is on the drained node", p.Name)
			}
		}
		return suite.Ready(2)(ctx)
	})
	stack.Eventually(t, time.Minute, "the target is computed and served", func(ctx context.Context) error {
		if n, err := suite.ServedTarget(ctx, s.Namespace, s.Name); err != nil || n != 3 {
			return fmt.Errorf("%d, %v", n, err)
		}
		return s.HasTarget(3)(ctx)
	})
	time.Sleep(2 * time.Second)
	still(t, s, began)
}

// Readiness must not depend on leadership or on data sources. Otherwise a rollout of two replicas could not complete while a source is
// unavailable.
func TestReadinessNeedsNeitherTheLeaseNorDataSources(t *testing.T) {
	if err := suite.Stack.Prometheus.Stop(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := suite.Stack.Prometheus.Start(context.Background()); err != nil {
			t.Error(err)
		}
	})
	before, err := suite.Pods(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	roll(t)
	stack.Eventually(t, time.Minute, "two new replicas are ready without their data source", rolled(before))
	// Check the replicas directly: the API server may still use a connection to the previous leader.
	stack.Always(t, 5*time.Second, "both replicas stay ready", bothReady)
}

// bothReady returns an error unless both replicas are Ready.
func bothReady(ctx context.Context) error {
	pods, err := suite.Pods(ctx)
	if err != nil || len(pods) != 2 {
		return fmt.Errorf("%d replicas (%w)", len(pods), err)
	}
	for i := range pods {
		if !slices.ContainsFunc(pods[i].Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		}) {
			return fmt.Errorf("%s is not Ready", pods[i].Name)
		}
	}
	return nil
}

// rolled returns a check that two replicas are ready and that no pod in `before` exists.
func rolled(before []corev1.Pod) func(context.Context) error {
	return func(ctx context.Context) error {
		pods, err := suite.Pods(ctx)
		if err != nil {
			return err
		}
		for _, p := range pods {
			for _, b := range before {
				if p.UID == b.UID {
					return fmt.Errorf("%s still exists", p.Name)
				}
			}
		}
		return suite.Ready(2)(ctx)
	}
}

func leader(t *testing.T) *corev1.Pod {
	t.Helper()
	stack.Eventually(t, time.Minute, "two replicas", suite.Ready(2))
	pod, err := suite.Leader(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return pod
}

// ledByAnother returns an error unless exactly one replica leads, and its pod does not have the given UID.
func ledByAnother(ctx context.Context, uid types.UID) error {
	pod, err := suite.Leader(ctx)
	if err == nil && pod.UID == uid {
		err = fmt.Errorf("%s still leads", pod.Name)
	}
	return err
}

// roll replaces both replicas, as `kubectl rollout restart` does.
func roll(t *testing.T) {
	t.Helper()
	patch := fmt.Sprintf(`{"spec":{"template":{"metadata":{"annotations":{"restarted":%q}}}}}`, time.Now())
	d := suite.Deployment()
	if err := suite.Stack.Client.Patch(t.Context(), d, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		t.Fatal(err)
	}
}

func cordon(t *testing.T, name string, on bool) {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	patch := fmt.Sprintf(`{"spec":{"unschedulable":%t}}`, on)
	if err := suite.Stack.Client.Patch(context.Background(), node, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		t.Error(err)
	}
}
