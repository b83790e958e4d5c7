package promquery

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/common/model"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/exposition"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/promapi"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/source"
)

// Names of Kueue's gauges. Only series with status="active" are used. The workloads in series with status="inadmissible" cannot run until
// the cluster changes, so additional replicas would not process them.
const (
	kueueClusterQueue = "kueue_pending_workloads"
	kueueLocalQueue   = "kueue_local_queue_pending_workloads"
)

// kueueQuery reads the number of pending workloads of all queues with one query. It uses a series only if Prometheus scraped it in a
// namespace in which Kueue runs according to the PlatformConfig, because any pod can serve a gauge with the same name.
type kueueQuery struct {
	api      *promapi.Client
	matchers map[string]string
	labels   exposition.ScrapeLabels
	trusted  []string // the namespaces in which Kueue runs
}

func newKueueQuery(s *Server) *kueueQuery {
	q := &kueueQuery{api: s.API, matchers: s.DataSource.Matchers,
		labels: exposition.ScrapeLabels{Namespace: s.DataSource.NamespaceLabel, Pod: s.DataSource.PodLabel}}
	for _, e := range s.DataSource.Exporters {
		if e.Type == policy.SourceKueue {
			q.trusted = append(q.trusted, e.Namespace)
		}
	}
	return q
}

// queue identifies a LocalQueue, or a ClusterQueue with an empty namespace.
type queue struct{ namespace, name string }

func queueOf(r *source.Request) queue {
	if r.Source.ClusterQueue != "" {
		return queue{name: r.Source.ClusterQueue}
	}
	return queue{r.Namespace(), r.Source.LocalQueue}
}

func (q *kueueQuery) divisible() bool { return true }

func (q *kueueQuery) run(ctx context.Context, p *part) (bytes int64, err error) {
	pending := map[queue]scaling.Reading{}
	for i := range p.requests {
		pending[queueOf(&p.requests[i])] = source.Missing(scaling.CauseEmpty)
	}
	for _, text := range q.texts(p) {
		n, err := q.api.With(p.limits).Query(ctx, text, func(s *promapi.Series) error {
			q.add(s, p, pending)
			return nil
		})
		bytes += n
		if err != nil {
			return bytes, err
		}
	}
	for i := range p.requests {
		p.out[i] = pending[queueOf(&p.requests[i])]
	}
	return bytes, nil
}

// add counts one series in p, and updates the reading of the series' queue in the map pending. The map contains only the queues that
// requests read.
func (q *kueueQuery) add(s *promapi.Series, p *part, pending map[queue]scaling.Reading) {
	of := queue{name: s.Labels.Get("cluster_queue")}
	if s.Labels.Get(model.MetricNameLabel) == kueueLocalQueue {
		// Kueue serves the namespace of a LocalQueue in the label "namespace". Prometheus renames this label to "exported_namespace" if the
		// scrape sets "namespace" to the namespace of Kueue's pod.
		of = queue{s.Labels.Get("exported_namespace"), cmp.Or(s.Labels.Get("exported_name"), s.Labels.Get("name"))}
		if q.renamed() {
			of.namespace = s.Labels.Get("namespace")
		}
	}
	from, ok := q.labels.Read(s.Labels)
	trusted := ok && slices.Contains(q.trusted, from.Scraped.Namespace)
	if trusted {
		p.count(of.namespace)
	} else {
		p.count(from.Scraped.Namespace) // namespace of the scraped pod, because the labels on its page could name any namespace
	}
	have, ok := pending[of]
	switch {
	case !ok || !s.Valid:
	case trusted:
		pending[of] = newest(have, s.Value, s.At)
	case !have.Known:
		pending[of] = source.Missing(scaling.CauseUndeclared)
	}
}

// renamed reports whether the scrape stores the namespace of the scraped pod in a label other than "namespace". In this case Prometheus
// does not rename the label "namespace" on Kueue's page.
func (q *kueueQuery) renamed() bool {
	return q.labels.Namespace != "" && q.labels.Namespace != "namespace"
}

// texts returns the queries that read the requests of p. If p is not restricted to some namespaces, texts returns one query for all
// queues. Otherwise it returns one query for the LocalQueues in the namespaces of p and, if a request of p reads a ClusterQueue, one
// query for all ClusterQueues.
func (q *kueueQuery) texts(p *part) (out []string) {
	matchers := map[string]string{"status": "active"}
	maps.Copy(matchers, q.matchers)
	back := lookback(p.requests)
	if p.namespaces == nil {
		return []string{newestSamples([]string{kueueClusterQueue, kueueLocalQueue}, matchers, back, nil)}
	}
	l := namespaceLabels{trusted: q.trusted, reported: []string{"exported_namespace"}}
	l.scraped, _ = q.labels.Namespaces()
	if q.renamed() {
		l.reported = []string{"namespace"}
	}
	out = append(out, newestSamples([]string{kueueLocalQueue}, matchers, back, l.reportedBy(0, p.namespaces)))
	if slices.ContainsFunc(p.requests, func(r source.Request) bool { return r.Source.ClusterQueue != "" }) {
		out = append(out, newestSamples([]string{kueueClusterQueue}, matchers, back, l.exporters()))
	}
	return out
}

// newest returns the newer of two readings: the parameter have, and a reading with the value v and the time at. If both have the same time,
// it returns the reading with the greater value. A queue can have several values because each replica of Kueue exports a copy of every
// gauge, with the label replica_role.
func newest(have scaling.Reading, v float64, at time.Time) scaling.Reading {
	if have.Known && (at.Before(have.At) || (at.Equal(have.At) && v <= have.Value)) {
		return have
	}
	return scaling.Reading{Value: v, At: at, Coverage: 1, Reported: -1, Known: true}
}
