package spotmarket

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/reproducible"
)

// Zones describes generated spot markets for one instance type in several zones of a region. The shortages of the zones are correlated.
type Zones struct {
	Count    int           // number of zones
	Nodes    int           // mean number of available nodes of a zone in normal times
	Duration time.Duration // length of each trace
	// Common is the share of shortages, 0..1, that begin in all zones within a few minutes. The other shortages are in one zone each.
	Common float64
	Seed   uint64
}

// Properties of generated markets. They are similar to the recorded markets of AWS and GCP: a single node is lost every few hours, and
// several times a day a zone loses a part of its nodes at once and gets them back within an hour.
const (
	shortagesPerDay = 5.0
	shortageMedian  = 25 * time.Minute
	shortageSigma   = 0.8
	aloneLifetime   = 10 * time.Hour   // mean time after which a single node is lost
	aloneGap        = 15 * time.Minute // median time from the loss of a single node until another node is available
	commonDelay     = 4 * time.Minute  // greatest delay of a common shortage between two zones
)

// shortage is a time in which a part of the nodes of a zone is not available.
type shortage struct {
	from, until time.Duration
	share       float64
}

// Generate returns one trace for each zone. The result depends only on z.
func Generate(z Zones) (all []*Trace) {
	common := shortages(reproducible.NewDraws(z.Seed, "common shortages"), shortagesPerDay*z.Common, z.Duration)
	for i := range z.Count {
		d := reproducible.NewDraws(z.Seed, fmt.Sprint("zone ", i))
		own := shortages(d, shortagesPerDay*(1-z.Common), z.Duration)
		for _, s := range common {
			delay := time.Duration(reproducible.Mul(d.Uniform(), float64(commonDelay)))
			own = append(own, shortage{s.from + delay, s.until + delay, s.share})
		}
		t := &Trace{Name: fmt.Sprintf("zone %d, seed %d", i+1, z.Seed), Duration: z.Duration}
		t.follow(append(own, alone(d, z.Nodes, z.Duration)...), z.Nodes)
		all = append(all, t)
	}
	return all
}

// shortages draws shortages at random times (a Poisson process).
func shortages(d *reproducible.Draws, perDay float64, duration time.Duration) (out []shortage) {
	if perDay <= 0 {
		return nil
	}
	lasts := reproducible.Spread{Median: shortageMedian, Min: time.Minute, Sigma: shortageSigma}
	mean := reproducible.Mul(float64(24*time.Hour), 1/perDay)
	for at := seconds(d, mean); at < duration; at += seconds(d, mean) {
		share := min(0.2+d.Uniform(), 1) // in a fifth of the shortages, all nodes are lost
		out = append(out, shortage{at, at + lasts.Draw(d), share})
	}
	return out
}

// alone draws the times in which a single node of a zone is not available. Every node of the zone is lost and replaced independently.
func alone(d *reproducible.Draws, nodes int, duration time.Duration) (out []shortage) {
	gap := reproducible.Spread{Median: aloneGap, Min: time.Minute, Sigma: 1}
	for range nodes {
		for at := seconds(d, float64(aloneLifetime)); at < duration; at += seconds(d, float64(aloneLifetime)) {
			until := at + gap.Draw(d)
			out = append(out, shortage{at, until, 1 / float64(nodes)})
			at = until
		}
	}
	return out
}

// seconds draws a duration with the given mean, in whole seconds.
func seconds(d *reproducible.Draws, mean float64) time.Duration {
	return time.Duration(reproducible.Mul(mean, d.Exponential())).Truncate(time.Second)
}

// follow sets the events of a trace with the given number of nodes and the given shortages. If several shortages overlap, each takes its
// share of the nodes that the other shortages leave.
func (t *Trace) follow(all []shortage, nodes int) {
	var instants []time.Duration
	for i := range all {
		all[i].from, all[i].until = all[i].from.Truncate(time.Second), all[i].until.Truncate(time.Second)
		instants = append(instants, all[i].from, all[i].until)
	}
	slices.Sort(instants)
	slices.SortFunc(all, func(a, b shortage) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.until, b.until)) })
	t.Initial = nodes
	before := nodes
	for _, at := range slices.Compact(instants) {
		if at <= 0 || at >= t.Duration {
			continue
		}
		left := float64(nodes)
		for _, s := range all {
			if s.from <= at && at < s.until {
				left = reproducible.Mul(left, 1-s.share)
			}
		}
		now := int(math.Round(left))
		if now == before {
			continue
		}
		t.Events = append(t.Events, Event{At: at, Added: max(now-before, 0), Lost: max(before-now, 0), Available: now})
		before = now
	}
}
