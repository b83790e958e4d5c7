package advise

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/replay/evaluate"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// Search replays the candidates and returns an answer for each SLO. The same input gives the same result.
func Search(ctx context.Context, in Input, progress evaluate.Progress) (*Result, error) {
	if progress == nil {
		progress = func(string, float64) {}
	}
	if err := in.check(); err != nil {
		return nil, err
	}
	drawn, err := in.Case.Traffic.Drawn(0)
	if err != nil {
		return nil, err
	}
	kind := in.Case.Traffic.Kind
	in.Case.Traffic = drawn
	s := &search{in: &in, progress: progress}
	for _, least := range minimums(in.MaxReplicas) {
		if s.settled(least) {
			break
		}
		if err := s.replay(ctx, least); err != nil {
			return nil, err
		}
	}
	out, err := s.result(ctx)
	if err != nil {
		return nil, err
	}
	out.Traffic.Kind = string(kind)
	out.choose()
	return out, nil
}

// minimums returns the values of minReplicas from 0 to highest, in ascending order. If highest is above exhaustiveMax, each value is about
// 25% above the previous one, so that a maxReplicas of several hundred has only about twenty values.
func minimums(highest int32) (all []int32) {
	for n := int32(0); n < highest; {
		all = append(all, n)
		if highest <= exhaustiveMax {
			n++
		} else {
			n += max(1, n/4)
		}
	}
	return append(all, highest)
}

// search is the state of one call of Search: its input and the candidates that were replayed so far.
type search struct {
	in         *Input
	progress   evaluate.Progress
	candidates []Candidate
	certifiable
}

// certifiable contains the input values for the lower bounds of the cost (certificates).
type certifiable struct {
	policy  *policy.Compiled // policy of any valid candidate
	initial int32            // largest number of replicas at the start of a replay, over all candidates
}

// objectives returns the objectives of the candidates without duplicates: for each SLO its own percentile and a stricter percentile.
func (s *search) objectives() (out []Setting) {
	for _, slo := range s.in.SLOs {
		for _, percentile := range percentiles(slo.Share) {
			o := Setting{Wait: slo.Wait, Percentile: percentile, MaxReplicas: s.in.MaxReplicas}
			if !slices.Contains(out, o) {
				out = append(out, o)
			}
		}
	}
	return out
}

// percentiles returns the percentile of an SLO, and the stricter percentile that permits half as many late requests: 99 and 99.5 for 0.99.
func percentiles(share float64) []float64 {
	round := func(late float64) float64 { return min(maxPercentile, math.Round(1e4*(100-late))/1e4) }
	late := 100 * (1 - share)
	return slices.Compact([]float64{round(late), round(late / 2)})
}

// replay replays one candidate for each objective, all with the given minReplicas, and stores them in s.candidates.
func (s *search) replay(ctx context.Context, least int32) error {
	settings := s.objectives()
	played := make([]Candidate, len(settings))
	compiled := make([]*policy.Compiled, len(settings))
	all, inner := errgroup.WithContext(ctx)
	all.SetLimit(runtime.GOMAXPROCS(0))
	for i := range settings {
		settings[i].MinReplicas = least
		all.Go(func() (err error) {
			played[i], compiled[i], err = s.play(inner, settings[i])
			return err
		})
	}
	if err := all.Wait(); err != nil {
		return err
	}
	for i := range played {
		if compiled[i] != nil {
			s.policy, s.initial = compiled[i], max(s.initial, played[i].Initial)
			played[i].floor = s.floor(compiled[i])
		}
	}
	s.candidates = append(s.candidates, played...)
	return nil
}

