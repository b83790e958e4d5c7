package controller

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"
	"testing"

	"github.com/gpuscaler/gpuscaler/e2e/audit"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
	"github.com/gpuscaler/gpuscaler/pkg/dashboard/explain"
)

// Suite is the environment that the tests of one package share: a stack in which gpuscaler is installed. Each test has its own namespace.
type Suite struct {
	*Controller
}

// Setup configures a suite.
type Setup struct {
	Stack      stack.Options
	Nodes      int // number of nodes with eight GPUs each
	Controller Options
	// Prepare runs after the start of the stack and before the start of gpuscaler.
	Prepare func(context.Context, *stack.Stack) error
	// Ready runs when gpuscaler is ready and before the PlatformConfig is written; nil: no function runs.
	Ready func(context.Context, *Controller) error
	// After runs after all tests and before gpuscaler is stopped. An error fails the package. nil: no function runs.
	After func(*Controller) error
	// Platform returns the spec of the PlatformConfig.
	Platform func(*stack.Stack) string
}

// Run starts the suite, runs the package's tests and returns the exit code. The exit code is also non-zero if the API server rejected a
// request of gpuscaler because of a missing permission.
func (s *Suite) Run(m *testing.M, setup Setup) (code int) {
	requests, err := audit.New("system:serviceaccount:" + Namespace + ":" + Name)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer requests.Close()
	setup.Stack.APIServer = append(setup.Stack.APIServer, requests.Flags()...)
	k8s, err := stack.Up(context.Background(), setup.Stack)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer k8s.Stop()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel() // ends the clients of the API server before a later deferred function stops the API server
	if err := s.set(ctx, k8s, setup); err != nil {
		fmt.Fprintln(os.Stderr, err)
		k8s.Keep()
		return 1
	}
	SideBySide(20)
	code = m.Run()
	if setup.After != nil {
		if err := setup.After(s.Controller); err != nil {
			fmt.Fprintln(os.Stderr, "FAIL:", err)
			code = 1
		}
	}
	if err := requests.Judge(setup.Controller.release()); err != nil {
		fmt.Fprintln(os.Stderr, "FAIL:", err)
		code = 1
	}
	if code != 0 {
		k8s.Keep()
	}
	return code
}

// SideBySide sets the maximum number of tests that run in parallel. It can exceed the number of cores, because the tests spend most of
// their time waiting. The flag -parallel takes precedence.
func SideBySide(tests int) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		_ = flag.Set("test.parallel", strconv.Itoa(tests)) // no error is possible, because package testing defines the flag
	}
}

func (s *Suite) set(ctx context.Context, k8s *stack.Stack, setup Setup) (err error) {
	if err := k8s.Nodes(ctx, "gpu", setup.Nodes, 8); err != nil {
		return err
	}
	if setup.Prepare != nil {
		if err := setup.Prepare(ctx, k8s); err != nil {
			return err
		}
	}
	if s.Controller, err = Up(ctx, k8s, setup.Controller); err != nil {
		return err
	}
	if setup.Platform == nil {
		return errors.New("the suite has no PlatformConfig")
	}
	if setup.Ready != nil {
		if err := setup.Ready(ctx, s.Controller); err != nil {
			return err
		}
	}
	return s.Policies.Put("platform", Platform(setup.Platform(k8s)))
}

// Namespace creates a namespace for a test.
func (s *Suite) Namespace(t testing.TB, name string) string {
	t.Helper()
	if err := s.Stack.Namespace(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	return name
}

// Explanation returns the explanation of a policy, and fails the test if there is none.
func (s *Suite) Explanation(t testing.TB, policy string) explain.Explanation {
	t.Helper()
	e, err := s.Explain(t.Context(), policy)
	if err != nil {
		t.Fatal(err)
	}
	return e
}
