package telemetry

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/prometheus/common/model"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/exposition"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/promapi"
)

// Kueue's gauges. Only status="active" counts: inadmissible workloads will not run until the cluster changes, and replicas do not
// change it.
const (
	kueueClusterQueue = "kueue_pending_workloads"
	kueueLocalQueue   = "kueue_local_queue_pending_workloads"
)

// kueueFetcher asks one query for the pending workloads of all queues. Only series that were scraped in the namespaces where the
// PlatformConfig says that Kueue runs count: any pod can serve a gauge of Kueue's name.
type kueueFetcher struct {
	api        *promapi.Client
	matchers   map[string]string
	labels     exposition.ScrapeLabels
	namespaces map[string]bool
	trusted    []string // the same, as a list
}

func newKueueFetcher(g *group, api *promapi.Client) *kueueFetcher {
	f := &kueueFetcher{api: api, matchers: g.source.Matchers, namespaces: map[string]bool{},
		labels: exposition.ScrapeLabels{Namespace: g.source.NamespaceLabel, Pod: g.source.PodLabel}}
	for _, e := range g.source.Exporters {
		if e.Type == policy.SourceKueue {
			f.namespaces[e.Namespace] = true
			f.trusted = append(f.trusted, e.Namespace)
		}
	}
	return f
}

// queue names a LocalQueue, or a ClusterQueue by an empty namespace.
type queue struct{ namespace, name string }

func (f *kueueFetcher) divisible() bool { return true }

func (f *kueueFetcher) ask(ctx context.Context, p *part) (bytes int64, err error) {
	active := map[string]string{"status": "active"}
	for name, value := range f.matchers {
		active[name] = value
	}
	pending := map[queue]scaling.Reading{}
	for i := range p.slots {
		pending[queueOf(&p.slots[i])] = scaling.Reading{Reported: -1, Cause: scaling.CauseEmpty}
	}
	take := func(s *promapi.Series) error {
		q := queue{name: s.Labels.Get("cluster_queue")}
		if s.Labels.Get(model.MetricNameLabel) == kueueLocalQueue {
			// Kueue's page names the namespace of the queue; the scrape sets its own label of that name and renames the page's.
			q = queue{s.Labels.Get("exported_namespace"), cmp.Or(s.Labels.Get("exported_name"), s.Labels.Get("name"))}
			if f.labels.Namespace != "" && f.labels.Namespace != "namespace" {
				q.namespace = s.Labels.Get("namespace")
			}
		}
		from, ok := f.labels.Read(s.Labels)
		declared := ok && f.namespaces[from.Scraped.Namespace]
		if declared {
			p.count(q.namespace)
		} else {
			p.count(from.Scraped.Namespace) // the page cannot change it
		}
		have, ok := pending[q]
		if !ok || !s.Valid {
			return nil
		}
		if declared {
			pending[q] = newerCopy(have, s.Value, s.At)
		} else if !have.Known {
			pending[q] = scaling.Reading{Reported: -1, Cause: scaling.CauseUndeclared}
		}
		return nil
	}
	for _, text := range f.queries(p, active) {
		n, err := f.api.With(p.limits).Query(ctx, text, take)
		bytes += n
		if err != nil {
			return bytes, err
		}
	}
	for i := range p.slots {
		p.out[i] = pending[queueOf(&p.slots[i])]
	}
	return bytes, nil
}

// queries returns one query for all queues, or those for the queues of some namespaces and the ClusterQueues that they name.
func (f *kueueFetcher) queries(p *part, active map[string]string) (out []string) {
	back := lookback(p.slots)
	if p.namespaces == nil {
		return []string{newest([]string{kueueClusterQueue, kueueLocalQueue}, active, back, nil)}
	}
	l := namespaceLabels{trusted: f.trusted}
	l.scraped, _ = f.labels.Namespaces()
	l.claims = []string{"exported_namespace"}
	if f.labels.Namespace != "" && f.labels.Namespace != "namespace" {
		l.claims = []string{"namespace"}
	}
	out = append(out, newest([]string{kueueLocalQueue}, active, back, l.claimed(0, p.namespaces)))
	if slices.ContainsFunc(p.slots, func(s slot) bool { return s.source.ClusterQueue != "" }) {
		out = append(out, newest([]string{kueueClusterQueue}, active, back, l.exporters()))
	}
	return out
}

func queueOf(s *slot) queue {
	if s.source.ClusterQueue != "" {
		return queue{name: s.source.ClusterQueue}
	}
	return queue{s.w.Key.Namespace, s.source.LocalQueue}
}

// newerCopy keeps the newest of several copies of one number (Kueue's replicas each export it, told apart by replica_role), and of
// two of the same age the greater.
func newerCopy(have scaling.Reading, v float64, at time.Time) scaling.Reading {
	if have.Known && (at.Before(have.At) || (at.Equal(have.At) && v <= have.Value)) {
		return have
	}
	return scaling.Reading{Value: v, At: at, Coverage: 1, Reported: -1, Known: true}
}
