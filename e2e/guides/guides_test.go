package guides

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"sigs.k8s.io/karpenter/pkg/apis"

	"github.com/gpuscaler/gpuscaler/e2e/components"
	"github.com/gpuscaler/gpuscaler/e2e/controller"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
	"github.com/gpuscaler/gpuscaler/e2e/workload"
)

// blockTimeout limits the time of one block. Most blocks take a second, but the search of `gpuscaler tune` needs a minute of CPU time at
// low priority.
const blockTimeout = 10 * time.Minute

// reader is a user who runs the commands of the pages, all in one directory.
type reader struct {
	dir string // a directory with the charts and the config of the repository, and with the files that the pages define
	env []string
}

// All commands of README.md and of the guides must succeed in the order of the pages. The test first runs the commands that use Helm, while
// kwok simulates the pods of the chart. Then it starts gpuscaler as a process and runs the other commands.
func TestCommandsOfReadmeAndGuidesRun(t *testing.T) {
	all := commands(t)
	s := stack.Start(t, stack.Options{})
	r := newReader(t, s)
	r.cluster(t, s)
	serveMetrics(t, s)
	usesChart := func(b block) bool {
		return strings.Contains(b.text, "helm ") || strings.Contains(b.text, "gpuscaler-scaler-client")
	}
	for _, b := range all {
		if usesChart(b) {
			r.run(t, b)
		}
	}
	if t.Failed() {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	c := install(ctx, t, s)
	for _, b := range all {
		if usesChart(b) {
			continue
		}
		stack.Eventually(t, time.Minute, "gpuscaler serves targets", func(ctx context.Context) error {
			if err := c.Ready(1)(ctx); err != nil {
				return err
			}
			_, err := c.Explain(ctx, "team-chat/llama-chat")
			return err
		})
		if strings.Contains(b.text, "--prometheus \"$PROMETHEUS\" ") {
			waitForTwoRates(t, s)
		}
		r.run(t, b)
	}
}

// newReader creates the directory of a reader, and the programs kubectl, helm and gpuscaler.
func newReader(t *testing.T, s *stack.Stack) *reader {
	t.Helper()
	r := &reader{dir: t.TempDir()}
	bin := t.TempDir()
	if _, err := controller.Build(t.Context(), os.Stderr, bin); err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for name, path := range map[string]string{"helm": "helm.sh/helm/v3/cmd/helm", "kubectl": "./kubectl"} {
		build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(bin, name), path)
		if text, err := build.CombinedOutput(); err != nil {
			t.Fatalf("build %s: %v\n%s", name, err, text)
		}
	}
	r.env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "HOME="+t.TempDir(), "KUBECONFIG="+s.Kubeconfig,
		"PROMETHEUS="+s.Prometheus.URL)
	for _, name := range []string{"charts", "config"} {
		if err := os.Symlink(filepath.Join(root, name), filepath.Join(r.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for from, to := range map[string]string{"chat.yaml": "policies/chat.yaml", "embed.yaml": "policies/embed.yaml",
		"platform.yaml": "platform.yaml"} {
		text, err := os.ReadFile(filepath.Join(root, "config/examples", from))
		if err != nil {
			t.Fatal(err)
		}
		r.write(t, to, string(text))
	}
	for _, b := range blocks(t, "yaml") { // a block that begins with "# NAME.yaml" is the content of that file
		first, _, _ := strings.Cut(b.text, "\n")
		if name, is := strings.CutPrefix(first, "# "); is && strings.HasSuffix(name, ".yaml") {
			r.write(t, name, b.text)
		}
	}
	return r
}

func (r *reader) write(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join(r.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// lintFound matches the output of `gpuscaler lint` if it found errors. Its exit code is then 1.
var lintFound = regexp.MustCompile(`(?m)^\d+ errors?, \d+ warnings?, \d+ hints?$`)

// checkFound matches the output of `gpuscaler check` if the checks of the cluster and of the leader succeeded. The other checks may fail
// with exit code 1, because port-forwards do not work in a stack and no pod of Prometheus Operator, KEDA or Karpenter runs.
var checkFound = regexp.MustCompile(`(?s)✓ Kubernetes v.*✓ .* nodes offer GPUs: .*✓ this user may install the chart.*` +
	`✓ Deployment gpuscaler-system/gpuscaler is available.*✓ pod \S+ holds the Lease gpuscaler-system/gpuscaler and renews it.*` +
	`✓ APIService \S+ refers to gpuscaler-system/gpuscaler and is available.*\d+ checks ok, \d+ warnings?, \d+ checks? failed`)

// mayFail reports whether a command with the given output may have a non-zero exit code.
func mayFail(command, output string) bool {
	return strings.HasPrefix(command, "gpuscaler lint") && lintFound.MatchString(output) ||
		strings.HasPrefix(command, "gpuscaler check") && checkFound.MatchString(output)
}

// run runs a block with bash and returns its output. Each command must succeed, except `gpuscaler lint` and `gpuscaler check`, which may
// find errors.
func (r *reader) run(t *testing.T, b block) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), blockTimeout)
	defer cancel()
	// The block runs at low priority, so that a replay does not slow down the tests of other packages.
	command := exec.CommandContext(ctx, "nice", "-n", "19", "bash", "-c",
		"set -uo pipefail\ntrap 'echo \"FAILED: $BASH_COMMAND\"' ERR\n"+b.text)
	command.Dir, command.Env, command.WaitDelay = r.dir, r.env, 5*time.Second
	began := time.Now()
	output, err := command.CombinedOutput()
	t.Logf("%s (%s)", b.name(), time.Since(began).Round(100*time.Millisecond))
	if ctx.Err() != nil {
		t.Errorf("%s: not finished after %s (%v)\n%s", b.name(), blockTimeout, err, output)
		return string(output)
	}
	for _, line := range strings.Split(string(output), "\n") {
		failed, is := strings.CutPrefix(line, "FAILED: ")
		if is && !mayFail(failed, string(output)) {
			t.Errorf("%s\nfailed: %s\n%s", b.name(), failed, output)
		}
	}
	if strings.Contains(string(output), "\x1b") {
		t.Errorf("%s: the output has control characters, although it is not a terminal", b.name())
	}
	return string(output)
}

// cluster creates the objects that the pages assume in a cluster: nodes, the APIs of KEDA and Karpenter, and the workloads of two teams.
func (r *reader) cluster(t *testing.T, s *stack.Stack) {
	t.Helper()
	utilruntime.Must(apiextensionsv1.AddToScheme(stack.Scheme))
	for name, gpus := range map[string]int{"cpu": 0, "gpu": 8} {
		if err := s.Nodes(t.Context(), name, 2, gpus); err != nil {
			t.Fatal(err)
		}
	}
	for _, crd := range apis.CRDs {
		if err := s.Client.Create(t.Context(), crd.DeepCopy()); err != nil {
			t.Fatal(err)
		}
	}
	source, err := components.Source(t.Context(), "keda")
	if err != nil {
		t.Fatal(err)
	}
	for _, namespace := range []string{"team-chat", "team-embed", "keda"} {
		if err := s.Namespace(t.Context(), namespace); err != nil {
			t.Fatal(err)
		}
	}
	for namespace, name := range map[string]string{"team-chat": "llama-chat", "team-embed": "embed-worker"} {
		if err := s.Client.Create(t.Context(), workload.Deployment(namespace, name, 1)); err != nil {
			t.Fatal(err)
		}
	}
	r.write(t, ".cluster/nodepools.yaml", nodePools)
	r.write(t, ".cluster/scaledobject.yaml", scaledObject)
	r.run(t, block{page: "KEDA's and Karpenter's APIs", text: "kubectl apply --server-side -f " + filepath.Join(source, "config/crd/bases") +
		" && kubectl wait --for=condition=Established crd --all --timeout=60s"})
	r.run(t, block{page: "NodePools and a ScaledObject", text: "kubectl apply -f .cluster/nodepools.yaml -f .cluster/scaledobject.yaml"})
}

// nodePools contains the manifests of the NodePools that the guide about Karpenter names.
var nodePools = nodePool("l40s-spot", "spot") + "---\n" + nodePool("l40s-ondemand", "on-demand")

// scaledObject is a ScaledObject that does not use gpuscaler. The guide about migration converts it.
const scaledObject = `apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: embed-worker, namespace: team-embed}
spec:
  scaleTargetRef: {name: embed-worker}
  minReplicaCount: 0
  maxReplicaCount: 16
  triggers:
  - {type: redis, name: jobs, metadata: {address: "redis.team-embed.svc:6379", listName: embed-jobs, listLength: "200"}}
  - {type: cron, metadata: {timezone: Europe/Berlin, start: "0 8 * * 1-5", end: "0 20 * * 1-5", desiredReplicas: "2"}}
`

func nodePool(name, capacity string) string {
	return fmt.Sprintf(`apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: %s}
spec:
  limits: {nvidia.com/gpu: "32"}
  disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 30s}
  template:
    spec:
      nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}
      requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [%s]}]
`, name, capacity)
}

// pastMetrics is the age of the first DCGM sample. Each second, the next sample has a timestamp that is one minute later, until the
// timestamps reach the current time. The cost report therefore has data for the past 50 minutes.
const pastMetrics = 50 * time.Minute

// serveMetrics lets Prometheus scrape the metrics of a gateway and of a DCGM exporter.
func serveMetrics(t *testing.T, s *stack.Stack) {
	t.Helper()
	began := time.Now()
	const labels = `{gpu="0",UUID="GPU-1",modelName="NVIDIA L40S",Hostname="gpu-0",namespace="team-chat",pod="llama-chat-0"}`
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		elapsed := time.Since(began)
		at := time.Now().Add(-max(0, pastMetrics-60*elapsed)).UnixMilli()
		fmt.Fprintf(w, `inference_extension_flow_control_queue_size{namespace="team-chat",inference_pool="llama-chat"} 12
# TYPE inference_objective_request_total counter
inference_objective_request_total{namespace="team-chat",inference_pool="llama-chat"} %[1]d
# TYPE gateway_requests_total counter
gateway_requests_total{namespace="team-chat"} %[1]d
DCGM_FI_PROF_GR_ENGINE_ACTIVE%[2]s 0.5 %[3]d
DCGM_FI_DEV_GPU_UTIL%[2]s 60 %[3]d
DCGM_FI_DEV_FB_USED%[2]s 20000 %[3]d
DCGM_FI_DEV_FB_FREE%[2]s 25000 %[3]d
`, int(2*elapsed.Seconds()), labels, at)
	}))
	t.Cleanup(page.Close)
	target := stack.ScrapeTarget{Address: strings.TrimPrefix(page.URL, "http://"), Labels: map[string]string{"job": "dcgm"}}
	if err := s.Prometheus.Targets("guides", target); err != nil {
		t.Fatal(err)
	}
}

