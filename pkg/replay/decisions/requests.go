package decisions

import (
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/confidence"
	"github.com/gpuscaler/gpuscaler/pkg/replay/reproducible"
	"github.com/gpuscaler/gpuscaler/pkg/scaling/objective"
)

// request is one request: its arrival and the time that it takes, in seconds.
type request struct{ at, takes float64 }

// requestFamily is a kind of traffic for the simulator of single requests. Requests arrive during visits, which are times of activity. The
// mean time between two visits is `every` seconds; if it is 0, one visit lasts for the whole run. Rates are relative to the capacity of a
// replica. Each pair contains the smallest and the greatest value that can be drawn.
type requestFamily struct {
	name                string
	every, length, rate [2]float64
	swing               float64 // once a day, the rate increases and decreases by this share
	days                float64
}

var requestFamilies = []requestFamily{
	{name: "lonely", rate: [2]float64{0.01, 0.08}, days: 2},
	{name: "trickle", rate: [2]float64{0.06, 0.4}, days: 2},
	{name: "visits", every: [2]float64{600, 3600}, length: [2]float64{120, 900}, rate: [2]float64{0.2, 0.7}, days: 2},
	{name: "rare", every: [2]float64{7200, 20000}, length: [2]float64{120, 900}, rate: [2]float64{0.2, 0.7}, days: 2},
	{name: "bursty", every: [2]float64{600, 3600}, length: [2]float64{120, 900}, rate: [2]float64{1, 4}, days: 2},
	{name: "steady", rate: [2]float64{1.5, 8}, days: 0.5},
	{name: "diurnal", rate: [2]float64{1.5, 6}, swing: 0.8, days: 2},
}

// serviceSeconds is the mean time that a replica needs for a request. It is the mean of the conversations of the Azure trace on a small
// model.
const serviceSeconds = 6.6

// draw returns random requests of the family, and the length in seconds of the time in which they arrive. The rate of requests is
// proportional to slots, the number of requests that a replica serves at once.
func (f *requestFamily) draw(seed uint64, slots int) (out []request, length float64) {
	d := reproducible.NewDraws(seed, fmt.Sprint("requests ", f.name, slots))
	rate := spread(d, f.rate[0], f.rate[1]) * float64(slots) / serviceSeconds
	most := rate * (1 + f.swing)
	length = f.days * 86400
	every, visit := 0.0, length
	if f.every[0] > 0 {
		every, visit = between(d, f.every[0], f.every[1]), between(d, f.length[0], f.length[1])
	}
	for t := every * exponential(d); t < length; t += every * exponential(d) {
		end := min(t+visit, length)
		for at := t + exponential(d)/most; at < end; at += exponential(d) / most {
			if f.swing > 0 && d.Uniform()*(1+f.swing) > 1+f.swing*math.Sin(2*math.Pi*at/86400) {
				continue
			}
			out = append(out, request{at, serviceSeconds * d.LogNormal(0.8) * math.Exp(-0.32)})
		}
		t = end
	}
	return out, length
}

// servers is a fleet of model servers that process single requests, each in a slot. In contrast to the fluid simulator, a request can wait
// because other requests happen to arrive at the same time. Requests wait in one queue. A removed replica completes its requests.
type servers struct {
	slots int
	cold  float64   // seconds
	wait  float64   // seconds that a request may wait
	ready []float64 // time at which each replica is ready, the oldest replica first
	free  []float64 // time at which each slot is free, the slots of the oldest replica first
	first []float64 // time at which the first slot of each replica is free
	queue []request
	ends  []float64 // end times of the requests in progress
	at    float64   // the current time
	from  float64   // time from which requests and costs are scored
	score
	before score // score of the time before the scored part
}

// advance simulates the servers until the time t.
func (s *servers) advance(t float64) {
	for len(s.queue) > 0 {
		first, best, start := s.queue[0], -1, t
		for i, free := range s.first {
			if at := max(free, s.ready[i], first.at); at < start {
				best, start = i, at
			}
			if start <= first.at {
				break
			}
		}
		if best < 0 {
			break
		}
		count := &s.score
		if first.at < s.from {
			count = &s.before
		}
		count.Work++
		if start-first.at > s.wait {
			count.Late++
		}
		s.ends = append(s.ends, start+first.takes)
		s.occupy(best, start+first.takes)
		s.queue = s.queue[1:]
	}
	s.Cost += float64(len(s.ready)) * max(t-max(s.at, s.from), 0)
	s.at = t
}

