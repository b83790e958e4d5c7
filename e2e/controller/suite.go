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

// Suite is what the tests of one package share: a stack with gpuscaler in it.
// Each test has its own namespace.
type Suite struct {
	*Controller
}

// Setup says what a suite is made of.
type Setup struct {
	Stack      stack.Options
	Nodes      int // of eight GPUs each
	Controller Options
	// Prepare runs between the start of the stack and that of gpuscaler.
	Prepare func(context.Context, *stack.Stack) error
	// Ready runs once gpuscaler serves; nil: nothing is to do then.
	Ready func(context.Context, *Controller) error
	// After runs once all tests are over, gpuscaler still serving; an error fails the package. nil: nothing is to do then.
	After func(*Controller) error
	// Platform returns the spec of the PlatformConfig.
	Platform func(*stack.Stack) string
}

// Run sets the suite and runs a package's tests in it. It returns the code to
// exit with, which is not 0 either where the API server refused gpuscaler
// anything.
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
	defer cancel() // whoever reads the API server stops before it does
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

// SideBySide runs so many parallel tests at once, more than there are cores,
// because they wait most of the time; -parallel on the command line wins.
func SideBySide(tests int) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		_ = flag.Set("test.parallel", strconv.Itoa(tests)) // never fails: the flag is testing's own
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
		return errors.New("a suite without a PlatformConfig")
	}
	if setup.Ready != nil {
		if err := setup.Ready(ctx, s.Controller); err != nil {
			return err
		}
	}
	return s.Policies.Put("platform", Platform(setup.Platform(k8s)))
}

// Space creates a namespace for a test.
func (s *Suite) Namespace(t testing.TB, name string) string {
	t.Helper()
	if err := s.Stack.Namespace(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	return name
}

// Why is Explain for a test that expects an answer.
func (s *Suite) Explanation(t testing.TB, policy string) explain.Explanation {
	t.Helper()
	e, err := s.Explain(t.Context(), policy)
	if err != nil {
		t.Fatal(err)
	}
	return e
}
