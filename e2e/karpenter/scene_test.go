package karpenter_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscaler/gpuscaler/e2e/audit"
	"github.com/gpuscaler/gpuscaler/e2e/chart"
	"github.com/gpuscaler/gpuscaler/e2e/controller"
	"github.com/gpuscaler/gpuscaler/e2e/karpenter"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
	"github.com/gpuscaler/gpuscaler/e2e/workload"
)

// scene is what the tests of this package share: a stack with Karpenter, and
// gpuscaler's ServiceAccount with the shipped roles and admission policies.
var scene struct {
	*stack.Stack
	karpenter *karpenter.Karpenter
	account   string // its kubeconfig
	epoch     time.Time
}

// speed is how much faster than the world's the clock of a fast process runs:
// the fence's 5 minutes are 10 seconds.
const speed = 30

var release = chart.Release{Name: controller.Name, Namespace: controller.Namespace, Values: map[string]any{"mode": "all"}}

func TestMain(m *testing.M) {
	if text := os.Getenv(fastEnv); text != "" {
		if err := fast(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	requests, err := audit.New("system:serviceaccount:" + controller.Namespace + ":" + controller.Name)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer requests.Close()
	scene.Stack, err = stack.Up(context.Background(), stack.Options{APIServer: requests.Flags()})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer scene.Stop()
	if err := set(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		scene.Keep()
		return 1
	}
	code := m.Run()
	if err := requests.Judge(release); err != nil {
		fmt.Fprintln(os.Stderr, "FAIL:", err)
		code = 1
	}
	if code != 0 {
		scene.Keep()
	}
	return code
}

func set(ctx context.Context) (err error) {
	scene.epoch = time.Now().Round(0)
	scene.karpenter, err = karpenter.Start(ctx, scene.Stack, karpenter.Options{
		InstanceTypes:  []karpenter.InstanceType{{Name: "g6e.xlarge", GPUs: 1, Prices: map[string]float64{"spot": 0.78, "on-demand": 1.861}}},
		UnavailableFor: 3 * time.Second,
	})
	if err != nil {
		return err
	}
	if err := scene.Namespace(ctx, controller.Namespace); err != nil {
		return err
	}
	if err := chart.Apply(ctx, scene.Client, release, "serviceaccount.yaml", "rbac.yaml", "admission.yaml"); err != nil {
		return err
	}
	scene.account, err = scene.ServiceAccountKubeconfig(ctx, controller.Namespace, controller.Name)
	return err
}

// pool is a NodePool as somebody writes it.
type pool struct {
	name, kind string // kind: a capacity type
	weight     int64
	limit      any // of GPUs; nil: none
	nudge      string
	labels     map[string]any
	by         style
	after      string // consolidateAfter
}

// style is how a NodePool came to be, which decides who owns its fields.
type style string

const (
	clientSide style = "kubectl apply"
	updated    style = "create, then edit"
	serverSide style = "server-side apply"
)

func (p pool) object() *unstructured.Unstructured {
	after := p.after
	if after == "" {
		after = "1s"
	}
	spec := map[string]any{
		"weight":     p.weight,
		"disruption": map[string]any{"consolidateAfter": after, "consolidationPolicy": "WhenEmpty"},
		"template": map[string]any{
			"metadata": map[string]any{"labels": map[string]any{"pool": p.name}},
			"spec": map[string]any{
				"nodeClassRef": map[string]any{"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": karpenter.NodeClass},
				"requirements": []any{map[string]any{"key": "karpenter.sh/capacity-type", "operator": "In", "values": []any{p.kind}}},
			},
		},
	}
	for k, v := range p.labels {
		spec["template"].(map[string]any)["metadata"].(map[string]any)["labels"].(map[string]any)[k] = v
	}
	if p.by == clientSide { // the default, 10%, is nobody's in the other styles
		spec["disruption"].(map[string]any)["budgets"] = []any{map[string]any{"nodes": "100%"}}
	}
	if p.limit != nil {
		spec["limits"] = map[string]any{"nvidia.com/gpu": p.limit, "cpu": "1000"}
	}
	u := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	u.SetAPIVersion("karpenter.sh/v1")
	u.SetKind("NodePool")
	u.SetName(p.name)
	if p.nudge != "" {
		u.SetAnnotations(map[string]string{"gpuscaler.io/nudge": p.nudge})
	}
	return u
}

// create makes a NodePool in its style, for the time of the test.
func (p pool) create(t *testing.T) {
	t.Helper()
	u, c := p.object(), scene.Client
	var err error
	switch p.by {
	case serverSide:
		err = c.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(u), client.FieldOwner("argocd-controller"))
	case updated:
		edit := fmt.Appendf(nil, `{"spec":{"weight":%d}}`, p.weight)
		p.weight++
		if err = c.Create(t.Context(), p.object(), client.FieldOwner("kubectl-create")); err == nil {
			err = c.Patch(t.Context(), p.object(), client.RawPatch(types.MergePatchType, edit), client.FieldOwner("kubectl-edit"))
		}
	default:
		text, _ := json.Marshal(u.Object)
		annotations := u.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations["kubectl.kubernetes.io/last-applied-configuration"] = string(text)
		u.SetAnnotations(annotations)
		err = c.Create(t.Context(), u, client.FieldOwner("kubectl-client-side-apply"))
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Delete(context.Background(), p.object()); client.IgnoreNotFound(err) != nil {
			t.Error(err)
		}
	})
	stack.Eventually(t, 30*time.Second, "NodePool "+p.name+" is Ready", func(ctx context.Context) error {
		u := p.get(ctx)
		conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
		for _, c := range conditions {
			if c.(map[string]any)["type"] == "Ready" && c.(map[string]any)["status"] == "True" {
				return nil
			}
		}
		return fmt.Errorf("conditions %v", conditions)
	})
}

