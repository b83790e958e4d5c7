// Package stack runs a real Kubernetes control plane on loopback for the end-to-end tests: etcd, kube-apiserver, kube-controller-manager
// (with the real HPA controller), kube-scheduler, kwok instead of kubelets, and a real Prometheus. Each component is a child process of the
// test. Two stacks share no process, port or file.
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

// Options configure a stack. The zero value is suitable for most tests.
type Options struct {
	// HPASync is the sync period of the HPA controller; default 2 s (Kubernetes: 15 s).
	HPASync time.Duration
	// ScrapeInterval is the scrape interval of Prometheus; default 1 s.
	ScrapeInterval time.Duration
	// Retention is the time for which Prometheus stores samples; default 6 h.
	Retention time.Duration
	// APIServer, ControllerManager and Scheduler are additional flags of these components.
	APIServer, ControllerManager, Scheduler []string
	// Etcd returns the URL at which the API server reaches etcd, for example the URL of a proxy in front of the given URL; nil: the API
	// server uses the given URL.
	Etcd func(url string) (string, error)
	// Out receives progress messages; default os.Stderr.
	Out io.Writer
}

func (o Options) withDefaults() Options {
	if o.HPASync == 0 {
		o.HPASync = 2 * time.Second
	}
	if o.ScrapeInterval == 0 {
		o.ScrapeInterval = time.Second
	}
	if o.Retention == 0 {
		o.Retention = 6 * time.Hour
	}
	if o.Out == nil {
		o.Out = os.Stderr
	}
	return o
}

// Stack is a running control plane.
type Stack struct {
	Dir        string // all files of this stack; Stop removes it unless Keep was called
	Config     *rest.Config
	Client     client.WithWatch // client of the administrator, without a cache
	Kubeconfig string           // kubeconfig of the administrator
	CA         *Authority       // signs the certificate of the API server and the certificates of all users
	Prometheus *Prometheus

	options Options
	paths   components.Paths
	ports   *portBlock
	server  string // address of the API server

	mu        sync.Mutex
	processes []*Process
	closers   []func() // functions that stop the servers in this process
	keep      bool
}

// startWithin is the maximum time for the start of a stack. The start takes about 10 s on two idle cores, and several times as long on a
// machine that also compiles.
const startWithin = 3 * time.Minute

// Start runs a stack for one test. The tests of a package can share a stack by calling Up in TestMain.
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

// Up builds missing binaries, starts all components and waits until they are ready. After an error, it stops all components and returns the
// error with the end of the failed component's log.
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

// Keep makes Stop leave the directory of the stack, including its logs.
func (s *Stack) Keep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keep = true
}

// Stop kills all processes in reverse order of their start, and removes the directory.
func (s *Stack) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := len(s.processes) - 1; i >= 0; i-- {
		s.processes[i].Kill() // Kill instead of Terminate, because the data is not needed
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

// Run starts a process that Stop kills.
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

// Port returns a free loopback port that no stack uses.
func (s *Stack) Port() (int, error) { return s.ports.take() }

// HostAddress returns the nth loopback address for pods that run as processes.
func (s *Stack) HostAddress(n int) string { return s.ports.hostAddress(n) }

// Binary returns the path of a component's binary.
func (s *Stack) Binary(name string) string { return s.paths[name] }

// Process returns the most recently started process with the given name, or nil.
func (s *Stack) Process(name string) *Process {
	all := s.Processes()
	for i := len(all) - 1; i >= 0; i-- {
		if all[i].Name == name {
			return all[i]
		}
	}
	return nil
}

// Restart kills the process with the given name if it runs, and starts a new process with the same command. It does not wait until the new
// process is ready.
func (s *Stack) Restart(name string) (*Process, error) {
	p := s.Process(name)
	if p == nil {
		return nil, fmt.Errorf("restart: no process %s", name)
	}
	p.Kill()
	return s.Run(p.command)
}

// Processes lists all processes of the stack, running or ended, in the order of their start.
func (s *Stack) Processes() []*Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*Process(nil), s.processes...)
}
