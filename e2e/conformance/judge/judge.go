// Package judge evaluates how an external metrics adapter behaved in a run, which is one injection of a fault. Its input is what was
// recorded in the run: the reads of the metrics and the changes of the replicas. The load is constant during a run, so every decrease below
// the correct value is wrong. The package does no I/O.
package judge

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// Read is one read of a workload's metric through the aggregated API.
type Read struct {
	Began, Ended time.Time
	Workload     string
	Value        float64
	Refused      string // why the read returned no value; empty: it returned Value
}

// Change is a change of the number of replicas in a Deployment or an HPA.
type Change struct {
	At       time.Time
	Workload string
	Field    string // the constant Replicas or Desired
	From, To int32
}

// Fields whose changes are recorded.
const (
	Replicas = "spec.replicas"          // of the Deployment
	Desired  = "status.desiredReplicas" // of the HPA; a decrease is not a defect, because only spec.replicas changes the workload
)

// Record contains everything that was recorded during a run, in the order of time.
type Record struct {
	Reads   []Read
	Changes []Change
	// Control contains control reads: reads of a Namespace from the API server, which do not involve the adapter.
	Control []Read
}

// Unreachable returns how many control reads failed since a time, and the number of all control reads since that time. If many control
// reads fail after the fault, the machine is too slow to show whether the adapter recovers.
func (r Record) Unreachable(since time.Time) (refused, all int) {
	for _, read := range r.Control {
		if read.Began.Before(since) {
			continue
		}
		if all++; read.Refused != "" {
			refused++
		}
	}
	return refused, all
}

// Correct is the correct metric value and the correct number of replicas of a workload at the constant load.
type Correct struct {
	Value    float64
	Replicas int32
}

// equal compares a value with the correct value. It tolerates rounding errors, because a metrics server may add numbers in any order.
func (c Correct) equal(value float64) bool { return math.Abs(value-c.Value) <= 1e-6*math.Abs(c.Value) }

// Decrease is a decrease of a served value or of replicas below the correct number.
type Decrease struct {
	Workload string  `json:"workload"`
	Field    string  `json:"field"` // the constant Served or Replicas
	From     float64 `json:"from"`
	To       float64 `json:"to"`
	After    float64 `json:"afterSeconds"` // seconds since the start of the fault
}

// Served is the Field of a decrease of the served value.
const Served = "served value"

func (d Decrease) String() string {
	return fmt.Sprintf("%s of %s from %g to %g after %.1f s", d.Field, d.Workload, d.From, d.To, d.After)
}

// Verdict is the result of a run.
type Verdict struct {
	Decreases []Decrease `json:"decreases,omitempty"`
	Reads     int        `json:"reads"`
	Refused   int        `json:"refused"`
	Refusal   string     `json:"refusal,omitempty"` // error of the first refused read
	Raised    int        `json:"raised,omitempty"`  // number of reads with a value above the correct value
	// Recovered is true if every workload's last read has the correct value and its replicas are correct.
	Recovered bool `json:"recovered"`
	// Recovery is the time in seconds from the end of the fault until all values and replicas were correct and stayed correct.
	Recovery float64 `json:"recoverySeconds"`
}

// Count returns the number of decreases of a field.
func (v Verdict) Count(field string) (n int) {
	for _, d := range v.Decreases {
		if d.Field == field {
			n++
		}
	}
	return n
}

// Run describes one run: the correct values by workload, and the times at which the fault began and ended.
type Run struct {
	Correct         map[string]Correct
	Injected, Ended time.Time
}

// Judge returns the verdict on a run. The caller makes sure that all values and replicas were correct before the fault.
func (run Run) Judge(r Record) Verdict {
	v := Verdict{Recovered: true}
	for name, correct := range run.Correct {
		run.reads(&v, r, name, correct)
		run.replicas(&v, r, name, correct)
	}
	slices.SortFunc(v.Decreases, func(a, b Decrease) int {
		switch {
		case a.After != b.After:
			return int(math.Copysign(1, a.After-b.After))
		case a.Workload < b.Workload:
			return -1
		}
		return 1
	})
	return v
}

// reads adds the reads of one workload to the verdict: the counts, the wrong decreases of the served value, and the recovery.
func (run Run) reads(v *Verdict, r Record, name string, correct Correct) {
	last, healthy := correct.Value, false
	var since time.Time // start of the current sequence of correct reads
	for _, read := range r.Reads {
		if read.Workload != name || read.Ended.Before(run.Injected) {
			continue
		}
		v.Reads++
		if read.Refused != "" {
			v.Refused++
			if v.Refusal == "" {
				v.Refusal = read.Refused
			}
			healthy = false
			continue
		}
		if read.Value < last && read.Value < correct.Value && !correct.equal(read.Value) {
			v.Decreases = append(v.Decreases, Decrease{name, Served, last, read.Value, read.Ended.Sub(run.Injected).Seconds()})
		}
		last = read.Value
		if !correct.equal(read.Value) {
			if read.Value > correct.Value {
				v.Raised++
			}
			healthy = false
			continue
		}
		if !healthy {
			healthy, since = true, read.Ended
			if !read.Ended.After(run.Ended) {
				since = run.Ended
			}
		}
	}
	v.recovered(healthy, since.Sub(run.Ended))
}

// replicas adds the replicas of one workload to the verdict: the wrong decreases of spec.replicas, and the recovery.
func (run Run) replicas(v *Verdict, r Record, name string, correct Correct) {
	now, at := correct.Replicas, run.Ended
	for _, c := range r.Changes {
		if c.Workload != name || c.Field != Replicas || c.At.Before(run.Injected) {
			continue
		}
		if c.To < c.From && c.To < correct.Replicas {
			v.Decreases = append(v.Decreases, Decrease{name, Replicas, float64(c.From), float64(c.To), c.At.Sub(run.Injected).Seconds()})
		}
		now, at = c.To, c.At
	}
	v.recovered(now == correct.Replicas, at.Sub(run.Ended))
}

// recovered updates the verdict with one value of a workload: whether the value is correct at the end of the run, and how long after the
// end of the fault it became correct.
func (v *Verdict) recovered(correct bool, after time.Duration) {
	v.Recovered = v.Recovered && correct
	v.Recovery = max(v.Recovery, after.Seconds())
}