func (p pool) get(ctx context.Context) *unstructured.Unstructured {
	u := p.object()
	if err := scene.Client.Get(ctx, client.ObjectKeyFromObject(u), u); err != nil {
		return &unstructured.Unstructured{Object: map[string]any{}}
	}
	return u
}

// face is all of a NodePool that must be as before when we have gone: its spec
// byte for byte, its annotations, and who owns what of it.
func (p pool) face(t *testing.T) string {
	t.Helper()
	u := p.get(t.Context())
	spec, err := json.Marshal(u.Object["spec"])
	if err != nil {
		t.Fatal(err)
	}
	var owners []string
	for _, m := range u.GetManagedFields() {
		if m.Subresource == "" && m.Manager != "karpenter" && !strings.HasPrefix(m.Manager, "karpenter") {
			owners = append(owners, fmt.Sprintf("%s/%s %s", m.Manager, m.Operation, normal(m.FieldsV1.Raw)))
		}
	}
	slices.Sort(owners)
	return fmt.Sprintf("spec %s\nannotations %v\n%s", spec, u.GetAnnotations(), strings.Join(owners, "\n"))
}

// normal is JSON with sorted keys.
func normal(raw []byte) string {
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		return err.Error()
	}
	text, _ := json.Marshal(v) // what came as JSON goes as JSON
	return string(text)
}

// hash is what Karpenter sees drift by.
func (p pool) hash(ctx context.Context) string {
	return p.get(ctx).GetAnnotations()["karpenter.sh/nodepool-hash"]
}

func (p pool) limitNow(ctx context.Context) string {
	v, found, _ := unstructured.NestedFieldNoCopy(p.get(ctx).Object, "spec", "limits", "nvidia.com/gpu")
	if !found {
		return "absent"
	}
	return fmt.Sprint(v)
}

// guest is a fast gpuscaler and what it decides for.
type guest struct {
	dir     string
	config  fastConfig
	mu      sync.Mutex
	process *exec.Cmd
	stop    context.CancelFunc
	n       int
}

// start writes the files and runs a fast gpuscaler for the time of the test.
func start(t *testing.T, files map[string]string) *guest {
	t.Helper()
	return startAt(t, speed, files)
}

