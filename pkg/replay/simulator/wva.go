package simulator

import (
	"math"
	"time"
)

// WVA is the saturation analyzer of llm-d's Workload Variant Autoscaler for one variant: one replica more where the replicas that are
// not saturated have too little to spare, one less where the rest could take its load (docs/saturation-analyzer.md; version 1, whose
// thresholds are shares of the cache and requests in a replica's queue). The zero values are its defaults.
type WVA struct {
	Min, Max   int32
	CacheFull  float64       // kvCacheThreshold; 0 means 0.80
	QueueFull  float64       // queueLengthThreshold; 0 means 5
	CacheSpare float64       // kvSpareTrigger; 0 means 0.1
	QueueSpare float64       // queueSpareTrigger; 0 means 3
	Interval   time.Duration // between two optimizations; 0 means 60 s
}

// wvaScrape is how often Prometheus sees a replica; the analyzer takes the greatest of a minute.
const wvaScrape = 15 * time.Second

// Make makes WVAs.
func (w WVA) NewActuator() Actuator {
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

// pod is a replica in one of its lives.
type pod struct {
	id  int32
	gen uint32
}

// load1m is what one scrape saw of one replica.
type load1m struct{ cache, queue float64 }

type wva struct {
	config WVA
	decide time.Time
	seen   map[pod]*[4]load1m // the last minute of each ready replica
	scrape int
}

// Act scrapes, and decides once an interval.
func (v *wva) Act(s *Scene) Move {
	if v.decide.IsZero() {
		v.decide = s.Now.Add(phaseOf(s, v.config.Interval))
	}
	m := Move{Replicas: s.Spec, Asked: s.l.asked, Idle: s.l.idle, Again: wvaScrape}
	if s.l.fault("") != nil {
		return m
	}
	loads := v.look(s)
	if s.Now.Before(v.decide) {
		return m
	}
	v.decide = s.Now.Add(v.config.Interval)
	m.Replicas = v.config.next(loads, s.Spec)
	m.Asked, m.Idle = m.Replicas, Cooldown
	if m.Replicas <= v.config.Min {
		m.Idle = Minimum
	}
	return m
}

// look is the greatest load of each ready replica in the last minute. The world's queue stands in front of the replicas; a balancer by
// requests would have spread it evenly.
func (v *wva) look(s *Scene) (out []load1m) {
	l := s.l
	v.scrape = (v.scrape + 1) % 4
	alive := map[pod]*[4]load1m{}
	for _, r := range l.replicas {
		if r.state != ready {
			continue
		}
		name := pod{r.id, r.gen}
		past := v.seen[name]
		if past == nil {
			past = &[4]load1m{}
		}
		now := load1m{queue: float64(l.queue.n) / math.Max(1, float64(l.ready))}
		if l.service.CacheTokens > 0 {
			now.cache = float64(r.cachedTokens()) / float64(l.service.CacheTokens)
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

// next is the analyzer's target for its only variant. While replicas are pending its last decision stands.
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
	case spec != ready: // under way
	case free == 0 || spareCache/free < w.CacheSpare || spareQueue/free < w.QueueSpare:
		n = ready + 1
	case free >= 2 && w.CacheFull-cache/(free-1) >= w.CacheSpare && w.QueueFull-queue/(free-1) >= w.QueueSpare:
		n = ready - 1
	}
	return max(w.Min, 1, min(n, w.Max))
}
