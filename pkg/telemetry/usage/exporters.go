package usage

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/gpuscaler/gpuscaler/pkg/telemetry/exposition"
)

// attribute returns the pod that holds the GPU of a series (empty: none) and the declared exporter that reports it (empty: the series is
// the scraped pod's own, or a scrape with honor_labels stored it). ok is false for a report that does not count.
//
// Every scraped pod can write labels that name another pod. They count only where they come from a declared exporter; addToLedger checks
// that the pod runs on the exporter's node.
func (c *chunk) attribute(l exposition.Labels) (holder, exporter podName, ok bool) {
	n, consistent := c.options.Scrape.Read(l)
	scraped, reported := podName{n.Scraped.Namespace, n.Scraped.Pod}, podName{n.Reported.Namespace, n.Reported.Pod}
	declared := consistent && scraped.name != "" && c.options.Exporter != nil && c.options.Exporter(scraped.namespace, scraped.name)
	switch {
	case declared:
		return reported, scraped, true
	case reported != podName{} || !consistent && scraped.namespace != "":
		c.undeclared[scraped] = true
		return podName{}, podName{}, false
	case scraped.name == "":
		return podName{}, podName{}, true // no label names a pod: a GPU that no pod holds
	}
	return scraped, podName{}, true
}

// counts reports whether a series is used, once the nodes of pods are known. An exporter reads the GPUs of its own node only, and other
// pods' reports about a GPU that a declared exporter reports do not count.
func (c *chunk) counts(k seriesKey, reported map[deviceKey]bool, at deviceKey) bool {
	if k.exporter == (podName{}) {
		return !reported[at]
	}
	own, holders := c.pods[k.exporter].node, c.pods[k.pod].node
	return k.pod.name == "" || own == "" || holders == "" || own == holders
}

// servedIn matches the series of pods in some namespaces, and series of a scrape that stores no namespace.
func (o *Options) servedIn(namespaces []string) *labels.Matcher {
	pattern := ""
	for _, ns := range namespaces {
		pattern += "|" + regexp.QuoteMeta(ns)
	}
	return labels.MustNewMatcher(labels.MatchRegexp, o.Scrape.NamespaceLabel(), pattern)
}

// undeclaredText names the pods whose reports did not count; it is empty for none.
func (r *reader) undeclaredText() string {
	if len(r.undeclared) == 0 {
		return ""
	}
	var names []string
	for p := range r.undeclared {
		if p.name == "" {
			p.name = "(no pod label)"
		}
		names = append(names, p.namespace+"/"+p.name)
	}
	slices.Sort(names)
	more := ""
	if n := len(names) - 3; n > 0 {
		names, more = names[:3], fmt.Sprintf(" and %d more", n)
	}
	return fmt.Sprintf("GPU series that name other pods are ignored: %s%s are not declared exporters (PlatformConfig spec.exporters, or --exporter-namespace)",
		strings.Join(names, ", "), more)
}
