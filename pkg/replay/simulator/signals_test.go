package simulator

import (
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/replay/measure"
	"github.com/gpuscaler/gpuscaler/pkg/replay/trace"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// policyOf returns a policy with one Prometheus query, the signal load.
func policyOf(query string, target float64) *policy.Compiled {
	p := chat("chat", func(p *scaling.Policy) {
		p.MinReplicas, p.MaxReplicas = 1, 40
		p.Signals = []scaling.Signal{{Name: "load", Type: "prometheus", Target: target, MaxAge: 2 * time.Minute}}
	})
	p.Sources = []policy.Source{{Type: policy.SourcePrometheus, Query: query}}
	return p
}

// Five requests arrive per second, and the target is one request per second for each replica. The policy must get five replicas if its
// query is a rate per second or per minute. If the simulator replays the signal as a queue, one replica remains, because no request waits.
func TestRateQueryReadsArrivals(t *testing.T) {
	byName := map[string]measure.Measure{"load": measure.Queue}
	for name, c := range map[string]struct {
		query  string
		target float64
		byName map[string]measure.Measure
		want   float64
	}{
		"by the second":  {"sum(rate(requests_total[1m]))", 1, nil, 5},
		"by the minute":  {"sum(increase(requests_total[1m]))", 60, nil, 5},
		"times sixty":    {"60 * sum(rate(requests_total[1m]))", 60, nil, 5},
		"a queue":        {"sum(queue)", 1, nil, 1},
		"set as a rate":  {"sum(rate(requests_total[1m]))", 1, byName, 1},
		"set, by minute": {"sum(increase(requests_total[1m]))", 60, map[string]measure.Measure{"load": measure.Arrivals}, 5},
	} {
		w := Workload{Policy: policyOf(c.query, c.target), Service: Service{Slots: 64, Fixed: time.Second}, Initial: 5, Measures: c.byName}
		w.Traffic = generate(t, "flat", time.Hour, func(p *trace.Profile) { p.Rate = 5 })
		sum, n := 0.0, 0
		watch(t, Config{Seed: 1, Assumptions: exact(), Workloads: []Workload{w}}, time.Hour, func(w *Simulator, s int) {
			if s > 1800 {
				sum, n = sum+float64(w.loads[0].target), n+1
			}
		})
		// Rates over a minute are noisy. The scale-down window uses the highest proposal of five minutes, so the mean target is
		// above the exact result.
		if mean := sum / float64(n); !(mean >= c.want-0.5 && mean <= 1.6*c.want) {
			t.Errorf("%s: %.2f replicas on average, want about %v", name, mean, c.want)
		}
	}
}

// The policy multiplies its signal, a mean per replica, by the number of ready replicas. If the query returns a mean, the simulator divides
// the rate of arrivals by the ready replicas, and five requests per second need five replicas. If the query returns a sum, the policy
// wrongly multiplies this sum, and the target increases to the maximum, as in a cluster.
func TestAMeanOfARateIsOfOneReplica(t *testing.T) {
	arrivals := map[string]measure.Measure{"load": measure.Arrivals}
	for name, c := range map[string]struct {
		query  string
		byName map[string]measure.Measure
		away   bool
	}{
		"a mean over pods":     {query: "avg(rate(requests_total[1m]))"},
		"the most of pods":     {query: "max by (pool) (sum by (pool, pod) (rate(requests_total[1m])))"},
		"as the policy has it": {query: "rate(requests_total[1m])"},
		"set by name":          {query: "requests:rate1m", byName: arrivals},
		"set, and a sum":       {query: "sum(rate(requests_total[1m]))", byName: arrivals, away: true},
		"a sum":                {query: "sum(rate(requests_total[1m]))", away: true},
	} {
		p := policyOf(c.query, 1)
		p.Workload.Policy.Signals[0].Kind = scaling.Mean
		w := Workload{Policy: p, Service: Service{Slots: 64, Fixed: time.Second}, Initial: 5, Measures: c.byName}
		w.Traffic = generate(t, "flat", time.Hour, func(p *trace.Profile) { p.Rate = 5 })
		sum, n := 0.0, 0
		watch(t, Config{Seed: 1, Assumptions: exact(), Workloads: []Workload{w}}, time.Hour, func(w *Simulator, s int) {
			if s > 1800 {
				sum, n = sum+float64(w.loads[0].target), n+1
			}
		})
		switch mean := sum / float64(n); {
		case c.away && mean < 35:
			t.Errorf("%s: %.2f replicas on average, want about all 40", name, mean)
		case !c.away && !(mean >= 4.5 && mean <= 9):
			t.Errorf("%s: %.2f replicas on average, want about 5", name, mean)
		}
	}
}

// The mean of a rate over no replicas is unknown, not 0, so the other signals determine the target.
func TestMeanRateIsUnknownWithoutReplicas(t *testing.T) {
	p := policyOf("avg(rate(requests_total[1m]))", 1)
	p.Workload.Policy.MinReplicas, p.Workload.Policy.Signals[0].Kind = 0, scaling.Mean
	w := Workload{Policy: p, Service: Service{Slots: 64, Fixed: time.Second}, Initial: 0}
	w.Traffic = generate(t, "flat", 10*time.Minute, func(p *trace.Profile) { p.Rate = 5 })
	unknown := 0
	watch(t, Config{Seed: 1, Assumptions: exact(), Workloads: []Workload{w}}, 10*time.Minute, func(w *Simulator, s int) {
		l := w.loads[0]
		newest := l.visible()
		if r := l.meter.readings[0]; newest != nil && newest.ready == 0 && l.ready == 0 && s > 60 {
			if unknown++; r.Known {
				t.Fatalf("at %d s it reads %v of no replica", s, r.Value)
			}
		}
	})
	if unknown == 0 {
		t.Fatal("there was always a replica")
	}
}

// The KV cache must grow with the number of slots: if all slots serve average requests, the KV cache usage is then the same for each number
// of slots. If 32 slots had the cache of 8 slots, they would use 137% of the cache. A policy on the KV cache usage would then add replicas
// while half of the slots are free.
func TestCacheHasTheSameUsageWithMoreSlots(t *testing.T) {
	for _, slots := range []int{1, 4, 8, 32, 128} {
		s := Chat8B.WithSlots(slots)
		if s.Slots != slots || s.CacheTokens != 4000*slots {
			t.Errorf("%d slots: a cache of %d tokens, want %d", slots, s.CacheTokens, 4000*slots)
		}
	}
	if s := (Service{Fixed: time.Second}).WithSlots(4); s.Slots != 4 || s.CacheTokens != 0 {
		t.Errorf("a service without a cache: %+v", s)
	}
}

func TestAPolicyOnWaitsIsDrivenByThem(t *testing.T) {
	p := chat("chat", func(p *scaling.Policy) {
		p.MinReplicas = 1
		p.Signals[1] = scaling.Signal{Name: "wait", Type: "vllm", Kind: scaling.Mean, Class: scaling.Latency, Unit: scaling.Seconds, Target: 2,
			MaxAge: 2 * time.Minute, Optional: true}
		p.Signals[0].Target = 1e6
	})
	p.Sources[1] = policy.Source{Type: policy.SourceVLLM, Metric: "queueTime", Quantile: 0.95, Window: time.Minute}
	peak := int32(0)
	r := watch(t, Config{Seed: 1, Assumptions: exact(),
		Workloads: []Workload{{Policy: p, Traffic: burst(t, 3), Service: Chat8B, Initial: 1}}}, time.Hour, func(w *Simulator, _ int) {
		peak = max(peak, w.loads[0].target)
	})
	if peak < 3 || r.Loads[0].Served != r.Loads[0].Arrived {
		t.Errorf("waits of minutes brought %d replicas", peak)
	}
}

// Five requests arrive per second for ten minutes, then none. A rate over a minute is computed from the scrapes of the last minute, so it
// decreases step by step. irate reads only the two newest scrapes. A window without two scrapes has no result, as in Prometheus.
func TestRateHasTheWindowOfItsQuery(t *testing.T) {
	var requests []trace.Request
	for at := time.Duration(0); at < 10*time.Minute; at += 200 * time.Millisecond {
		requests = append(requests, trace.Request{At: at})
	}
	for query, want := range map[string]struct{ before, during, after [2]float64 }{ // lowest and highest value
		"sum(rate(requests_total[1m]))":     {[2]float64{4.9, 5.1}, [2]float64{1, 4}, [2]float64{}},
		"sum(increase(requests_total[1m]))": {[2]float64{294, 306}, [2]float64{60, 240}, [2]float64{}},
		"sum(rate(requests_total[5m]))":     {[2]float64{4.9, 5.1}, [2]float64{4, 4.9}, [2]float64{3, 4}},
		"sum(irate(requests_total[1m]))":    {[2]float64{4.9, 5.1}, [2]float64{}, [2]float64{}},
		"sum(rate(requests_total[15s]))":    {[2]float64{-1, -1}, [2]float64{-1, -1}, [2]float64{-1, -1}},
	} {
		read := map[int]float64{} // value by time; -1: unknown
		w := Workload{Policy: policyOf(query, 1), Service: Service{Slots: 64, Fixed: time.Second}, Initial: 5,
			Traffic: trace.NewLog(trace.Header{Duration: 12 * time.Minute}, requests)}
		watch(t, Config{Seed: 1, Assumptions: exact(), Workloads: []Workload{w}}, 12*time.Minute, func(w *Simulator, s int) {
			read[s] = -1
			if r := w.loads[0].meter.readings[0]; r.Known {
				read[s] = r.Value
			}
		})
		for s, between := range map[int][2]float64{590: want.before, 641: want.during, 690: want.after} {
			if v := read[s]; !(v >= between[0] && v <= between[1]) {
				t.Errorf("%s at %d s: %v, want %v", query, s, v, between)
			}
		}
	}
}

// A signal is read at the interval of its data source. Requests arrive in the first ten minutes only, so with the default interval of 15
// seconds the query returns 0 soon after. With an interval of 5 minutes, the old value remains until the next poll.
func TestSignalIsPolledAtTheIntervalOfItsDataSource(t *testing.T) {
	var requests []trace.Request
	for at := time.Duration(0); at < 10*time.Minute; at += 200 * time.Millisecond {
		requests = append(requests, trace.Request{At: at})
	}
	for every, reads := range map[time.Duration][2]int{ // least and greatest number of different samples in 20 minutes
		time.Second: {79, 81}, policy.DefaultInterval: {79, 81}, 5 * time.Minute: {4, 5},
	} {
		c := policyOf("sum(rate(requests_total[1m]))", 1)
		c.Workload.Policy.Signals[0].MaxAge = 20 * time.Minute
		c.Polls = []time.Duration{every}
		w := Workload{Policy: c, Service: Service{Slots: 64, Fixed: time.Second}, Initial: 5,
			Traffic: trace.NewLog(trace.Header{Duration: 20 * time.Minute}, requests)}
		samples, last, oldest := 0, time.Time{}, time.Duration(0)
		watch(t, Config{Seed: 1, Assumptions: exact(), Workloads: []Workload{w}}, 20*time.Minute, func(w *Simulator, s int) {
			r := &w.loads[0].meter.readings[0]
			if !r.At.Equal(last) {
				samples, last = samples+1, r.At
			}
			if !last.IsZero() && s > 300 {
				oldest = max(oldest, w.Time().Sub(last))
			}
		})
		if samples < reads[0] || samples > reads[1] {
			t.Errorf("interval %s: %d samples, want %v", every, samples, reads)
		}
		if most := every + 17*time.Second; oldest < every || oldest > most {
			t.Errorf("interval %s: the oldest reading had an age of %s, want at most %s", every, oldest, most)
		}
	}
}