// startAt is start with a clock of another speed.
func startAt(t *testing.T, speed float64, files map[string]string) *guest {
	t.Helper()
	dir := filepath.Join(scene.Dir, strings.ReplaceAll(t.Name(), "/", "-"))
	if err := os.MkdirAll(filepath.Join(dir, "policies"), 0o755); err != nil {
		t.Fatal(err)
	}
	g := &guest{dir: dir}
	load, status := fastFiles(dir)
	g.config = fastConfig{Kubeconfig: scene.account, Policies: filepath.Join(dir, "policies"), Load: load, Status: status, Epoch: scene.epoch, Speed: speed}
	for name, text := range files {
		g.write(t, name, text)
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
		if t.Failed() {
			t.Logf("logs and status in %s", dir)
			t.Log(g.tail(60))
		}
	})
	return g
}

func (g *guest) write(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join(g.config.Policies, name)
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// load says what is asked for, by policy.
func (g *guest) load(t *testing.T, values map[string]float64) {
	t.Helper()
	text, err := json.Marshal(values)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(g.config.Load+".new", text, 0o600), os.Rename(g.config.Load+".new", g.config.Load)); err != nil {
		t.Fatal(err)
	}
}

func (g *guest) run(t *testing.T) {
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
	_ = os.Remove(g.config.Status) // that of the one before
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), fastEnv+"="+string(config))
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	g.mu.Lock()
	g.process = cmd
	g.mu.Unlock()
	stack.Eventually(t, 40*time.Second, "gpuscaler decides", func(context.Context) error { _, err := g.status(); return err })
}

// end ends the process by a signal and waits for it.
func (g *guest) end(signal syscall.Signal) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.process == nil {
		return
	}
	_ = g.process.Process.Signal(signal) // it may have ended by itself
	_ = g.process.Wait()
	g.process = nil
}

func (g *guest) status() (s fastStatus, err error) {
	text, err := os.ReadFile(g.config.Status)
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	return s, err
}

func (g *guest) tail(lines int) string {
	text, _ := os.ReadFile(filepath.Join(g.dir, fmt.Sprintf("gpuscaler-%d.log", g.n)))
	all := strings.Split(string(text), "\n")
	return strings.Join(all[max(len(all)-lines, 0):], "\n")
}

// follow is the HPA: it moves each Deployment to its number.
func (g *guest) follow(ctx context.Context) {
	for ctx.Err() == nil {
		time.Sleep(200 * time.Millisecond)
		s, err := g.status()
		if err != nil {
			continue
		}
		for key, n := range s.Numbers {
			namespace, name, _ := strings.Cut(key, "/")
			var d appsv1.Deployment
			if scene.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &d) == nil && *d.Spec.Replicas != n {
				d.Spec.Replicas = &n
				_ = scene.Client.Update(ctx, &d) // tried again at once
			}
		}
	}
}

// group waits until a group's outcome passes a check.
func (g *guest) group(t *testing.T, within time.Duration, what string, check func(fastGroup) error) {
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

// chat creates a Deployment without replicas, for the time of the test.
func chat(t *testing.T, namespace string, selector map[string]string) {
	t.Helper()
	if err := scene.Namespace(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	d := workload.Deployment(namespace, "chat", 0)
	d.Spec.Template.Spec.NodeSelector = selector
	if err := scene.Client.Create(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = scene.Client.Delete(context.Background(), d, client.PropagationPolicy(metav1.DeletePropagationForeground))
		if err := stack.Poll(context.Background(), time.Minute, func(ctx context.Context) error {
			var nodes corev1.NodeList
			if err := scene.Client.List(ctx, &nodes, client.HasLabels{"karpenter.sh/nodepool"}); err != nil {
				return err
			}
			if len(nodes.Items) > 0 {
				return fmt.Errorf("%d nodes", len(nodes.Items))
			}
			return nil
		}); err != nil {
			t.Error("its nodes do not go:", err)
		}
	})
}

// chatPolicy follows the load file at once.
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
