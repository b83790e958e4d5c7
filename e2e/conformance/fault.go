package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"time"
)

// fault is a row of the matrix.
type fault struct {
	name   string
	what   string // one sentence: what happens
	inject inject
	hold   time.Duration // duration of the fault if the default is too short for it to have an effect
	// revision is raised by a change of the fault after which its earlier runs do not count.
	revision int
}

// method is raised by a change of the cluster, of the settings of the targets or of the verdict after which no earlier run counts.
const method = 1

// definition returns a hash of what makes runs of the fault comparable. A run counts only if it has the present definition. The code of the
// fault is not part of it, because most changes of the code do not change what happens.
func (f fault) definition() string {
	h := sha256.New()
	fmt.Fprintln(h, method, f.revision, f.hold, standard.steady, standard.hold, standard.settle, standard.recover)
	for _, w := range workloads {
		fmt.Fprintln(h, w.name, w.origin, w.waiting, w.replicas())
	}
	return hex.EncodeToString(h.Sum(nil))[:6]
}

// inject starts a fault and returns the function that ends it. It returns nil for a fault that ends by itself as soon as it has happened,
// such as a killed process. It returns a notApplicable error if the target lacks the part that fails.
type inject func(ctx context.Context, l *lab) (repair, error)

type repair func(context.Context) error

// matrixFaults returns all faults, in the order in which they run.
func matrixFaults() []fault {
	return slices.Concat(prometheusFaults, answerFaults, exporterFaults, redisFaults, controlPlaneFaults, networkFaults, processFaults,
		registrationFaults, karpenterFaults, combinedFaults)
}

// selected returns the faults whose name matches.
func selected(pattern *regexp.Regexp) []fault {
	return slices.DeleteFunc(matrixFaults(), func(f fault) bool { return !pattern.MatchString(f.name) })
}

// both injects two faults at the same time and ends them in reverse order.
func both(first, second inject) inject {
	return func(ctx context.Context, l *lab) (repair, error) {
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
