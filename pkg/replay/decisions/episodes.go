package decisions

import (
	"fmt"
	"io"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/reproducible"
	"github.com/gpuscaler/gpuscaler/pkg/scaling/objective"
)

// stage is a time with a constant mean rate of requests.
type stage struct{ rate, seconds float64 }

// episode is a published autoscaling benchmark: a load that warms up the autoscaler, followed by the load that is scored.
type episode struct {
	name          string
	warmUp, load  []stage
	slots         int           // requests that a replica serves at once
	takes         float64       // mean service time of a request, in seconds
	cold          time.Duration // time until a new replica is ready
	wait          time.Duration // time that a request may wait for a slot
	limits        objective.Limits
	published     float64 // share of the requests that meet the SLO, as published
	publishedMean float64 // published mean number of replicas
}

// llmd is the benchmark of llm-d's guide for SLO-aware autoscaling on H100 GPUs: 4000 input and 1000 output tokens, a time to the first
// token of at most 3 s, of which 0.3 s are the prefill. A replica sustains 1.45 requests/s, so 58 requests take 40 s each. The pool drains
// between the warm-up and the scored load.
var llmd = episode{name: "llm-d SLO-aware", warmUp: []stage{{2, 285}, {6, 285}, {9, 285}, {3, 285}, {0, 900}},
	load:  []stage{{2, 330}, {4, 360}, {6, 360}, {8, 360}, {10, 360}, {4, 360}, {1, 300}, {0, 600}},
	slots: 58, takes: 40, cold: 100 * time.Second, wait: 2700 * time.Millisecond, limits: objective.Limits{Min: 3, Max: 8},
	published: 0.958, publishedMean: 5.93}

// draw returns random requests, the time at which the scored part begins, and the length of the episode, in seconds.
func (e *episode) draw(seed uint64) (out []request, from, length float64) {
	d := reproducible.NewDraws(seed, "episode "+e.name)
	for _, part := range [][]stage{e.warmUp, e.load} {
		from = length
		for _, s := range part {
			for at := exponential(d); s.rate > 0 && at < s.seconds*s.rate; at += exponential(d) {
				out = append(out, request{length + at/s.rate, e.takes * d.LogNormal(0.2) * 0.98}) // on average, the random factor is 1
			}
			length += s.seconds
		}
	}
	return out, from, length
}

// run simulates the episode. decide returns the number of replicas.
func (e *episode) run(seed uint64, decide func(now time.Time, evidence *objective.Evidence) int32) score {
	requests, from, length := e.draw(seed)
	s := newServers(e.slots, int(e.limits.Min), e.cold, e.wait)
	s.from = from
	got := s.serve(requests, length, decide)
	got.Cost /= s.at - from // converts replica-seconds to the mean number of replicas
	return got
}

// learned returns the score of a model that gets only the objective and the limits, and learns everything else.
func (e *episode) learned(seed uint64, percentile float64, tuning objective.Tuning) score {
	m, o := objective.NewTuned(tuning), objective.Objective{Limit: e.wait, Percentile: percentile}
	return e.run(seed, func(now time.Time, evidence *objective.Evidence) int32 {
		m.Observe(now, evidence)
		return m.Plan(now, o, e.limits).Replicas
	})
}

// writeEpisode prints the published result and the results of the model for each seed and percentile.
func (g grid) writeEpisode(w io.Writer, e *episode) {
	fmt.Fprintf(w, "%s, published: %.1f%% on time with %.2f replicas on average\n", e.name, 100*e.published, e.publishedMean)
	for _, seed := range g.seeds {
		fixed := e.run(seed, func(time.Time, *objective.Evidence) int32 { return e.limits.Max })
		fmt.Fprintf(w, "%s, seed %d: %d replicas %.1f%%", e.name, seed, e.limits.Max, 100*(1-fixed.lateShare()))
		for _, percentile := range g.percentiles {
			got := e.learned(seed, percentile, g.tuning)
			fmt.Fprintf(w, "; objective %v%%: %.1f%% with %.2f replicas", percentile, 100*(1-got.lateShare()), got.Cost)
		}
		fmt.Fprintln(w)
	}
}