// occupy assigns a request to the slot of the replica that becomes free first. The slot is free again at the time `until`.
func (s *servers) occupy(replica int, until float64) {
	slots := s.free[replica*s.slots : (replica+1)*s.slots]
	slots[slices.Index(slots, s.first[replica])] = until
	s.first[replica] = slices.Min(slots)
}

func (s *servers) scale(replicas int) {
	for len(s.ready) < replicas {
		s.ready = append(s.ready, s.at+s.cold)
		s.first = append(s.first, 0)
		s.free = append(s.free, make([]float64, s.slots)...)
	}
	s.ready, s.first, s.free = s.ready[:replicas], s.first[:replicas], s.free[:replicas*s.slots]
}

// evidence sets e to what a usual installation measures: every 15 s, a rate of the arrivals over a minute, the queue, and the requests in
// progress. arrived contains the arrivals until now.
func (s *servers) evidence(e *objective.Evidence, arrived []request) {
	ready := e.Ready
	e.Ready, e.Starting, e.ColdStarts = 0, e.Starting[:0], e.ColdStarts[:0]
	for _, at := range s.ready {
		if at <= s.at {
			e.Ready++
		} else {
			e.Starting = append(e.Starting, time.Duration((s.at+s.cold-at)*float64(time.Second)))
		}
	}
	for ; ready < e.Ready && s.at > 0; ready++ {
		e.ColdStarts = append(e.ColdStarts, objective.ColdStart{Total: time.Duration(s.cold * float64(time.Second))})
	}
	if int(s.at)%15 != 0 {
		return
	}
	recent := 0
	for recent < len(arrived) && arrived[len(arrived)-1-recent].at >= s.at-60 {
		recent++
	}
	s.ends = slices.DeleteFunc(s.ends, func(end float64) bool { return end <= s.at })
	now := epoch.Add(time.Duration(s.at) * time.Second)
	known := func(v float64) objective.Value { return objective.Value{V: v, At: now, Known: s.at >= 60} }
	e.Arrivals, e.Queued, e.InFlight = known(float64(recent)/60), known(float64(len(s.queue))), known(float64(len(s.ends)))
	e.Arrivals.Window = time.Minute
}

// serve simulates the servers with the requests and returns the score of the time after s.from. If s.from is 0, it is the score of the last
// 40% of the run, as in the fluid simulator. The function decide returns the number of replicas. If it is nil, the number does not change.
func (s *servers) serve(requests []request, length float64, decide func(now time.Time, e *objective.Evidence) int32) score {
	next, e := 0, objective.Evidence{}
	if s.from == 0 {
		s.from = length * 0.6
	}
	for t := 0.0; t < length; t += SlotSeconds {
		for ; next < len(requests) && requests[next].at < t; next++ {
			s.advance(requests[next].at)
			s.queue = append(s.queue, requests[next])
		}
		s.advance(t)
		if decide != nil {
			s.evidence(&e, requests[:next])
			s.scale(int(decide(epoch.Add(time.Duration(t)*time.Second), &e)))
		}
	}
	for _, r := range s.queue {
		if s.Work++; length-r.at > s.wait {
			s.Late++
		}
	}
	return s.score
}

// newServers returns a fleet whose replicas are ready.
func newServers(slots, replicas int, cold, wait time.Duration) *servers {
	s := &servers{slots: slots, cold: cold.Seconds(), wait: wait.Seconds(), at: -cold.Seconds()}
	s.scale(replicas)
	s.at = 0
	return s
}

// smallestFleet returns the score of the smallest constant number of replicas that meets the SLO.
func smallestFleet(requests []request, length float64, slots int, wait time.Duration, allowed float64) score {
	for n := 1; ; n++ {
		if got := newServers(slots, n, 0, wait).serve(requests, length, nil); got.lateShare() <= allowed {
			return got
		}
	}
}

