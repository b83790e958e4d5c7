package keda

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscaler/gpuscaler/e2e/controller"
	"github.com/gpuscaler/gpuscaler/e2e/record"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
	"github.com/gpuscaler/gpuscaler/e2e/workload"
	"github.com/gpuscaler/gpuscaler/pkg/dashboard/explain"
)

// name is the name of every Deployment, policy and ScaledObject of these tests. Each test has its own namespace.
const name = "embed"

// promptly is a behavior whose scale-down stabilization window is three seconds, so that the target decreases soon after the load.
const promptly = `
behavior:
  scaleUp: {tolerance: 0}
  scaleDown: {tolerance: 0, stabilizationWindowSeconds: 3}
`

// scaledWorkload is a Deployment that KEDA scales.
type scaledWorkload struct {
	ns       string
	replicas *record.Watched // spec.replicas of the Deployment
	jobs     *goredis.Client
}

// place creates a namespace with a Deployment, and starts to record the replicas of the Deployment.
func place(t *testing.T, ns string, replicas int32) *scaledWorkload {
	t.Helper()
	s := &scaledWorkload{ns: suite.Namespace(t, ns), jobs: goredis.NewClient(&goredis.Options{Addr: redis})}
	t.Cleanup(func() { s.jobs.Close() })
	d := workload.Deployment(ns, name, replicas)
	workload.Create(t, suite.Stack.Client, d)
	t.Cleanup(func() { // releases the GPUs for the next test
		err := errors.Join(client.IgnoreNotFound(suite.Stack.Client.Delete(context.Background(), ScaledObject(ns, name))),
			suite.Stack.Client.Delete(context.Background(), d))
		if err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Log(keda.Log())
		}
	})
	var err error
	if s.replicas, err = record.Deployment(t.Context(), suite.Stack.Client, ns, name); err != nil {
		t.Fatal(err)
	}
	stack.Eventually(t, time.Minute, fmt.Sprintf("%d replicas", replicas), s.has(replicas))
	return s
}

// queue returns the name of the Redis list with the workload's jobs.
func (s *scaledWorkload) queue() string { return s.ns + "-jobs" }

// backlog sets the length of the Redis list with the workload's jobs.
func (s *scaledWorkload) backlog(t *testing.T, n int) {
	t.Helper()
	jobs := make([]any, n)
	for i := range jobs {
		jobs[i] = i
	}
	pipe := s.jobs.TxPipeline()
	pipe.Del(t.Context(), s.queue())
	if n > 0 {
		pipe.RPush(t.Context(), s.queue(), jobs...)
	}
	if _, err := pipe.Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// policy writes the workload's policy file.
func (s *scaledWorkload) policy(t *testing.T, spec string) {
	t.Helper()
	if err := suite.Policies.Put(s.ns, controller.Policy(s.ns, name, spec)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = suite.Policies.Remove(s.ns) }) // ignored, because it fails if the test has already removed the policy
}

// manifest returns the output of `gpuscaler manifests scaledobject` for the workload's policy, with this suite's address of gpuscaler.
func (s *scaledWorkload) manifest(t *testing.T, flags ...string) string {
	t.Helper()
	args := append([]string{
		"manifests", "scaledobject", s.ns + "/" + name, "--config", suite.Policies.Dir,
		"--scaler-address", scaler.Address, "--authentication", "gpuscaler", "--keda", cmp.Or(os.Getenv("GPUSCALER_E2E_KEDA_VERSION"), "2.21"),
	}, flags...)
	text, err := suite.CLI(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// follow applies the manifest of a ScaledObject and waits until gpuscaler reports that KEDA reads the policy's target.
func (s *scaledWorkload) follow(t *testing.T, manifest string) {
	t.Helper()
	apply(t, manifest)
	stack.Eventually(t, time.Minute, "KEDA reads gpuscaler's target", s.explained(func(e explain.Explanation) error {
		if e.ScaledBy == nil || e.ScaledBy.Kind != "ScaledObject" {
			return fmt.Errorf("scaled by %+v", e.ScaledBy)
		}
		return nil
	}))
}

func apply(t *testing.T, manifest string) {
	t.Helper()
	if err := Apply(t.Context(), suite.Stack.Client, manifest); err != nil {
		t.Fatal(err)
	}
}

// annotate sets annotations of the ScaledObject. It removes an annotation if its value is nil.
func (s *scaledWorkload) annotate(t *testing.T, pairs ...any) {
	t.Helper()
	annotations := map[string]any{}
	for i := 0; i+1 < len(pairs); i += 2 {
		annotations[pairs[i].(string)] = pairs[i+1]
	}
	patch(t, ScaledObject(s.ns, name), map[string]any{"metadata": map[string]any{"annotations": annotations}})
}

func patch(t *testing.T, o client.Object, change map[string]any) {
	t.Helper()
	text, err := json.Marshal(change)
	if err != nil {
		t.Fatal(err)
	}
	if err := suite.Stack.Client.Patch(t.Context(), o, client.RawPatch(types.MergePatchType, text)); err != nil {
		t.Fatal(err)
	}
}

// scale sets the replicas of the Deployment, as a user would with kubectl scale.
func (s *scaledWorkload) scale(t *testing.T, n int32) {
	t.Helper()
	workload.Scale(t, suite.Stack.Client, workload.Deployment(s.ns, name, n), n)
}

// scaledObject reads the ScaledObject.
func (s *scaledWorkload) scaledObject(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	o := ScaledObject(s.ns, name)
	if err := suite.Stack.Client.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
		t.Fatal(err)
	}
	return o
}

// has returns a check that the Deployment has the given number of replicas and all of them are ready.
func (s *scaledWorkload) has(n int32) func(context.Context) error {
	return workload.HasReplicas(suite.Stack.Client, s.ns, name, n)
}

// spec returns a check that spec.replicas of the Deployment is n. The replicas need not be ready.
func (s *scaledWorkload) spec(n int32) func(context.Context) error {
	return func(ctx context.Context) error {
		var d appsv1.Deployment
		if err := suite.Stack.Client.Get(ctx, client.ObjectKey{Namespace: s.ns, Name: name}, &d); err != nil {
			return err
		}
		if *d.Spec.Replicas != n {
			return fmt.Errorf("%d replicas, want %d", *d.Spec.Replicas, n)
		}
		return nil
	}
}

func (s *scaledWorkload) explained(check func(explain.Explanation) error) func(context.Context) error {
	return func(ctx context.Context) error {
		e, err := suite.Explain(ctx, s.ns+"/"+name)
		if err != nil {
			return err
		}
		return check(e)
	}
}

// target returns a check that the policy has the target n, computed without missing signals.
func (s *scaledWorkload) target(n int32) func(context.Context) error {
	return s.explained(func(e explain.Explanation) error {
		if e.Target != n || e.Degraded {
			return fmt.Errorf("target %d (degraded: %t), want %d: %+v", e.Target, e.Degraded, n, e.Signals)
		}
		return nil
	})
}

// course returns the recorded changes of the Deployment's spec.replicas.
func (s *scaledWorkload) course(t *testing.T) record.Steps {
	t.Helper()
	steps, err := s.replicas.Steps()
	if err != nil {
		t.Fatal(err)
	}
	return steps
}

// noted returns a check that an Event about the ScaledObject has the given reason and contains all words.
func (s *scaledWorkload) noted(reason string, words ...string) func(context.Context) error {
	return suite.Event(s.ns, "ScaledObject", name, reason, words...)
}

func write(t *testing.T, file, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), file)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
