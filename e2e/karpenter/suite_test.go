package karpenter_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/e2e/audit"
	"github.com/gpuscaler/gpuscaler/e2e/chart"
	"github.com/gpuscaler/gpuscaler/e2e/controller"
	"github.com/gpuscaler/gpuscaler/e2e/karpenter"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
)

// suite is the environment of this package's tests: a stack with Karpenter, and gpuscaler's ServiceAccount with the shipped roles and
// admission policies.
var suite struct {
	*stack.Stack
	karpenter *karpenter.Karpenter
	account   string // kubeconfig of the ServiceAccount
	epoch     time.Time
}

// speed is the factor by which the clock of a fast process is faster than real time. For example, the 5 minutes before a zero limit is
// set take 10 seconds.
const speed = 30

var release = chart.Release{Name: controller.Name, Namespace: controller.Namespace,
	Values: map[string]any{"mode": "all", "karpenter": map[string]any{"capacityBuffers": true}}}

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
	suite.Stack, err = stack.Up(context.Background(), stack.Options{APIServer: requests.Flags()})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer suite.Stop()
	if err := set(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		suite.Keep()
		return 1
	}
	controller.SideBySide(5) // at most 5 tests in parallel, because a fast clock does not slow down on a busy machine
	code := m.Run()
	if err := requests.Judge(release); err != nil {
		fmt.Fprintln(os.Stderr, "FAIL:", err)
		code = 1
	}
	if code != 0 {
		suite.Keep()
	}
	return code
}

func set(ctx context.Context) (err error) {
	suite.epoch = time.Now().Round(0)
	unavailable := 3 * time.Second
	if os.Getenv("GPUSCALER_E2E_LONG") != "" {
		unavailable = 3 * time.Minute / speed // three minutes of the fast clock, which is the value on AWS
	}
	suite.karpenter, err = karpenter.Start(ctx, suite.Stack, karpenter.Options{
		InstanceTypes:  offered(),
		FeatureGates:   "CapacityBuffer=true",
		UnavailableFor: unavailable,
	})
	if err != nil {
		return err
	}
	if err := suite.Namespace(ctx, controller.Namespace); err != nil {
		return err
	}
	if err := chart.Apply(ctx, suite.Client, release, "serviceaccount.yaml", "rbac.yaml", "admission.yaml"); err != nil {
		return err
	}
	suite.account, err = suite.ServiceAccountKubeconfig(ctx, controller.Namespace, controller.Name)
	return err
}
