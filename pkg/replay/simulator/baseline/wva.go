package baseline

import (
	"math"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/autoscaler"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/ledger"
)

// WVA is the saturation analyzer of llm-d's Workload Variant Autoscaler for one variant (docs/saturation-analyzer.md, version 1). A replica
// is saturated if its KV cache usage or its queue reaches a threshold. WVA adds a replica if the replicas that are not saturated have too
// little spare capacity on average. WVA removes a replica if the other replicas could serve its load. A threshold or an
// interval of 0 means WVA's default.
type WVA struct {
	Min, Max   int32
	CacheFull  float64       // kvCacheThreshold; 0 means 0.80
	QueueFull  float64       // queueLengthThreshold; 0 means 5
	CacheSpare float64       // kvSpareTrigger; 0 means 0.1
	QueueSpare float64       // queueSpareTrigger; 0 means 3
	Interval   time.Duration // time between two optimizations; 0 means 60 s
}

// wvaScrape is the scrape interval of Prometheus. The analyzer uses the maximum load of each replica in the last minute.
const wvaScrape = 15 * time.Second

// NewActuator returns a new actuator. It replaces settings of 0 by WVA's defaults. As a method value it is an autoscaler.Factory.
func (w WVA) NewActuator() autoscaler.Actuator {
	for value, standard := range map[*float64]float64{&w.CacheFull: 0.8, &w.QueueFull: 5, &w.CacheSpare: 0.1, &w.QueueSpare: 3} {
		if *value == 0 {
			*value = standard
		}
	}
	if w.Interval == 0 {
		w.Interval = time.Minute
	}
	return &wva{config: w, seen: map[pod]*[4]load1m{}}
}

// pod identifies a replica. A new replica can reuse the id of a replica that ended; their gen then differs.
type pod struct {
	id  int32
	gen uint32
}

// load1m is the load of one replica at one scrape: the share of its KV cache that is used, and the length of its queue.
type load1m struct{ cache, queue float64 }

type wva struct {
	config WVA
	decide time.Time
	seen   map[pod]*[4]load1m // scrapes of the last minute of each ready replica
	scrape int
}

// Act reads the load of the replicas at each scrape, and computes the target once per interval.
func (v *wva) Act(s *autoscaler.Scene) autoscaler.Move {
	if v.decide.IsZero() {
		v.decide = s.Now.Add(autoscaler.PhaseOf(s, v.config.Interval))
	}
	m := autoscaler.Move{Replicas: s.Spec, Asked: s.Asked, Idle: s.Idle, Again: wvaScrape}
	if s.Faulty() {
		return m
	}
	loads := v.look(s)
	if s.Now.Before(v.decide) {
		return m
	}
	v.decide = s.Now.Add(v.config.Interval)
	m.Replicas = v.config.next(loads, s.Spec)
	m.Asked, m.Idle = m.Replicas, ledger.Cooldown
	if m.Replicas <= v.config.Min {
		m.Idle = ledger.Minimum
	}
	return m
}

// look returns the maximum load of each ready replica in the last minute. The simulated queue is in front of the replicas; look
// divides it evenly, as a load balancer would.
func (v *wva) look(s *autoscaler.Scene) (out []load1m) {
	v.scrape = (v.scrape + 1) % 4
	alive := map[pod]*[4]load1m{}
	for r := range s.ReadyReplicas() {
		name := pod{r.ID, r.Generation}
		past := v.seen[name]
		if past == nil {
			past = &[4]load1m{}
		}
		now := load1m{queue: float64(s.Queued) / math.Max(1, float64(s.Ready))}
		if s.CacheTokens > 0 {
			now.cache = float64(r.CachedTokens) / float64(s.CacheTokens)
		}
		past[v.scrape] = now
		alive[name] = past
		most := load1m{}
		for _, p := range past {
			most.cache, most.queue = math.Max(most.cache, p.cache), math.Max(most.queue, p.queue)
		}
		out = append(out, most)
	}
	v.seen = alive
	return out
}

// next returns the analyzer's target for its only variant. While the ready replicas differ from spec, a change is in progress, and next
// keeps spec (within Min and Max).
func (w *WVA) next(loads []load1m, spec int32) int32 {
	var cache, queue, spareCache, spareQueue float64
	free := 0.0
	for _, l := range loads {
		if l.cache >= w.CacheFull || l.queue >= w.QueueFull {
			continue
		}
		free++
		cache, queue = cache+l.cache, queue+l.queue
		spareCache, spareQueue = spareCache+w.CacheFull-l.cache, spareQueue+w.QueueFull-l.queue
	}
	ready := int32(len(loads))
	n := spec
	switch {
	case ready == 0:
		n = max(spec, 1)
	case spec != ready: // a change of the replicas is in progress, so n remains spec
	case free == 0 || spareCache/free < w.CacheSpare || spareQueue/free < w.QueueSpare:
		n = ready + 1
	case free >= 2 && w.CacheFull-cache/(free-1) >= w.CacheSpare && w.QueueFull-queue/(free-1) >= w.QueueSpare:
		n = ready - 1
	}
	return max(w.Min, 1, min(n, w.Max))
}
