// Package cluster tests pkg/cluster with a real API server and exactly the roles of the chart.
package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscaler/gpuscaler/e2e/chart"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/cache"
	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

const home = "gpuscaler-system"

var (
	shared *stack.Stack
	// account is the client configuration of gpuscaler's ServiceAccount.
	account *rest.Config
	// scaleKinds contains the kinds that the installed release passes to gpuscaler, by the name of the kind.
	scaleKinds map[string]cache.ScaleKind
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	ctx := context.Background()
	var err error
	if shared, err = stack.Up(ctx, stack.Options{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer shared.Stop()
	if err := prepare(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	if code != 0 {
		shared.Keep()
	}
	return code
}

// prepare creates nodes and installs the roles of the chart.
func prepare(ctx context.Context) error {
	if err := shared.Nodes(ctx, "gpu", 2, 8); err != nil {
		return err
	}
	for _, name := range []string{home, "activator", "groups"} {
		if err := shared.Namespace(ctx, name); err != nil {
			return err
		}
	}
	kinds, err := documentedKinds()
	if err != nil {
		return err
	}
	for _, k := range [][]any{{"example.com", "v1", "Fleet", "fleets"}, {"ray.io", "v1", "RayCluster", "rayclusters"}} {
		kinds = append(kinds, map[string]any{"group": k[0], "version": k[1], "kind": k[2], "resource": k[3]})
	}
	release := chart.Release{Name: "gpuscaler", Namespace: home, Values: map[string]any{
		"mode": "all", "scaleKinds": kinds, "activator": map[string]any{"namespaces": []any{"activator", "groups"}},
	}}
	if err := chart.Apply(ctx, shared.Client, release, "serviceaccount.yaml", "rbac.yaml", "admission.yaml"); err != nil {
		return err
	}
	if scaleKinds, err = kindsOf(release); err != nil {
		return err
	}
	path, err := shared.ServiceAccountKubeconfig(ctx, home, "gpuscaler")
	if err != nil {
		return err
	}
	account, err = clientcmd.BuildConfigFromFlags("", path)
	return err
}

// forbidden is a log handler that collects the messages about requests that the API server rejected because of a missing permission. After
// one such message, the test package fails.
type forbidden struct {
	slog.Handler
	mu    *sync.Mutex
	lines *[]string
}

func (f forbidden) Handle(ctx context.Context, r slog.Record) error {
	line := r.Message
	r.Attrs(func(a slog.Attr) bool { line += " " + a.String(); return true })
	if strings.Contains(line, "forbidden") {
		f.mu.Lock()
		*f.lines = append(*f.lines, line)
		f.mu.Unlock()
	}
	return nil
}

func (f forbidden) WithAttrs([]slog.Attr) slog.Handler { return f }

func logger(t *testing.T) *slog.Logger {
	f := forbidden{slog.DiscardHandler, &sync.Mutex{}, &[]string{}}
	t.Cleanup(func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, line := range *f.lines {
			t.Error("the shipped roles do not allow a request:", line)
		}
	})
	return slog.New(alwaysOn{f})
}

type alwaysOn struct{ slog.Handler }

func (alwaysOn) Enabled(context.Context, slog.Level) bool { return true }

// background runs f in a goroutine until the test ends or stop is called.
func background(t *testing.T, f func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

func namespace(t *testing.T, name string) string {
	t.Helper()
	if err := shared.Namespace(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	return name
}

func create(t *testing.T, objects ...client.Object) {
	t.Helper()
	for _, o := range objects {
		if err := shared.Client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
}

func gpuPod() corev1.PodSpec {
	return corev1.PodSpec{Containers: []corev1.Container{{
		Name: "vllm", Image: "vllm/vllm-openai",
		Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{stack.GPU: resource.MustParse("1")}},
	}}}
}

func deployment(ns, name string, replicas int32) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: gpuPod()},
		},
	}
}

func workload(ns, name string) scaling.Workload {
	return scaling.Workload{
		Key: scaling.Key{Namespace: ns, Name: name}, Target: scaling.Target{APIVersion: "apps/v1", Kind: "Deployment", Name: name},
		Policy: &scaling.Policy{MaxReplicas: 10}, Activate: true,
	}
}

type fixed []scaling.Workload

func (f fixed) Current() []scaling.Workload { return f }

// servedTarget is a fake of the engine that serves the same target for every policy.
type servedTarget struct {
	mu       sync.Mutex
	replicas int32
}

func (b *servedTarget) set(n int32) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.replicas = n
}

func (b *servedTarget) Lookup(scaling.Key, time.Time) (engine.Served, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return engine.Served{Replicas: b.replicas}, nil
}
