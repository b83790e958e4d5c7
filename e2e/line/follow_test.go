package line

import (
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
)

// lag allows the HPA one sync, and this machine what it needs to write and tell, a stall of three seconds among it.
var lag = record.Lag{Sync: hpaSync, Slack: 4 * time.Second}

// onGateway asks for one replica for ten requests at the gateway, a single
// series that does not move when replicas come and go.
const onGateway = `
maxReplicas: 24
signals:
- {name: gateway, type: prometheus, queryRef: gateway-queue, target: 10}` + promptly

func TestEveryStepOfOneReplicaIsFollowedAlsoDuringARollout(t *testing.T) {
	t.Parallel()
	ns, load := suite.Namespace(t, "steps"), &exporter.Knobs{}
	set := func(replicas int32) { load.Set(exporter.Values{Upstream: float64(replicas)*10 - 3}) }
	set(10)
	suite.Export(t, workload.Metrics(ns, "calm", load), workload.Metrics(ns, "rolling", load))
	calm := suite.Workload(t, workload.Deployment(ns, "calm", 10), onGateway)
	rolling := suite.Workload(t, surging(ns, "rolling", 10), onGateway)
	for _, s := range []controller.Workload{calm, rolling} {
		stack.Eventually(t, 20*time.Second, "it is decided on the gateway's queue", s.HasTarget(10))
	}

	began := time.Now()
	rollOut(t, ns, "rolling")
	surged := false
	for _, n := range []int32{10, 11, 10, 20, 19} {
		set(n)
		// The poll, the window of a fall, longer than two syncs, and a stall.
		for end := time.Now().Add(3*hpaSync + 7*time.Second); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
			surged = surged || status(t, ns, "rolling").Replicas > n
		}
	}
	if s := status(t, ns, "rolling"); s.UpdatedReplicas == s.Replicas {
		t.Error("the rollout was over before the last step: nothing was shown")
	}
	if !surged {
		t.Error("the rollout never had a pod too many: nothing was shown")
	}
	for _, s := range []controller.Workload{calm, rolling} {
		followed(t, s, began, []int32{10, 11, 10, 20, 19})
	}
}

// followed wants exactly these targets since then, each of them met by the HPA
// and kept as long as it stood.
func followed(t *testing.T, s controller.Workload, since time.Time, want []int32) {
	t.Helper()
	targets := s.Targets(t).Since(since)
	if !slices.Equal(targets.Numbers(), want) {
		t.Errorf("%s: the targets were %v, want %v", s.Name, targets, want)
	}
	stood := exact(t, s, targets)
	if !slices.Equal(stood, want) {
		t.Errorf("%s: of %v only %v stood longer than two syncs", s.Name, want, stood)
	}
}

// exact judges the HPA against the targets and returns those that stood.
func exact(t *testing.T, s controller.Workload, targets record.Steps) []int32 {
	t.Helper()
	desired, err := s.HPA.Steps()
	if err != nil {
		t.Fatal(err)
	}
	stood, err := record.Follows(targets, desired, time.Now(), lag)
	if err != nil {
		t.Errorf("%s: %v\ntargets %v\nHPA     %v", s.Name, err, targets, desired)
	}
	return stood
}

// surging is a Deployment whose replicas load for a while and are replaced one
// by one, with one too many meanwhile.
func surging(namespace, name string, replicas int32) *appsv1.Deployment {
	d := workload.Deployment(namespace, name, replicas)
	one, none := intstr.FromInt32(1), intstr.FromInt32(0)
	d.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{MaxSurge: &one, MaxUnavailable: &none}
	d.Spec.Template.Annotations = map[string]string{stack.StartupAnnotation: "6s"}
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

// The trace's hour is played in a minute and a half.
const (
	traceSpeed = 40
	tracePlays = 75 * time.Second
)

func TestTheHPAFollowsARecordedHourOfRequests(t *testing.T) {
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
	stood := exact(t, s, targets)
	t.Logf("%d targets, of which stood %v", len(targets), stood)
	if len(stood) < 5 {
		t.Errorf("only %v stood longer than two syncs: nothing was shown; targets %v", stood, targets)
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
		t.Skip("the recorded requests are not on this machine:", err)
	}
	requests, err := trace.Open(path, trace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return requests
}