// play replays one candidate. It returns the candidate with the results of its replay, and the compiled policy. If the controller refuses
// the policy, play returns a nil policy and sets Refused.
func (s *search) play(ctx context.Context, set Setting) (out Candidate, p *policy.Compiled, err error) {
	out = Candidate{MinReplicas: set.MinReplicas, Wait: set.Wait.Seconds(), Percentile: set.Percentile, setting: set}
	p, err = s.in.Compile(set)
	if refused := (*Refusal)(nil); errors.As(err, &refused) {
		out.Refused = refused.Reason
		return out, nil, nil
	}
	if err != nil {
		return out, nil, err
	}
	if limits := p.Workload.Policy; limits.MinReplicas != set.MinReplicas || limits.MaxReplicas != set.MaxReplicas {
		out.Refused = fmt.Sprintf("the PlatformConfig allows minReplicas %d and maxReplicas %d in its place", limits.MinReplicas,
			limits.MaxReplicas)
		return out, nil, nil
	}
	c := s.in.Case
	c.Policy, c.SLO, c.Baselines, c.Bound, c.SeriesPoints = p, evaluate.SLO{Share: set.Percentile / 100, Wait: set.Wait}, nil, false, 0
	what := "minReplicas " + strconv.Itoa(int(set.MinReplicas)) + ", " + percent(set.Percentile)
	r, err := evaluate.Workload(ctx, c, func(_ string, done float64) { s.progress(what, done) })
	if err != nil {
		return out, nil, err
	}
	run := &r.Runs[0]
	hours := c.Horizon().Hours()
	out.OnTime, out.CostPerDay, out.Initial = run.OnTime, 24*run.Cost/hours, r.Initial
	out.Replicas = run.GPUHours / hours / float64(max(1, c.GPUs))
	out.P99, out.Longest, out.Starts = run.Wait.P99, run.Wait.Max, run.ReplicaStarts
	out.warnings = r.Warnings
	out.AtZero = run.AtZero / c.Horizon().Seconds()
	return out, p, nil
}

// startSlack is the time at the start of a replay for which floor assumes no cost, because replicas can still be missing then.
const startSlack = time.Minute

// floor returns the least that a candidate can cost, in $ per day: the price of its minReplicas for the whole replay except startSlack. It
// returns 0 if the workload can have fewer replicas than minReplicas.
func (s *search) floor(p *policy.Compiled) float64 {
	c := &s.in.Case
	limits := p.Workload.Policy
	if len(c.Spot) > 0 || len(c.NodePools) > 0 || len(limits.Schedules) > 0 || p.Workload.Mode != scaling.Auto ||
		c.Initial >= 0 && c.Initial < s.in.MaxReplicas {
		return 0
	}
	paid := max(0, 1-float64(startSlack)/float64(c.Horizon()))
	return 24 * paid * c.Hourly * float64(max(1, c.GPUs)) * float64(limits.MinReplicas)
}

// settled reports whether the search can end. It can end if, for each SLO, a replayed candidate attains the SLO, and no candidate with the
// given minReplicas or more can cost less than the cheapest of these.
func (s *search) settled(least int32) bool {
	perReplica := s.perReplica()
	for _, slo := range s.in.SLOs {
		best := cheapest(s.of(slo), slo)
		if best == nil || perReplica*float64(least) < best.CostPerDay {
			return false
		}
	}
	return true
}

// perReplica returns the least cost of one warm replica (one unit of minReplicas) in $ per day, or 0 if this cost is not known.
func (s *search) perReplica() float64 {
	least := math.Inf(1)
	for i := range s.candidates {
		if c := &s.candidates[i]; c.Refused == "" && c.MinReplicas > 0 {
			least = min(least, c.floor/float64(c.MinReplicas))
		}
	}
	if math.IsInf(least, 1) {
		return 0
	}
	return least
}

// fleet returns the smallest fixed number of replicas that attains the SLO, if it costs less than the best candidate. Otherwise it returns
// nil. Additional replicas never make a request later, so fleet finds the number by bisection.
func (s *search) fleet(ctx context.Context, slo evaluate.SLO, best *Candidate) (found *Candidate, err error) {
	perReplica := s.perReplica()
	if best == nil || perReplica == 0 {
		return nil, nil
	}
	low, high := int32(1), int32(min(float64(s.in.MaxReplicas), best.CostPerDay/perReplica))
	for n := high; low <= high; n = (low + high) / 2 {
		c, p, err := s.play(ctx, Setting{MinReplicas: n, MaxReplicas: n, Wait: slo.Wait, Percentile: percentiles(slo.Share)[0]})
		if err != nil || p == nil {
			return nil, err
		}
		s.initial = max(s.initial, c.Initial)
		if c.OnTime < slo.Share {
			low = n + 1
			continue
		}
		high = n - 1
		if c.CostPerDay < best.CostPerDay {
			found = &c
		}
	}
	return found, nil
}