// requestResults are the results of one family and one percentile, over all numbers of slots, seeds and cold starts.
type requestResults struct {
	met, before int       // number of runs in which the model meets the SLO: in the scored part (met), and in the part before it (before)
	costs       []float64 // cost of each run, divided by the cost of the smallest fixed fleet that meets the SLO; sorted
	seeds       confidence.Groups
}

func (g grid) requestResults(f *requestFamily, percentile float64, rows io.Writer) (out requestResults) {
	allowed := allowedLate(percentile)
	for _, slots := range []int{1, 4, 8, 32} {
		for _, seed := range g.seeds {
			requests, length := f.draw(seed, slots)
			fleet := smallestFleet(requests, length, slots, g.waits[0], allowed)
			for _, cold := range g.colds {
				s := newServers(slots, 1, cold, g.waits[0])
				got, m := g.learnRequests(s, requests, length, percentile)
				requestRun{s, m, fleet, allowed}.write(rows, fmt.Sprintf("%-8s %3d %3d %5.0f %5v", f.name, seed, slots, cold.Seconds(), percentile))
				out.costs = append(out.costs, got.Cost/fleet.Cost)
				out.seeds.Add(seed, got.Cost/fleet.Cost)
				if got.lateShare() <= allowed {
					out.met++
				}
				if s.before.lateShare() <= allowed {
					out.before++
				}
			}
		}
	}
	slices.Sort(out.costs)
	return out
}

// writeRequests prints a summary of the runs of the simulator of single requests for each family and percentile. If quiet is true, it does
// not print a row for each run.
func (g grid) writeRequests(w io.Writer, families []requestFamily, quiet bool) {
	rows := w
	if quiet {
		rows = io.Discard
	}
	if len(families) > 0 {
		fmt.Fprintf(rows, "%-8s %3s %3s %5s %5s | %7s %7s %6s %6s %6s %8s\n", "requests", "sd", "slt", "cold", "pct", "late", "before",
			"fleet", "mean", "cost", "capacity")
	}
	for i := range families {
		for _, percentile := range g.percentiles {
			r := g.requestResults(&families[i], percentile, rows)
			n := len(r.costs)
			fmt.Fprintf(w, "requests, %-8s %5v%%: SLO attained in %d of %d cells, before the scored part in %d; cost/smallest fixed fleet "+
				"%v median %.2f p90 %.2f worst %.2f\n", families[i].name, percentile, r.met, n, r.before,
				r.seeds, quantile(r.costs, 0.5), quantile(r.costs, 0.9), r.costs[n-1])
		}
	}
}

// learnRequests simulates the servers with a model that gets only the objective.
func (g grid) learnRequests(s *servers, requests []request, length, percentile float64) (score, *objective.Model) {
	m, o := objective.NewTuned(g.tuning), objective.Objective{Limit: time.Duration(s.wait) * time.Second, Percentile: percentile}
	got := s.serve(requests, length, func(now time.Time, e *objective.Evidence) int32 {
		m.Observe(now, e)
		return m.Plan(now, o, objective.Limits{Min: 1, Max: 40}).Replicas
	})
	return got, m
}

// requestRun is one run with the model of package objective.
type requestRun struct {
	servers *servers
	model   *objective.Model
	fleet   score // result of the smallest fixed fleet that meets the SLO
	allowed float64
}

// write prints one row: the late work of the scored part and of the time before it, each divided by the allowed late work; the smallest
// fixed fleet and the mean number of replicas; the cost divided by the cost of the smallest fixed fleet; and the learned capacity divided
// by the true capacity.
func (r requestRun) write(w io.Writer, name string) {
	s := r.servers
	seconds := s.at - s.from
	fmt.Fprintf(w, "%s | %7.2f %7.2f %6.0f %6.2f %6.2f %8.2f\n", name, s.lateShare()/r.allowed, s.before.lateShare()/r.allowed,
		r.fleet.Cost/seconds, s.Cost/seconds, s.Cost/r.fleet.Cost, r.model.Learned().Capacity.P50*serviceSeconds/float64(s.slots))
}
