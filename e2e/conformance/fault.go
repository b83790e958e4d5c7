package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/gpuscaler/gpuscaler/e2e/conformance/record"

	"github.com/gpuscaler/gpuscaler/e2e/conformance/lab"
)

// fault is a failure that the command injects, for example a killed process. The table of results has a row for each fault.
type fault struct {
	name   string
	what   string // one sentence that describes the failure
	inject inject
	hold   time.Duration // minimum duration of the fault; 0: timing.hold, which is too short for some faults to have an effect
	// revision is a number that a developer increases after a change of the fault that makes its earlier runs incomparable.
	revision int
}

// method is a version number of the test method. A developer increases it after a change that makes all earlier runs incomparable: a change
// of the cluster, of the adapters' settings or of package judge.
const method = 1

// definition returns a hash of the fault's settings and of the workloads. It is stored with each run, and a run counts only if it has the
// current hash. The hash does not include the code of the fault, because most changes of the code do not change the fault.
func (f fault) definition() string {
	h := sha256.New()
	fmt.Fprintln(h, method, f.revision, f.hold, standard.steady, standard.hold, standard.settle, standard.recover)
	for _, w := range lab.Workloads {
		fmt.Fprintln(h, w.Name, w.Origin, w.Waiting, w.Replicas())
	}
	return hex.EncodeToString(h.Sum(nil))[:6]
}

// inject starts a fault and returns the function that ends it. The function is nil for a fault that is over at once, such as a kill of a
// process. inject returns a lab.NotApplicable error if the adapter does not have the component that should fail, for example a standby.
type inject func(ctx context.Context, l *lab.Lab) (repair, error)

type repair func(context.Context) error

// matrixFaults returns all faults, in the order in which they run.
func matrixFaults() []fault {
	return slices.Concat(prometheusFaults, answerFaults, exporterFaults, redisFaults, controlPlaneFaults, networkFaults, processFaults,
		registrationFaults, karpenterFaults, combinedFaults)
}

// selected returns the faults whose names match the pattern.
func selected(pattern *regexp.Regexp) []fault {
	return slices.DeleteFunc(matrixFaults(), func(f fault) bool { return !pattern.MatchString(f.name) })
}

// recorded converts faults for package record, which finds the runs of a fault by its name and its definition.
func recorded(faults []fault) []record.Fault {
	all := make([]record.Fault, len(faults))
	for i, f := range faults {
		all[i] = f.recorded()
	}
	return all
}

func (f fault) recorded() record.Fault { return record.Fault{Name: f.name, Definition: f.definition()} }

// both injects two faults at the same time and ends them in reverse order.
func both(first, second inject) inject {
	return func(ctx context.Context, l *lab.Lab) (repair, error) {
		repairFirst, err := first(ctx, l)
		if err != nil {
			return nil, err
		}
		repairSecond, err := second(ctx, l)
		if err != nil {
			if repairFirst != nil {
				_ = repairFirst(ctx) // the error of the second injection is returned instead
			}
			return nil, err
		}
		if repairFirst == nil {
			return repairSecond, nil
		}
		return func(ctx context.Context) error {
			if repairSecond != nil {
				if err := repairSecond(ctx); err != nil {
					return err
				}
			}
			return repairFirst(ctx)
		}, nil
	}
}
