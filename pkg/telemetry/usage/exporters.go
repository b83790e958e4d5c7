package usage

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/gpuscaler/gpuscaler/pkg/telemetry/exposition"
)

// attribute returns the pod that holds the GPU of a series and the declared exporter that reports it. ok is false if the series must not
// count.
//
//   - holder is empty if no pod holds the GPU.
//   - exporter is empty if the series is about the scraped pod itself, or if a scrape with honor_labels stored it.
//
// Every scraped pod can serve labels that name another pod. These labels count only in the series of a declared exporter; addToLedger then
// checks that the other pod runs on the exporter's node.
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
		return podName{}, podName{}, true // no label names a pod, so no pod holds the GPU
	}
	return scraped, podName{}, true
}

// counts reports whether a series counts, after the nodes of the pods are known. The series of an exporter counts only for pods on the
// exporter's node. Any other series counts only if no declared exporter reports the same GPU.
func (c *chunk) counts(k seriesKey, reported map[deviceKey]bool, at deviceKey) bool {
	if k.exporter == (podName{}) {
		return !reported[at]
	}
	own, holders := c.pods[k.exporter].node, c.pods[k.pod].node
	return k.pod.name == "" || own == "" || holders == "" || own == holders
}

// servedIn returns a matcher for the series of pods in the given namespaces. It also matches series without a namespace label, because some
// scrapes store none.
func (o *Options) servedIn(namespaces []string) *labels.Matcher {
	pattern := ""
	for _, ns := range namespaces {
		pattern += "|" + regexp.QuoteMeta(ns)
	}
	return labels.MustNewMatcher(labels.MatchRegexp, o.Scrape.NamespaceLabel(), pattern)
}

// undeclaredText returns a message with the pods whose series were ignored because they are not declared exporters. It returns "" if there
// are none.
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
	return fmt.Sprintf("GPU series that name other pods are ignored: %s%s are not declared exporters "+
		"(PlatformConfig spec.exporters, or --exporter-namespace)", strings.Join(names, ", "), more)
}
