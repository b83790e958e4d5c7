package decisions

import (
	"math"
	"sort"
)

// static is a policy that keeps a fixed number of replicas.
type static int32

func (n static) decide(*view) int32 { return int32(n) }

// smallestStatic returns the smallest fixed number of replicas that meets the SLO in the scored part of the run (its last 40%), and the
// score of this number of replicas.
func smallestStatic(r *run, s setup, allowed float64) (int32, score) {
	n := sort.Search(int(s.most), func(n int) bool { return simulate(r, s, static(n)).lateShare() <= allowed })
	return int32(n), simulate(r, s, static(n))
}

// slidingMax computes the maximum of the values within a sliding window.
type slidingMax struct{ q *slidingMin }

func newSlidingMax(window int) slidingMax { return slidingMax{newSlidingMin(window)} }

func (m slidingMax) push(slot int, value int32, window int) int32 {
	m.q.push(slot, -value)
	m.q.expire(slot - window)
	return -m.q.first()
}

// reactiveSettings are the settings of an HPA or KEDA ScaledObject with a target on the rate of requests and the queue.
type reactiveSettings struct {
	target float64 // target utilization: a share of the capacity of a replica
	window int     // scale-down stabilization window, in slots
	drain  float64 // the HPA requests replicas to serve the queue within this number of slots; 0: the HPA has no target for the queue
	floor  int32
}

// defaultReactive is an HPA with the default stabilization window of 5 minutes and the common target of 70%.
var defaultReactive = reactiveSettings{target: 0.7, window: 300 / SlotSeconds, drain: 60 / SlotSeconds, floor: 1}

// reactive is a simulated HPA. It reads the mean request rate of the last minute every 15 s. It has a tolerance of 10% and a scale-down
// stabilization window.
type reactive struct {
	reactiveSettings
	capacity float64
	rate     float64
	held     slidingMax
}

func newReactive(s reactiveSettings, r *run) *reactive {
	return &reactive{reactiveSettings: s, capacity: r.capacity, held: newSlidingMax(s.window)}
}

func (p *reactive) decide(v *view) int32 {
	p.rate += (v.arrived - p.rate) / (60 / SlotSeconds)
	if v.t%3 != 0 {
		return v.target
	}
	load := p.rate
	if p.drain > 0 {
		load += v.queue / p.drain
	}
	ratio := load / (p.target * p.capacity)
	want := int32(math.Ceil(ratio))
	if v.target > 0 && math.Abs(ratio/float64(v.target)-1) <= 0.1 {
		want = v.target
	}
	if want == 0 && v.arrived+v.queue+p.rate > 0.001*p.capacity {
		want = 1
	}
	return p.held.push(v.t, max(want, p.floor), p.window)
}

// tunedReactive returns the score of the cheapest settings of the reactive baseline that meet the SLO in the scored part. met is false if
// no settings meet the SLO.
func tunedReactive(runs map[reactiveSettings]score, allowed float64) (best score, met bool) {
	for _, s := range runs {
		if s.lateShare() <= allowed && (!met || s.Cost < best.Cost) {
			best, met = s, true
		}
	}
	return best, met
}

// reactiveGrid simulates the reactive baseline with every combination of settings and returns the scores. The scores do not depend on a
// percentile, so they can be compared with the SLO of any percentile.
func reactiveGrid(r *run, s setup) map[reactiveSettings]score {
	out := map[reactiveSettings]score{}
	for _, target := range []float64{0.15, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1} {
		for _, window := range []int{12, 60, 180, 720} {
			for _, drain := range []float64{0, 2, 12} {
				for floor := range int32(2) {
					if floor == 0 && !r.sparse() {
						continue
					}
					settings := reactiveSettings{target, window, drain, floor}
					out[settings] = simulate(r, s, newReactive(settings, r))
				}
			}
		}
	}
	return out
}

// sparse reports whether the mean load is less than what half a replica serves, so that zero replicas can be right for a part of the time.
func (r *run) sparse() bool { return r.total[len(r.work)] < float64(len(r.work))*r.capacity/2 }

// anchors are the results with which the result of the model of package objective is compared: static fleets, reactive baselines and the
// oracle, on the same traffic.
type anchors struct {
	Fleet    int32 // the smallest fixed number of replicas that meets the SLO, known only after the run
	Static   score
	Standard score // the reactive baseline with default settings
	Tuned    score // the reactive baseline, tuned in hindsight
	TunedMet bool
	Oracle   score
}

// newAnchors computes the results for comparison (anchors) for each of several percentiles.
func newAnchors(r *run, s setup, others []*run, bursts bool, percentiles []float64) map[float64]anchors {
	tuned, search := reactiveGrid(r, s), newOracleSearch(others, s, bursts)
	standard := simulate(r, s, newReactive(defaultReactive, r))
	out := map[float64]anchors{}
	for _, percentile := range percentiles {
		a, allowed := anchors{Standard: standard}, allowedLate(percentile)
		a.Fleet, a.Static = smallestStatic(r, s, allowed)
		a.Tuned, a.TunedMet = tunedReactive(tuned, allowed)
		a.Oracle = simulate(r, s, newOracle(search.best(allowed), r, s, 0))
		out[percentile] = a
	}
	return out
}

func allowedLate(percentile float64) float64 { return (1 - percentile/100) * (1 + 1e-9) }
