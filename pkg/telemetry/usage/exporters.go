package usage

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/gpuscaler/gpuscaler/pkg/telemetry/exposition"
)

// attribute returns the pod that holds the GPU of a series and the declared exporter that reports it. ok is false if the series must be
// ignored.
//
//   - holder is empty if no pod holds the GPU.
//   - exporter is empty if the series is about the scraped pod itself, or if it was scraped with honor_labels.
//
// Every scraped pod can serve labels that name another pod. attribute accepts these labels only in the series of a declared exporter.
// addToLedger then checks that the other pod runs on the exporter's node.
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
		return podName{}, podName{}, true // no label names a pod, so the GPU is free
	}
	return scraped, podName{}, true
}

// counts reports whether a series is used. It is called after the nodes of the pods were read. The series of a declared exporter is used
// only if the pod that holds the GPU runs on the exporter's node. Any other series is used only if no declared exporter reports the same
// GPU.
func (c *chunk) counts(k seriesKey, reported map[deviceKey]bool, at deviceKey) bool {
	if k.exporter == (podName{}) {
		return !reported[at]
	}
	own, holders := c.pods[k.exporter].node, c.pods[k.pod].node
	return k.pod.name == "" || own == "" || holders == "" || own == holders
}

// servedIn returns a matcher for the series of pods in the given namespaces. The matcher also accepts series without a namespace label,
// because some scrapes do not store the namespace.
func (o *Options) servedIn(namespaces []string) *labels.Matcher {
	pattern := ""
	for _, ns := range namespaces {
		pattern += "|" + regexp.QuoteMeta(ns)
	}
	return labels.MustNewMatcher(labels.MatchRegexp, o.Scrape.NamespaceLabel(), pattern)
}

// undeclaredText returns a message about the pods whose series were ignored because they are not declared exporters. It returns "" if there
// are no such pods.
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
