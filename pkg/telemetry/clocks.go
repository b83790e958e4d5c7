package telemetry

import (
	"sync"
	"time"
)

// tellSkew is the difference of two clocks that people are told of: a host whose NTP works is far from it, and one whose NTP does not
// passes it within days.
const tellSkew = 5 * time.Second

// clocks remembers of which clocks people were told, so that a dozen polls of one server tell it once.
type clocks struct {
	mu   sync.Mutex
	told map[clockKey]bool
}

// clockKey names a clock: one of a Prometheus server, one of each kind of page that is scraped.
type clockKey struct {
	source, of string
}

// skew returns how far the clock behind a group stands ahead of ours; ok is false where it does not tell.
func (r *runner) skew(g *group) (ahead time.Duration, ok bool) {
	if f, own := r.fetcher.(interface{ skew() (time.Duration, bool) }); own {
		return f.skew()
	}
	return r.poller.links.get(g.source).clock.Skew()
}

// compareClocks exports the difference, and logs once when it becomes great and once when that is over.
func (r *runner) compareClocks(g *group) {
	ahead, ok := r.skew(g)
	if !ok {
		return
	}
	p := r.poller
	p.metrics.skew.WithLabelValues(g.source.Name, g.key.how.String()).Set(ahead.Seconds())
	key := clockKey{source: g.source.Name}
	if g.key.how == byScrape || g.key.how == byExporter || g.key.how == byExternal {
		key.of = g.key.how.String() + " " + string(g.key.profile)
	}
	far := ahead.Abs() > tellSkew
	if !p.clocks.news(key, far) {
		return
	}
	log := p.options.Logger.With("source", g.source.Name, "poll", g.key.how.String(), "aheadSeconds", ahead.Round(time.Second).Seconds())
	if far {
		log.Warn("the source's clock differs from ours: its samples' times are corrected by it; set both by NTP")
	} else {
		log.Info("the source's clock agrees with ours again")
	}
}

// news tells whether it is.
func (c *clocks) news(k clockKey, far bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.told[k] == far {
		return false
	}
	if c.told == nil {
		c.told = map[clockKey]bool{}
	}
	c.told[k] = far
	return true
}

// forgetClock takes back what a poll that ends exported.
func (p *Poller) forgetClock(g *group) {
	p.metrics.skew.DeleteLabelValues(g.source.Name, g.key.how.String())
}
