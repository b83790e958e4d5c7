package objective

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/gpuscaler/gpuscaler/e2e/controller"
	"github.com/gpuscaler/gpuscaler/e2e/exporter"
	"github.com/gpuscaler/gpuscaler/pkg/dashboard/explain"
)

// explained runs `gpuscaler explain -o json`.
func explained(ctx context.Context, s controller.Workload) (e explain.Explanation, err error) {
	text, err := suite.CLI(ctx, "explain", s.Policy(), "-o", "json", "--server", suite.PageURL())
	if err != nil {
		return e, err
	}
	if err := json.Unmarshal([]byte(text), &e); err != nil {
		return e, fmt.Errorf("%w in %s", err, text)
	}
	return e, nil
}

// step is an explanation, together with the target that the external metrics API served when the explanation was read. The field served
// is -1 if the target changed between the two reads.
type step struct {
	explain.Explanation
	served int32
}

// read returns the current explanation with the served target.
func read(ctx context.Context, s controller.Workload) (step, error) {
	before, err := explained(ctx, s)
	if err != nil {
		return step{}, err
	}
	served, err := suite.ServedTarget(ctx, s.Namespace, s.Name)
	if err != nil {
		return step{}, err
	}
	after, err := explained(ctx, s)
	if err != nil || after.Target != before.Target || !after.Since.Equal(before.Since) {
		served = -1
	}
	return step{before, served}, err
}

// term matches a summand in the sentence of an explanation, such as "4 (expected load)", with its sign.
var term = regexp.MustCompile(`(- )?(-?\d+) \(([a-z ]+)\)`)

// amounts matches the numbers at the end of an explanation's sentence.
var amounts = regexp.MustCompile(`expected load ([^/]+)/s, queued ([^,]+), capacity per replica ([^/]+)/s`)

// sentence returns an error unless the sentence of an explanation names the target, its summands add up to the target, and its numbers
// equal the signals and the learned capacity.
func (s *step) sentence() error {
	o := s.Objective
	if o == nil || s.NotDecided != "" {
		return fmt.Errorf("no objective is explained: %q", s.NotDecided)
	}
	if s.served >= 0 && s.served != s.Target {
		return fmt.Errorf("%d is served, and the target is %d", s.served, s.Target)
	}
	named, _, _ := strings.Cut(s.Why, " replica")
	if named != strconv.Itoa(int(s.Target)) {
		return fmt.Errorf("the target is %d: %s", s.Target, s.Why)
	}
	sum := int32(0)
	for _, t := range o.Terms {
		sum += t.Replicas
	}
	if s.Degraded { // while a signal is missing, the target does not decrease, so it can exceed the sum
		if s.Target < sum {
			return fmt.Errorf("the target %d is less than the terms %+v: %s", s.Target, o.Terms, s.Why)
		}
	} else if sum != s.Target {
		return fmt.Errorf("the terms %+v do not add up to %d: %s", o.Terms, s.Target, s.Why)
	}
	var written []explain.Term
	for _, m := range term.FindAllStringSubmatch(s.Why, -1) {
		n, err := strconv.Atoi(m[2])
		if err != nil {
			return err
		}
		if m[1] != "" {
			n = -n
		}
		written = append(written, explain.Term{Name: m[3], Replicas: int32(n)})
	}
	if onlySafe := len(o.Terms) == 1 && o.Terms[0].Name == "safe policy"; !onlySafe && fmt.Sprint(written) != fmt.Sprint(o.Terms) {
		return fmt.Errorf("the sentence has the terms %v, and not %v: %s", written, o.Terms, s.Why)
	}
	if o.SafePolicy != "" && !strings.Contains(s.Why, "safe policy, because "+o.SafePolicy) {
		return fmt.Errorf("the sentence does not name the reason %q: %s", o.SafePolicy, s.Why)
	}
	return s.amounts()
}

func (s *step) amounts() error {
	m := amounts.FindStringSubmatch(s.Why)
	if m == nil {
		if s.Objective.Capacity != nil && s.Objective.SafePolicy == "" {
			return fmt.Errorf("the sentence does not name the capacity: %s", s.Why)
		}
		return nil
	}
	var n [3]float64
	for i := range n {
		var err error
		if n[i], err = strconv.ParseFloat(m[i+1], 64); err != nil {
			return err
		}
	}
	if queued := s.signal("gateway"); queued != nil && math.Abs(n[1]-*queued.Value) > 0.005**queued.Value {
		return fmt.Errorf("the signal is %v: %s", *queued.Value, s.Why)
	}
	// The learned capacity in the explanation can be some seconds older than the planned target. After only a few requests, the plan uses as
	// little as a quarter of the learned capacity.
	if c := s.Objective.Capacity; c == nil || n[2] > 1.2*c.P50 || n[2] < c.P50/5 {
		return fmt.Errorf("the learned capacity is %+v: %s", c, s.Why)
	}
	return nil
}

// signal returns the signal with the given name if it has a value, or nil.
func (s *step) signal(name string) *explain.Signal {
	for i := range s.Signals {
		if s.Signals[i].Name == name && s.Signals[i].Value != nil {
			return &s.Signals[i]
		}
	}
	return nil
}

// spread is the greatest time between a change of the workload and its observation: the interval at which the exporter reads pods, plus a
// stall of this machine. For a value from Prometheus, the scrape interval is added, because a query result has the time of the query and
// not of the scrape.
const spread = 5 * time.Second

// recordedState returns an error unless the values in the explanation agree with the state of the workload when they were sampled.
func (s *step) recordedState(load *exporter.Requests) error {
	within := func(what string, have float64, at time.Time, before time.Duration, of func(exporter.State) int) error {
		states := load.Between(at.Add(-before), at.Add(spread))
		if len(states) == 0 {
			return nil // nothing to compare before the first request
		}
		least, most := math.MaxInt, 0
		for _, state := range states {
			least, most = min(least, of(state)), max(most, of(state))
		}
		if have < float64(least) || have > float64(most) {
			return fmt.Errorf("%s %v, and it was %d to %d around %s", what, have, least, most, at.Format("15:04:05.000"))
		}
		return nil
	}
	err := within("ready replicas:", float64(s.Ready), s.At, spread, func(x exporter.State) int { return x.Ready })
	if q := s.signal("gateway"); err == nil && q != nil {
		err = within("queued", *q.Value, s.sampled(q), spread+scrapeInterval, func(x exporter.State) int { return x.Queued })
	}
	if err != nil {
		return err
	}
	return s.recordedArrivals(load)
}

// recordedArrivals compares the measured rate of the last minute with the requests that arrived. In the first two minutes it accepts any
// rate, because Prometheus extrapolates the rate from few samples.
func (s *step) recordedArrivals(load *exporter.Requests) error {
	arrivals := s.signal("requests")
	if arrivals == nil {
		return nil
	}
	at := s.sampled(arrivals)
	states := load.Between(at.Add(-time.Minute-scrapeInterval), at)
	if len(states) == 0 || load.Began().IsZero() || states[0].At.Sub(load.Began()) < time.Minute {
		return nil
	}
	n := float64(states[len(states)-1].Arrived - states[0].Arrived)
	if rate := n / at.Sub(states[0].At).Seconds(); *arrivals.Value < 0.6*rate || *arrivals.Value > 1.6*rate {
		return fmt.Errorf("%v requests per second, and %v arrived", *arrivals.Value, rate)
	}
	return nil
}

// sampled returns the time at which a signal was sampled.
func (s *step) sampled(signal *explain.Signal) time.Time {
	return s.At.Add(-time.Duration(signal.Age * float64(time.Second)))
}
