// Package stack runs a real Kubernetes control plane on loopback for the
// end-to-end tests: etcd, kube-apiserver, kube-controller-manager (with the
// real HPA controller), kube-scheduler, kwok in place of kubelets, and a real
// Prometheus. Each is a child process of the test; two stacks do not meet.
package stack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscaler/gpuscaler/e2e/components"
)

// Options says how a stack differs from the default one. The zero value is
// what most tests want.
type Options struct {
	// HPASync is how often the HPA controller looks; default 2 s (upstream: 15 s).
	HPASync time.Duration
	// ScrapeInterval is Prometheus's; default 1 s.
	ScrapeInterval time.Duration
	// APIServer, ControllerManager and Scheduler are appended to the flags.
	APIServer, ControllerManager, Scheduler []string
	// Out receives progress; default os.Stderr.
	Out io.Writer
}

func (o Options) withDefaults() Options {
	if o.HPASync == 0 {
		o.HPASync = 2 * time.Second
	}
	if o.ScrapeInterval == 0 {
		o.ScrapeInterval = time.Second
	}
	if o.Out == nil {
		o.Out = os.Stderr
	}
	return o
}

// Stack is a running control plane.
type Stack struct {
	Dir        string // everything of this stack; removed by Stop unless kept
	Config     *rest.Config
	Client     client.WithWatch // the administrator's, uncached
	Kubeconfig string           // the administrator's
	CA         *Authority       // signs the API server's and every user's certificate
	Prometheus *Prometheus

	options Options
	paths   components.Paths
	ports   *portBlock
	server  string // the API server's address

	mu        sync.Mutex
	processes []*Process
	closers   []func() // of what runs in this process
	keep      bool
}

// startWithin bounds a start. It takes about 10 s on two idle cores; a machine
// that also compiles takes several times that.
const startWithin = 3 * time.Minute

// Start runs a stack for one test. Tests of one package share a stack by
// calling Up in TestMain.
func Start(t testing.TB, o Options) *Stack {
	t.Helper()
	s, err := Up(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			s.Keep()
		}
		s.Stop()
	})
	return s
}

// Up builds what is not cached, starts everything and waits until it is ready.
// On an error everything is stopped again, and the error carries the tail of
// the log of the process that failed.
func Up(ctx context.Context, o Options) (*Stack, error) {
	o = o.withDefaults()
	paths, err := components.Ensure(ctx, o.Out, components.Default()...)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()

	s := &Stack{options: o, paths: paths, keep: os.Getenv("GPUSCALER_E2E_KEEP") != ""}
	if s.Dir, err = os.MkdirTemp("", "gpuscaler-e2e-"); err != nil {
		return nil, err
	}
	if err := s.up(ctx); err != nil {
		s.Keep()
		s.Stop()
		return nil, fmt.Errorf("stack: %w", err)
	}
	fmt.Fprintf(o.Out, "stack: ready in %s (%s)\n", time.Since(began).Round(100*time.Millisecond), s.server)
	return s, nil
}

func (s *Stack) up(ctx context.Context) error {
	for _, dir := range []string{"logs", "certificates", "kubeconfigs", "etcd", "prometheus"} {
		if err := os.Mkdir(filepath.Join(s.Dir, dir), 0o755); err != nil {
			return err
		}
	}
	var err error
	if s.ports, err = reservePorts(); err != nil {
		return err
	}
	if s.CA, err = newAuthority("gpuscaler-e2e"); err != nil {
		return err
	}
	return errors.Join(s.startControlPlane(ctx), s.startPrometheus(ctx))
}

// Keep leaves the stack's folder, with its logs, in place when it stops.
func (s *Stack) Keep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keep = true
}

// Stop ends every process, the last started first, and removes the folder.
func (s *Stack) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := len(s.processes) - 1; i >= 0; i-- {
		s.processes[i].Kill() // nothing here outlives the test, so nothing needs a goodbye
	}
	for _, end := range s.closers {
		end()
	}
	s.processes, s.closers = nil, nil
	if s.ports != nil {
		s.ports.release()
	}
	if s.keep {
		fmt.Fprintf(s.options.Out, "stack: kept in %s\n", s.Dir)
		return
	}
	if err := os.RemoveAll(s.Dir); err != nil {
		fmt.Fprintln(s.options.Out, "stack:", err)
	}
}

// Run starts a process that ends with the stack.
func (s *Stack) Run(c Command) (*Process, error) {
	p, err := startProcess(c, filepath.Join(s.Dir, "logs", c.Name+".log"))
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.processes = append(s.processes, p)
	return p, nil
}

func (s *Stack) onStop(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closers = append(s.closers, f)
}

// Port returns a port on loopback that nothing else of any stack uses.
func (s *Stack) Port() (int, error) { return s.ports.take() }

// HostAddress returns the nth loopback address of pods that run as processes.
func (s *Stack) HostAddress(n int) string { return s.ports.hostAddress(n) }

// Binary returns the file of a built component's binary.
func (s *Stack) Binary(name string) string { return s.paths[name] }

// Processes lists what runs or ran in this stack, in the order of its start.
func (s *Stack) Processes() []*Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*Process(nil), s.processes...)
}
