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
	// Version returns the version of the adapter that Start starts; empty: unknown.
	Version(ctx context.Context) (string, error)
	// Start starts the adapter in the lab, registers it with the API server, creates the HPAs, and sets Lab.Parts.
	Start(ctx context.Context, l *Lab) error
	// Metric returns the metric that the HPA of a workload reads. ok is false if the adapter does not serve a metric for this workload.
	Metric(w Workload) (m Metric, ok bool)
}

// Metric is an external metric of a workload.
type Metric struct {
	Name, Selector string
	Correct        float64 // value that the adapter must serve at the workload's constant load
}

// Parts contains the processes of a running adapter and the functions with which faults change it. If a field is nil, the faults that need
// this field do not apply to the adapter.
type Parts struct {
	Serving     func(context.Context) (*stack.Process, error)   // the process that serves metrics
	Standby     func(context.Context) (*stack.Process, error)   // the process of a replica that does not serve metrics
	All         func(context.Context) ([]*stack.Process, error) // every process of the adapter
	Operator    func(context.Context) (*stack.Process, error)   // KEDA's operator
	Drain       func(context.Context) error                     // stops the serving process as a drain of its node does
	Lose        func(context.Context) error                     // stops the serving process as a failure of its node does
	Rollout     func(context.Context) error                     // replaces every process
	API         func(context.Context) (*faults.TCP, error)      // proxy of the connections from the serving process to the API server
	EveryAPI    func() []*faults.TCP                            // proxies of the connections from all processes to the API server
	Certificate func(notAfter time.Time) error                  // replaces the serving certificate
	Permissions []client.Object                                 // bindings of the adapter's roles
	// UseKarpenter configures the adapter to use the NodePools gpu-spot and gpu-on-demand; nil: the adapter cannot use Karpenter.
	UseKarpenter func() error
	// Registers is true if the adapter creates its missing APIService. Otherwise, the end of the fault creates the APIService again, as a new
	// release of the adapter would.
	Registers bool
	Logs      []string // glob patterns of the adapter's log files
}

// NotApplicable is the reason why a fault does not apply to the adapter under test.
type NotApplicable string

func (n NotApplicable) Error() string { return string(n) }
