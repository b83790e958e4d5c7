package advise

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/replay/evaluate"
)

// Setting contains the fields of the policy that a candidate changes.
type Setting struct {
	MinReplicas int32
	MaxReplicas int32
	Wait        time.Duration // objective.wait of the policy
	Percentile  float64       // objective.percentile of the policy
}

// Refusal is the reason why the controller refuses the policy of a candidate. Search reports a refusal as a result and continues.
type Refusal struct{ Reason string }

func (r *Refusal) Error() string { return r.Reason }

// Input is the input of Search: the workload for which it finds a policy, the SLOs and the limits.
type Input struct {
	Case        evaluate.Case  // traffic, service, cold start and prices; Policy and SLO are not used
	SLOs        []evaluate.SLO // SLOs to attain, in the order of preference
	MaxReplicas int32          // maxReplicas of every candidate
	Budget      float64        // $ per day; 0: no limit
	// Compile returns the policy of a candidate. It returns a *Refusal if the controller refuses such a policy. Compile must be safe for
	// concurrent use.
	Compile func(Setting) (*policy.Compiled, error)
}

// Limits of an objective in a policy.
const (
	minPercentile, maxPercentile = 50, 99.99
	minWait, maxWait             = 100 * time.Millisecond, time.Hour
)

// exhaustiveMax is the largest maxReplicas for which Search tries every minReplicas from 0 to maxReplicas.
const exhaustiveMax = 16

func (in *Input) check() error {
	var errs []error
	refuse := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	refuse(in.MaxReplicas < 1, "maxReplicas is %d: use at least 1", in.MaxReplicas)
	refuse(math.IsNaN(in.Budget) || math.IsInf(in.Budget, 0) || in.Budget < 0, "a budget of %v: use a number above 0, in $ per day", in.Budget)
	refuse(!(in.Case.Hourly > 0) || math.IsInf(in.Case.Hourly, 0), "a price of $%v per GPU hour: use a number above 0", in.Case.Hourly)
	refuse(len(in.SLOs) == 0, "no SLO")
	for _, slo := range in.SLOs {
		refuse(!(100*slo.Share >= minPercentile && slo.Share <= 1), "an SLO of %v%% of the requests: use %d%% to 100%%", 100*slo.Share,
			minPercentile)
		refuse(slo.Wait < minWait || slo.Wait > maxWait, "a wait of %s: an objective allows %s to %s", slo.Wait, minWait, maxWait)
	}
	if in.Case.Traffic == nil {
		errs = append(errs, errors.New("no traffic"))
	} else if n := in.requests(); n == 0 || in.Case.Traffic.Duration <= 0 {
		errs = append(errs, fmt.Errorf("%s has %s in %s: record the traffic of an hour or more, best of a day", in.Case.Traffic.Name,
			counted(n, "request"), in.Case.Traffic.Duration))
	}
	if len(errs) > 0 {
		return fmt.Errorf("advise: %w", errors.Join(errs...))
	}
	return nil
}

func (in *Input) requests() (n int64) {
	for range in.Case.Traffic.All() {
		n++
	}
	return n
}
