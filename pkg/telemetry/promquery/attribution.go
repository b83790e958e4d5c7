package promquery

import (
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/exposition"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/pods"
)

// attribution finds the pod that a series is about. Every pod that Prometheus scrapes can write any label on its page, also
// exported_namespace and exported_pod. A report about another pod counts only where it is from a pod that the PlatformConfig declares
// as an exporter, and only about pods on that exporter's node: a DCGM exporter reads the GPUs of its own node and no others.
type attribution struct {
	labels   exposition.ScrapeLabels
	cluster  pods.Exporters
	declared []policy.Exporter // of one type
	nodes    map[exposition.Owner]string
}

func newAttribution(s *Server, t policy.SourceType) *attribution {
	a := &attribution{labels: exposition.ScrapeLabels{Namespace: s.DataSource.NamespaceLabel, Pod: s.DataSource.PodLabel}, cluster: s.Cluster.Exporters}
	for _, e := range s.DataSource.Exporters {
		if e.Type == t {
			a.declared = append(a.declared, e)
		}
	}
	return a
}

// begin lists the exporters for one query.
func (a *attribution) begin() {
	a.nodes = map[exposition.Owner]string{}
	if a.cluster == nil {
		return
	}
	for _, e := range a.declared {
		for _, p := range a.cluster.Exporters(e.Namespace, e.PodLabels) {
			if p.Node != "" {
				a.nodes[exposition.Owner{Namespace: e.Namespace, Pod: p.Name}] = p.Node
			}
		}
	}
}

// each calls query for each set of matchers that selects a part of the part's namespaces. It returns the bytes of all answers.
func (a *attribution) each(p *part, query func(only []*labels.Matcher) (int64, error)) (bytes int64, err error) {
	for _, only := range a.namespaces().restrictions(p.namespaces) {
		n, err := query(only)
		bytes += n
		if err != nil {
			return bytes, err
		}
	}
	return bytes, nil
}

// namespaces returns the labels that name the namespace of a series.
func (a *attribution) namespaces() namespaceLabels {
	l := namespaceLabels{}
	l.scraped, l.reported = a.labels.Namespaces()
	for _, e := range a.declared {
		if !slices.Contains(l.trusted, e.Namespace) {
			l.trusted = append(l.trusted, e.Namespace)
		}
	}
	return l
}

// subject is the pod that a series is about.
type subject struct {
	pod      exposition.Owner
	exporter exposition.Owner // the declared exporter that reports it; zero where the series is the pod's own
	node     string           // of that exporter
}

// subject returns the pod that a series is about; ok is false where the scraped pod is not known. refused are the pods that the series
// names although its own pod is not trusted to.
func (a *attribution) subject(l exposition.Labels) (s subject, ok bool, refused [2]exposition.Owner) {
	n, consistent := a.labels.Read(l)
	node, declared := a.nodes[n.Scraped]
	switch {
	case !consistent:
		return s, false, [2]exposition.Owner{n.Scraped, n.Reported}
	case !declared || n.Reported == exposition.Owner{}:
		return subject{pod: n.Scraped}, n.Scraped.Pod != "", [2]exposition.Owner{n.Reported}
	}
	return subject{n.Reported, n.Scraped, node}, true, refused
}

// rows calls each with the rows of the pod that a series is about. Rows of a pod that an undeclared pod names get that as their fault, so
// that a reading without any other value has the cause. It returns the namespace that the series is from, which the labels of a page
// cannot change.
func (a *attribution) rows(list *pods.List, l exposition.Labels, each func(row int32)) (namespace string) {
	s, ok, refused := a.subject(l)
	if ok {
		list.OnNode(s.pod, s.node, each)
	}
	for _, o := range refused {
		list.Refuse(o)
	}
	if ok && s.exporter != (exposition.Owner{}) {
		return s.pod.Namespace
	}
	n, _ := a.labels.Read(l)
	return n.Scraped.Namespace
}

func now() time.Time { return time.Now() } // I/O edge: a poll happens in real time
