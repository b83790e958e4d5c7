package telemetry

import (
	"sync"
	"time"
)

// reportedSkew is the difference between the clock of a source and gpuscaler's clock above which the difference is logged. NTP keeps the
// difference much smaller. Without NTP, it can exceed this value within days.
const reportedSkew = 5 * time.Second

// clockReports contains the clocks whose difference was logged. A difference is logged once, although many polls read the same server.
type clockReports struct {
	mu       sync.Mutex
	reported map[clockKey]bool
}

// clockKey identifies a clock whose difference is logged once. The field source is the name of the data source. The field pages is empty
// for a data source that is one server, such as a Prometheus server. If gpuscaler reads pages of many pods or metrics of many adapters,
// pages describes what it reads, such as "scrape vllm". The clocks of all these pods or adapters then share one key.
type clockKey struct {
	source, pages string
}

// skew returns how far the clock of a group's source is ahead of gpuscaler's clock. ok is false if this is not known.
func (r *runner) skew(g *group) (ahead time.Duration, ok bool) {
	if f, own := r.fetcher.(interface {
		Skew() (time.Duration, bool)
	}); own {
		return f.Skew()
	}
	return r.poller.sources.get(g.source).clock.Skew()
}

// reportSkew exports the difference between the clocks as a metric. It logs when the difference begins to exceed reportedSkew, and when it
// no longer exceeds it.
func (r *runner) reportSkew(g *group) {
	ahead, ok := r.skew(g)
	if !ok {
		return
	}
	p := r.poller
	p.metrics.skew.WithLabelValues(g.source.Name, g.key.kind.String()).Set(ahead.Seconds())
	key := clockKey{source: g.source.Name}
	if g.key.kind == byScrape || g.key.kind == byExporter || g.key.kind == byExternal {
		key.pages = g.key.kind.String() + " " + string(g.key.profile)
	}
	differs := ahead.Abs() > reportedSkew
	if !p.clocks.changed(key, differs) {
		return
	}
	log := p.options.Logger.With("source", g.source.Name, "poll", g.key.kind.String(), "aheadSeconds", ahead.Round(time.Second).Seconds())
	if differs {
		log.Warn("the clock of the source differs from gpuscaler's clock: the times of its samples are corrected by the difference; " +
			"set both clocks by NTP")
	} else {
		log.Info("the clock of the source agrees with gpuscaler's clock again")
	}
}

// changed stores whether the clock with the key k differs from gpuscaler's clock by more than reportedSkew (the parameter differs). It
// returns true if this has changed since the last call for the same key.
func (c *clockReports) changed(k clockKey, differs bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reported[k] == differs {
		return false
	}
	if c.reported == nil {
		c.reported = map[clockKey]bool{}
	}
	c.reported[k] = differs
	return true
}

// deleteSkew deletes the skew metric of a group that is no longer polled.
func (p *Poller) deleteSkew(g *group) {
	p.metrics.skew.DeleteLabelValues(g.source.Name, g.key.kind.String())
}
