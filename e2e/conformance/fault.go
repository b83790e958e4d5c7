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

// fault is a failure that is injected: a row of the table of results.
type fault struct {
	name   string
	what   string // one sentence: what happens
	inject inject
	hold   time.Duration // duration of the fault, if the default is too short for an effect
	// revision is increased when the fault is changed so much that its earlier runs must not count.
	revision int
}

// method is increased when the cluster, the settings of the targets or the verdict are changed so much that no earlier run may count.
const method = 1

// definition returns a hash that identifies comparable runs of the fault. A run counts only if its definition is the current one. The hash
// does not include the code of the fault, because most changes of the code do not change the fault.
func (f fault) definition() string {
	h := sha256.New()
	fmt.Fprintln(h, method, f.revision, f.hold, standard.steady, standard.hold, standard.settle, standard.recover)
	for _, w := range lab.Workloads {
		fmt.Fprintln(h, w.Name, w.Origin, w.Waiting, w.Replicas())
	}
	return hex.EncodeToString(h.Sum(nil))[:6]
}

// inject starts a fault and returns the function that ends it. It returns nil for a fault that is over at once, such as a killed process.
// It returns a lab.NotApplicable error if the target does not have the part that should fail.
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

// recorded returns the names and the definitions of faults, by which the record finds their runs.
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
				_ = repairFirst(ctx) // the first error is returned
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
