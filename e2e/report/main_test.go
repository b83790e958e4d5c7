// Package report runs `gpuscaler report` and `gpuscaler lint` with a real Prometheus and a real API server.
package report

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscaler/gpuscaler/e2e/controller"
	"github.com/gpuscaler/gpuscaler/e2e/exporter"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
	"github.com/gpuscaler/gpuscaler/e2e/workload"
)

var (
	shared *stack.Stack
	binary string
)

// namespace is the namespace of the Deployment "chat". The Deployment's two replicas have one GPU each, and these GPUs are 25% busy.
const namespace = "team-chat"

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	dir, err := os.MkdirTemp("", "gpuscaler-report-")
	if err == nil {
		defer os.RemoveAll(dir)
		err = prepare(ctx, dir)
	}
	if shared != nil {
		defer shared.Stop()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	cancel() // stops the exporter, which must end before the API server stops
	return code
}

func prepare(ctx context.Context, dir string) (err error) {
	if binary = os.Getenv(controller.BinaryVariable); binary == "" {
		binary = filepath.Join(dir, "gpuscaler")
		compile := exec.CommandContext(ctx, "go", "build", "-o", binary, "./cmd/gpuscaler")
		compile.Dir, compile.Stderr = filepath.Join("..", ".."), os.Stderr
		if err := compile.Run(); err != nil {
			return fmt.Errorf("building gpuscaler: %w", err)
		}
	}
	if shared, err = stack.Up(ctx, stack.Options{}); err != nil {
		return err
	}
	if err := shared.Nodes(ctx, "gpu", 1, 4); err != nil {
		return err
	}
	// From these labels, which a cloud provider sets, the report determines the price of the node.
	patch := `{"metadata":{"labels":{"node.kubernetes.io/instance-type":"g6e.12xlarge","karpenter.sh/capacity-type":"on-demand",` +
		`"topology.kubernetes.io/region":"us-east-1"}}}`
	node := &corev1.Node{}
	node.Name = "gpu-0"
	if err := shared.Client.Patch(ctx, node, client.RawPatch("application/merge-patch+json", []byte(patch))); err != nil {
		return err
	}
	if err := shared.Namespace(ctx, namespace); err != nil {
		return err
	}
	if err := shared.Client.Create(ctx, workload.Deployment(namespace, "chat", 2)); err != nil {
		return err
	}
	load := &exporter.Knobs{}
	load.Set(exporter.Values{Waiting: 3, Running: 2, GPUBusy: 0.25, KVCache: 0.5})
	_, err = exporter.Run(ctx, shared, workload.Metrics(namespace, "chat", load))
	return err
}

// gpuscaler runs a command and returns its output and exit code.
func gpuscaler(t *testing.T, args ...string) (out string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, binary, args...)
	var notes bytes.Buffer
	c.Stderr = &notes
	text, err := c.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if c.ProcessState.ExitCode() != 0 {
		t.Logf("stderr: %s", notes.String())
	}
	return string(text), c.ProcessState.ExitCode()
}
