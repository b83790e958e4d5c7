package lab

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscaler/gpuscaler/e2e/faults"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
)

// Target is an external metrics adapter under test.
type Target interface {
	Name() string
	// Version returns the version of the adapter that start runs; empty: unknown.
	Version(ctx context.Context) (string, error)
	// Start starts the adapter in the lab, registers it with the API server, creates the HPAs, and sets Lab.Parts.
	Start(ctx context.Context, l *Lab) error
	// Metric returns how the HPA of a workload reads its metric; ok is false if the adapter does not serve this workload.
	Metric(w Workload) (m Metric, ok bool)
}

// Metric is an external metric of a workload.
type Metric struct {
	Name, Selector string
	Correct        float64 // value at the constant load
}

// Parts are the parts of a running adapter that faults use. If a part is nil, the faults that need it do not apply.
type Parts struct {
	Serving     func(context.Context) (*stack.Process, error)   // the process that serves metrics
	Standby     func(context.Context) (*stack.Process, error)   // a replica that does not serve
	All         func(context.Context) ([]*stack.Process, error) // every process of the adapter
	Operator    func(context.Context) (*stack.Process, error)   // KEDA's operator
	Drain       func(context.Context) error                     // stops the serving process as a drain of its node does
	Lose        func(context.Context) error                     // stops the serving process as a failure of its node does
	Rollout     func(context.Context) error                     // replaces every process
	API         func(context.Context) (*faults.TCP, error)      // proxy of the connections from the serving process to the API server
	EveryAPI    func() []*faults.TCP                            // proxies of the connections from all processes to the API server
	Certificate func(notAfter time.Time) error                  // replaces the serving certificate
	Permissions []client.Object                                 // bindings of the adapter's roles
	// UseKarpenter makes the adapter decide for the NodePools gpu-spot and gpu-on-demand; nil: the adapter cannot use Karpenter.
	UseKarpenter func() error
	// Registers is true if the adapter creates a missing APIService itself. Otherwise the lab restores it, as a new release of the adapter
	// would.
	Registers bool
	Logs      []string // patterns of the log files
}

// NotApplicable is the reason why a fault does not apply to the target.
type NotApplicable string

func (n NotApplicable) Error() string { return string(n) }
