package telemetry

import (
	"slices"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/exposition"
)

// Every pod that Prometheus scrapes can write any label on its page, exported_namespace and exported_pod among them. A claim about
// another pod counts only where it is from a pod that the PlatformConfig declares as an exporter, and only about pods on that
// exporter's node: a DCGM exporter sees the GPUs of its own node and no others.
type attribution struct {
	labels  exposition.ScrapeLabels
	options *Options
	declare []policy.Exporter // of one type
	nodes   map[exposition.Owner]string
}

func newAttribution(d *policy.DataSource, t policy.SourceType, o *Options) *attribution {
	a := &attribution{labels: exposition.ScrapeLabels{Namespace: d.NamespaceLabel, Pod: d.PodLabel}, options: o}
	for _, e := range d.Exporters {
		if e.Type == t {
			a.declare = append(a.declare, e)
		}
	}
	return a
}

// begin lists the exporters again, for one poll.
func (a *attribution) begin() {
	a.nodes = map[exposition.Owner]string{}
	if a.options.Exporters == nil {
		return
	}
	for _, e := range a.declare {
		for _, p := range a.options.Exporters.Exporters(e.Namespace, e.PodLabels) {
			if p.Node != "" {
				a.nodes[exposition.Owner{Namespace: e.Namespace, Pod: p.Name}] = p.Node
			}
		}
	}
}

// namespaces returns the labels that name the namespace of a series. Claims count where the exporters of the type are declared.
func (a *attribution) namespaces() namespaceLabels {
	l := namespaceLabels{}
	l.scraped, l.claims = a.labels.Namespaces()
	for _, e := range a.declare {
		if !slices.Contains(l.trusted, e.Namespace) {
			l.trusted = append(l.trusted, e.Namespace)
		}
	}
	return l
}

// subject is the pod that a series is about.
type subject struct {
	pod      exposition.Owner
	exporter exposition.Owner // the declared exporter that says so; zero where the series is the pod's own
	node     string           // of that exporter
}

// subject returns the pod that a series is about; ok is false where the scraped pod is not known. refused are the pods
// that the series names without being trusted.
func (a *attribution) subject(l exposition.Labels) (s subject, ok bool, refused [2]exposition.Owner) {
	n, consistent := a.labels.Read(l)
	node, declared := a.nodes[n.Scraped]
	switch {
	case !consistent:
		return s, false, [2]exposition.Owner{n.Scraped, n.Claimed}
	case !declared || n.Claimed == exposition.Owner{}:
		return subject{pod: n.Scraped}, n.Scraped.Pod != "", [2]exposition.Owner{n.Claimed} // its own, and what it says of others does not count
	}
	return subject{n.Claimed, n.Scraped, node}, true, refused
}

// rows calls each for the rows of the pod that a series is about. Rows of pods that an undeclared pod names are marked, so that a reading
// without any other value says why. It returns the namespace that the series comes from, which the labels of a page cannot change.
func (a *attribution) rows(r *roster, l exposition.Labels, each func(row int32)) (namespace string) {
	s, ok, refused := a.subject(l)
	if ok {
		r.onNode(s.pod, s.node, each)
	}
	for _, o := range refused {
		r.refuse(o)
	}
	if ok && s.exporter != (exposition.Owner{}) {
		return s.pod.Namespace
	}
	n, _ := a.labels.Read(l)
	return n.Scraped.Namespace
}

// onNode calls each for the rows of a pod that runs on the node; empty: on any. Rows on other nodes are marked.
func (r *roster) onNode(o exposition.Owner, node string, each func(row int32)) {
	for at := r.find(o); at >= 0; at = r.rows[at].next {
		if node != "" && r.rows[at].pod.Node != node {
			r.mark(at)
			continue
		}
		each(at)
	}
}

// refuse marks the rows of a pod about which a pod that is no declared exporter reports.
func (r *roster) refuse(o exposition.Owner) {
	for at := r.find(o); at >= 0; at = r.rows[at].next {
		r.mark(at)
	}
}

func (r *roster) mark(at int32) {
	if r.rows[at].fault == scaling.CauseNone {
		r.rows[at].fault = scaling.CauseUndeclared
	}
}
