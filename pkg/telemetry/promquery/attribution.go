package promquery

import (
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/exposition"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/pods"
)

// attribution finds the pod to which a series refers. Any pod that Prometheus scrapes can serve any label on its page, including
// exported_namespace and exported_pod. A series that refers to a pod other than the scraped pod is therefore used only if two conditions
// are met: the PlatformConfig declares the scraped pod as an exporter, and the other pod runs on the exporter's node. The second condition
// is correct because a DCGM exporter reads only the GPUs of its own node.
type attribution struct {
	labels   exposition.ScrapeLabels
	cluster  pods.Exporters
	declared []policy.Exporter // the declared exporters of one type
	nodes    map[exposition.Owner]string
}

func newAttribution(s *Server, t policy.SourceType) *attribution {
	names := exposition.ScrapeLabels{Namespace: s.DataSource.NamespaceLabel, Pod: s.DataSource.PodLabel}
	a := &attribution{labels: names, cluster: s.Cluster.Exporters}
	for _, e := range s.DataSource.Exporters {
		if e.Type == t {
			a.declared = append(a.declared, e)
		}
	}
	return a
}

// begin lists the pods of the declared exporters and their nodes. It is called before each query.
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

// each calls the function query one or more times, until all namespaces of p are read. The argument of each call contains the matchers
// that select some of these namespaces. The result is the total number of bytes of the responses.
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

// namespaces returns the labels that can contain the namespace of a series.
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

// subject is the pod to which a series refers.
type subject struct {
	pod      exposition.Owner
	exporter exposition.Owner // the declared exporter that serves the series; the zero value if the pod itself serves it
	node     string           // node of that exporter
}

// subject returns the pod to which a series refers. ok is false if the labels contradict each other or do not name the scraped pod.
// refused contains the pods that the labels name but whose readings this series must not change, because the scraped pod is not a
// declared exporter or because the labels contradict each other.
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

// rows calls the function each with every row of the list for the pod to which a series refers. It returns the namespace to which this
// series is counted (see part.series). A pod cannot change this namespace with the labels on its page. If a pod that is not a declared
// exporter serves series about other pods, rows sets the fault CauseUndeclared in the rows of these other pods. A reading without a value
// then has this cause.
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

func now() time.Time { return time.Now() } // may use the clock: polls use the real clock
