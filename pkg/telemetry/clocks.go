package telemetry

import (
	"sync"
	"time"
)

// reportedSkew is the difference of two clocks above which it is logged. A host with a working NTP stays far below it; one without
// exceeds it within days.
const reportedSkew = 5 * time.Second

// clockReports keeps which clocks were reported, so that ten polls of one server log it once.
type clockReports struct {
	mu       sync.Mutex
	reported map[clockKey]bool
}

// clockKey names a clock: a Prometheus server has one, and so has each kind of page that is scraped.
type clockKey struct {
	source, pages string
}

// skew returns how far the clock behind a group is ahead of ours; ok is false where it is not known.
func (r *runner) skew(g *group) (ahead time.Duration, ok bool) {
	if f, own := r.fetcher.(interface {
		Skew() (time.Duration, bool)
	}); own {
		return f.Skew()
	}
	return r.poller.sources.get(g.source).clock.Skew()
}

// reportSkew exports the difference of the clocks, and logs when it exceeds reportedSkew and when it no longer does.
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
		log.Warn("the clock of the source differs from ours: the times of its samples are corrected by the difference; set both clocks by NTP")
	} else {
		log.Info("the clock of the source agrees with ours again")
	}
}

// changed stores whether a clock differs, and reports whether that is new.
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

// deleteSkew deletes the metric of a poll that ends.
func (p *Poller) deleteSkew(g *group) {
	p.metrics.skew.DeleteLabelValues(g.source.Name, g.key.kind.String())
}
