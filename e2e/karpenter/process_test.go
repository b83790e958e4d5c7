package karpenter_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscaler/gpuscaler/e2e/controller"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
	"github.com/gpuscaler/gpuscaler/e2e/workload"
)

// fastProcess is a fast process (see fastEnv) and its files.
type fastProcess struct {
	dir     string
	config  fastConfig
	mu      sync.Mutex
	process *exec.Cmd
	stop    context.CancelFunc
	n       int
}

// start writes the policy files and runs a fast process until the end of the test. The parameter name is the namespace of the test's
// workloads and the prefix of its NodePools.
func start(t *testing.T, name string, files map[string]string) *fastProcess {
	t.Helper()
	return startAt(t, speed, name, files)
}

// startAt does the same as start, with a clock of the given speed.
func startAt(t *testing.T, speed float64, name string, files map[string]string) *fastProcess {
	t.Helper()
	return startAs(t, suite.account, speed, name, files)
}

// startAs does the same as startAt, with the permissions of the given account.
func startAs(t *testing.T, account string, speed float64, name string, files map[string]string) *fastProcess {
	t.Helper()
	dir := filepath.Join(suite.Dir, strings.ReplaceAll(t.Name(), "/", "-"))
	if err := os.MkdirAll(filepath.Join(dir, "policies"), 0o755); err != nil {
		t.Fatal(err)
	}
	g := &fastProcess{dir: dir}
	load, status := fastFiles(dir)
	g.config = fastConfig{Kubeconfig: account, Policies: filepath.Join(dir, "policies"), Load: load, Status: status, Prefix: name + "-",
		Epoch: suite.epoch, Speed: speed}
	for file, text := range files {
		g.write(t, file, text)
	}
	g.load(t, nil)
	g.run(t)
	ctx, cancel := context.WithCancel(context.Background())
	g.stop = cancel
	followed := make(chan struct{})
	go func() { defer close(followed); g.follow(ctx) }()
	t.Cleanup(func() {
		g.end(syscall.SIGTERM)
		cancel()
		<-followed
		g.agrees(t)
		if t.Failed() {
			t.Logf("logs and status in %s", dir)
			t.Log(g.tail(60))
		}
	})
	return g
}

func (g *fastProcess) write(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join(g.config.Policies, name)
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// load sets the value of the signal of each policy.
func (g *fastProcess) load(t *testing.T, values map[string]float64) {
	t.Helper()
	text, err := json.Marshal(values)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(g.config.Load+".new", text, 0o600), os.Rename(g.config.Load+".new", g.config.Load)); err != nil {
		t.Fatal(err)
	}
}

func (g *fastProcess) run(t *testing.T) {
	t.Helper()
	config, err := json.Marshal(g.config)
	if err != nil {
		t.Fatal(err)
	}
	g.n++
	log, err := os.Create(filepath.Join(g.dir, fmt.Sprintf("gpuscaler-%d.log", g.n)))
	if err != nil {
		t.Fatal(err)
	}
	_ = os.Remove(g.config.Status) // delete the status of the previous process
	cmd := exec.Command(os.Args[0])
	// The fast process lists objects before it watches them, as clients before Kubernetes 1.34 do. In the tests with the gpuscaler binary,
	// the clients use streaming lists.
	cmd.Env = append(os.Environ(), fastEnv+"="+string(config), "KUBE_FEATURE_WatchListClient=false")
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	g.mu.Lock()
	g.process = cmd
	g.mu.Unlock()
	stack.Eventually(t, 40*time.Second, "gpuscaler decides", func(context.Context) error { _, err := g.status(); return err })
}

// end sends a signal to the process and waits until it has exited.
func (g *fastProcess) end(signal syscall.Signal) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.process == nil {
		return
	}
	_ = g.process.Process.Signal(signal) // ignored, because the process may have ended
	_ = g.process.Wait()
	g.process = nil
}

func (g *fastProcess) status() (s fastStatus, err error) {
	text, err := os.ReadFile(g.config.Status)
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	return s, err
}

func (g *fastProcess) tail(lines int) string {
	text, _ := os.ReadFile(filepath.Join(g.dir, fmt.Sprintf("gpuscaler-%d.log", g.n)))
	all := strings.Split(string(text), "\n")
	return strings.Join(all[max(len(all)-lines, 0):], "\n")
}

// follow does the work of the HPAs: it sets the replicas of each Deployment to the policy's target. It ignores workloads of other kinds.
func (g *fastProcess) follow(ctx context.Context) {
	for ctx.Err() == nil {
		time.Sleep(200 * time.Millisecond)
		s, err := g.status()
		if err != nil {
			continue
		}
		for key, n := range s.Numbers {
			namespace, name, _ := strings.Cut(key, "/")
			var d appsv1.Deployment
			if suite.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &d) == nil && *d.Spec.Replicas != n {
				d.Spec.Replicas = &n
				_ = suite.Client.Update(ctx, &d) // retried in the next round
			}
		}
	}
}

// group waits until check returns nil for the status of the test's capacity group.
func (g *fastProcess) group(t *testing.T, within time.Duration, what string, check func(fastGroup) error) {
	t.Helper()
	stack.Eventually(t, within, what, func(context.Context) error {
		s, err := g.status()
		if err != nil {
			return err
		}
		group, ok := s.Groups["gpu"]
		if !ok {
			return fmt.Errorf("no group: %+v", s)
		}
		if err := check(group); err != nil {
			return fmt.Errorf("%w: %+v %s", err, group, s.Err)
		}
		return nil
	})
}

// chat creates and returns the Deployment chat with zero replicas, whose pods run only on nodes of this test. It deletes the Deployment at
// the end of the test.
func chat(t *testing.T, namespace string, selector map[string]string) *appsv1.Deployment {
	t.Helper()
	if selector == nil {
		selector = map[string]string{"suite": namespace}
	}
	if err := suite.Namespace(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	d := workload.Deployment(namespace, "chat", 0)
	d.Spec.Template.Spec.NodeSelector = selector
	if err := suite.Client.Create(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = suite.Client.Delete(context.Background(), d, client.PropagationPolicy(metav1.DeletePropagationForeground))
		if err := stack.Poll(context.Background(), 5*time.Minute, func(ctx context.Context) error {
			var nodes corev1.NodeList
			if err := suite.Client.List(ctx, &nodes, client.MatchingLabels{"suite": namespace}); err != nil {
				return err
			}
			if len(nodes.Items) > 0 {
				return fmt.Errorf("%d nodes", len(nodes.Items))
			}
			return nil
		}); err != nil {
			t.Error("its nodes are not removed:", err)
		}
	})
	return d
}

// chatPolicy returns a policy for the Deployment chat whose target equals the value in the load file, without a delay or a tolerance.
func chatPolicy(namespace string) string {
	return controller.Policy(namespace, "chat", `
minReplicas: 0
maxReplicas: 20
cooldownPeriod: 0
capacityGroup: gpu
signals:
- {name: queue, type: external, metric: queue, target: 1, maxAge: 10m}
behavior:
  scaleUp: {tolerance: 0}
  scaleDown: {tolerance: 0, stabilizationWindowSeconds: 0}
`)
}
