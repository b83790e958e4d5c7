package line

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscaler/gpuscaler/e2e/components"
	"github.com/gpuscaler/gpuscaler/e2e/controller"
	"github.com/gpuscaler/gpuscaler/e2e/exporter"
	"github.com/gpuscaler/gpuscaler/e2e/record"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
	"github.com/gpuscaler/gpuscaler/e2e/workload"
	"github.com/gpuscaler/gpuscaler/pkg/replay/trace"
	"github.com/gpuscaler/gpuscaler/pkg/replay/tracefile"
)

// lag is how long the HPA may take to follow a target: one sync period and the delays of a busy machine. A target that is replaced within
// this time is not checked.
var lag = record.Lag{Sync: hpaSync, Slack: 10 * time.Second}

// onGateway is a policy that requests one replica for every ten requests in the gateway's queue. The gateway reports one series for all
// replicas, so the value does not change when replicas start or stop.
const onGateway = `
maxReplicas: 24
signals:
- {name: gateway, type: prometheus, queryRef: gateway-queue, target: 10}` + promptly

func TestEveryStepOfOneReplicaIsFollowedDuringARollout(t *testing.T) {
	t.Parallel()
	ns, load := suite.Namespace(t, "steps"), &exporter.Knobs{}
	set := func(replicas int32) { load.Set(exporter.Values{Upstream: float64(replicas)*10 - 3}) }
	set(10)
	suite.Export(t, workload.Metrics(ns, "calm", load), workload.Metrics(ns, "rolling", load))
	calm := suite.Workload(t, workload.Deployment(ns, "calm", 10), onGateway)
	rolling := suite.Workload(t, surging(ns, "rolling", 10), onGateway)
	desires := func(n int32) {
		t.Helper()
		for _, s := range []controller.Workload{calm, rolling} {
			stack.Eventually(t, time.Minute, fmt.Sprintf("the HPA of %s has %d replicas", s.Name, n), desiredReplicas(s, n))
		}
	}
	for _, s := range []controller.Workload{calm, rolling} {
		stack.Eventually(t, time.Minute, "the target follows the gateway's queue", s.HasTarget(10))
	}
	desires(10)

	began := time.Now()
	rollOut(t, ns, "rolling")
	surged := false
	for _, n := range []int32{10, 11, 10, 20, 19} {
		set(n)
		desires(n)
		for end := time.Now().Add(3*hpaSync + time.Second); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
			surged = surged || status(t, ns, "rolling").Replicas > n
		}
	}
	if s := status(t, ns, "rolling"); s.UpdatedReplicas == s.Replicas {
		t.Error("the rollout ended before the last step, so the test proves nothing")
	}
	if !surged {
		t.Error("the rollout never had an additional pod, so the test proves nothing")
	}
	for _, s := range []controller.Workload{calm, rolling} {
		followed(t, s, began, []int32{10, 11, 10, 20, 19})
	}
}

// desiredReplicas returns a check that the HPA has n desired replicas.
func desiredReplicas(s controller.Workload, n int32) func(context.Context) error {
	return func(context.Context) error {
		steps, err := s.HPA.Steps()
		if got, ok := steps.At(time.Now()); err == nil && (!ok || got != n) {
			err = fmt.Errorf("the HPA's desired replicas are %d", got)
		}
		return err
	}
}

// followed fails the test unless, since the given time, the policy's targets and the HPA's desired replicas were exactly the values in
// want. The caller must first wait until the HPA has had each value, and then for three more syncs.
func followed(t *testing.T, s controller.Workload, since time.Time, want []int32) {
	t.Helper()
	targets := s.Targets(t).Since(since)
	if !slices.Equal(targets.Numbers(), want) {
		t.Errorf("%s: the targets were %v, want %v", s.Name, targets, want)
	}
	desired, err := s.HPA.Steps()
	if err != nil {
		t.Fatal(err)
	}
	if desired = desired.Since(since); !slices.Equal(desired.Numbers(), want) {
		t.Errorf("%s: the HPA's desired replicas were %v, want %v", s.Name, desired, want)
	}
}

// exact fails the test if the HPA did not reach each target in time or did not keep it. It returns the targets that lasted longer than
// two syncs. It does not check shorter targets.
func exact(t *testing.T, s controller.Workload, targets record.Steps) []int32 {
	t.Helper()
	desired, err := s.HPA.Steps()
	if err != nil {
		t.Fatal(err)
	}
	lasted, err := record.Follows(targets, desired, time.Now(), lag)
	if err != nil {
		t.Errorf("%s: %v\ntargets %v\nHPA     %v", s.Name, err, targets, desired)
	}
	return lasted
}

// surging returns a Deployment whose pods need twelve seconds to become Ready. Its rolling update replaces them one by one (maxSurge 1,
// maxUnavailable 0).
func surging(namespace, name string, replicas int32) *appsv1.Deployment {
	d := workload.Deployment(namespace, name, replicas)
	one, none := intstr.FromInt32(1), intstr.FromInt32(0)
	d.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{MaxSurge: &one, MaxUnavailable: &none}
	d.Spec.Template.Annotations = map[string]string{stack.StartupAnnotation: "12s"}
	return d
}

func rollOut(t *testing.T, namespace, name string) {
	t.Helper()
	patch := fmt.Sprintf(`{"spec":{"template":{"metadata":{"annotations":{"rolled":%q}}}}}`, time.Now())
	d := workload.Deployment(namespace, name, 0)
	if err := suite.Stack.Client.Patch(t.Context(), d, client.RawPatch("application/merge-patch+json", []byte(patch))); err != nil {
		t.Fatal(err)
	}
}

func status(t *testing.T, namespace, name string) appsv1.DeploymentStatus {
	t.Helper()
	var d appsv1.Deployment
	if err := suite.Stack.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, &d); err != nil {
		t.Fatal(err)
	}
	return d.Status
}

// The test replays the recorded hour at 40 times its speed, which takes 90 seconds. It evaluates the first 75 seconds.
const (
	traceSpeed = 40
	tracePlays = 75 * time.Second
)

func TestHPAFollowsARecordedHourOfRequests(t *testing.T) {
	t.Parallel()
	requests := azure(t)
	ns := suite.Namespace(t, "azure")
	load := &exporter.Queue{Arrivals: requests.Stream(), Speed: traceSpeed, Slots: 10, Hold: 20 * time.Second}
	load.Start = time.Now()
	suite.Export(t, workload.Metrics(ns, "chat", load))
	s := suite.Workload(t, workload.Deployment(ns, "chat", 8), `
maxReplicas: 30
signals:
- {name: running, type: vllm, metric: requestsRunning, target: 8}
- {name: waiting, type: vllm, metric: requestsWaiting, target: 10}
behavior:
  scaleUp: {tolerance: 0}
  scaleDown: {tolerance: 0, stabilizationWindowSeconds: 5}
`)
	time.Sleep(time.Until(load.Start.Add(tracePlays)))
	targets := s.Targets(t)
	lasted := exact(t, s, targets)
	t.Logf("%d targets, of which lasted %v", len(targets), lasted)
	if len(lasted) < 5 {
		t.Errorf("only %v lasted longer than two syncs, so the test proves nothing; targets %v", lasted, targets)
	}
}

func azure(t *testing.T) *trace.Trace {
	t.Helper()
	root, err := components.Root()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(filepath.Dir(root), "..", "shared", "data", "requests", "AzureLLMInferenceTrace_conv.csv")
	if _, err := os.Stat(path); err != nil {
		t.Skip("the shared trace is missing:", err)
	}
	requests, err := tracefile.Open(path, tracefile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return requests
}