// waitForTwoRates waits until a range query of rates over one minute returns at least two values, which a replay needs.
func waitForTwoRates(t *testing.T, s *stack.Stack) {
	t.Helper()
	stack.Eventually(t, 4*time.Minute, "Prometheus has two minutes of requests", func(ctx context.Context) error {
		count, err := s.Prometheus.Value(ctx, "sum(count_over_time(sum(rate(gateway_requests_total[1m]))[10m:1m]))")
		if err == nil && count < 2 {
			err = fmt.Errorf("%v values", count)
		}
		return err
	})
}

// install installs gpuscaler in the stack with the PlatformConfig and the policy of README.md.
func install(ctx context.Context, t *testing.T, s *stack.Stack) *controller.Controller {
	t.Helper()
	policies := controller.Policies{Dir: filepath.Join(s.Dir, "policies")}
	if err := os.MkdirAll(policies.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	written := map[string]bool{}
	for _, b := range blocks(t, "yaml") {
		name, text := "llama-chat", b.text
		switch first, rest, _ := strings.Cut(b.text, "\n"); {
		case b.page == "README.md" && first == "# values.yaml":
			_, spec, _ := strings.Cut(rest, "\n") // removes the first line, which contains only the key platform
			spec = strings.ReplaceAll("\n"+spec, "\n  ", "\n")
			name, text = "platform", controller.Platform(strings.Replace(spec, "http://prometheus.monitoring.svc:9090", s.Prometheus.URL, 1))
		case b.page == "README.md" && first == "# llama-chat.yaml":
		default:
			continue
		}
		written[name] = true
		if err := policies.Put(name, text); err != nil {
			t.Fatal(err)
		}
	}
	if len(written) != 2 {
		t.Fatalf("README.md has blocks for %v", written)
	}
	c, err := controller.Up(ctx, s, controller.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}