// of returns the replayed candidates for an SLO, sorted by minReplicas. These are the candidates with the wait of the SLO and with one of
// the percentiles that the function percentiles returns.
func (s *search) of(slo evaluate.SLO) (out []Candidate) {
	allowed := percentiles(slo.Share)
	for _, c := range s.candidates {
		if c.setting.Wait == slo.Wait && slices.Contains(allowed, c.Percentile) {
			out = append(out, c)
		}
	}
	slices.SortFunc(out, func(a, b Candidate) int {
		return cmp.Or(cmp.Compare(a.MinReplicas, b.MinReplicas), cmp.Compare(a.Percentile, b.Percentile))
	})
	return out
}

// cheapest returns the cheapest candidate that attains the SLO, or nil. If several candidates have the same cost, it returns the candidate
// with the fewest warm replicas and the lowest percentile. However, a candidate with minReplicas 0 whose replay never had zero replicas is
// returned only if no other candidate has the same cost, because the replay does not show how zero replicas affect the SLO.
func cheapest(candidates []Candidate, slo evaluate.SLO) (best *Candidate) {
	for i := range candidates {
		c := &candidates[i]
		if c.Refused != "" || c.OnTime < slo.Share {
			continue
		}
		if best == nil || c.CostPerDay < best.CostPerDay || c.CostPerDay == best.CostPerDay && best.untested() {
			best = c
		}
	}
	return best
}

// result returns the answers for all SLOs. It does not set the recommended candidate.
func (s *search) result(ctx context.Context) (*Result, error) {
	c := &s.in.Case
	out := &Result{
		MaxReplicas: s.in.MaxReplicas, Budget: s.in.Budget, Hourly: c.Hourly, GPUs: max(1, c.GPUs), ColdStart: c.ColdStart.Seconds(),
		Traffic: evaluate.Traffic{Name: c.Traffic.Name, Start: c.Traffic.Start, Duration: c.Traffic.Duration.Seconds(),
			Requests: s.in.requests()},
		initial: c.Initial, spot: len(c.Spot) > 0,
	}
	if s.policy != nil {
		out.Policy = s.policy.Workload.Key.String()
	}
	out.Answers = make([]Answer, len(s.in.SLOs))
	all, inner := errgroup.WithContext(ctx)
	all.SetLimit(runtime.GOMAXPROCS(0))
	for i, slo := range s.in.SLOs {
		a := &out.Answers[i]
		a.SLO, a.Candidates = evaluate.Objective{Share: slo.Share, Wait: slo.Wait.Seconds()}, s.of(slo)
		a.Cheapest = cheapest(a.Candidates, slo)
		var err error
		if a.Fleet, err = s.fleet(ctx, slo, a.Cheapest); err != nil {
			return nil, err
		}
	}
	for i, slo := range s.in.SLOs {
		a := &out.Answers[i]
		all.Go(func() (err error) {
			a.Certificate, err = s.certify(inner, slo)
			return err
		})
	}
	return out, all.Wait()
}

// certify computes the lower bound of the cost for an SLO, in $ per day. Candidates can start with different numbers of replicas. The bound
// assumes the largest of these numbers, so that it is valid for all candidates.
func (s *search) certify(ctx context.Context, slo evaluate.SLO) (out Certificate, err error) {
	if s.policy == nil {
		return Certificate{Problem: "no candidate has a valid policy"}, nil
	}
	c := s.in.Case
	c.Policy, c.SLO, c.Initial = s.policy, slo, s.initial
	b, err := evaluate.LeastCost(ctx, c, func(_ string, done float64) { s.progress("lower bound, "+percent(100*slo.Share), done) })
	if err != nil {
		return out, err
	}
	return Certificate{CostPerDay: 24 * b.Lower / c.Horizon().Hours(), Problem: b.Problem, Relaxations: b.Relaxations}, nil
}
