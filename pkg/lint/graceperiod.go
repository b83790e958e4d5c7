package lint

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/exposition"
)

// GraceTooShort is the name of the check for a termination grace period that is shorter than the requests of the model server.
const GraceTooShort = "GracePeriodShorterThanRequests"

// longest is the quantile of the request durations that the check compares with the grace period.
const longest = 0.99

// Ending describes how the pods of a workload end, and which metrics contain the durations of their requests.
type Ending struct {
	Workload string         // kind and name, for example "Deployment llama"
	Pods     string         // regular expression of the names of its pods
	Grace    *time.Duration // terminationGracePeriodSeconds; nil: unknown
	Buckets  []string       // names of the buckets of the histograms with the durations of requests; empty: the server has no such histogram
	// NamespaceLabel and PodLabel are the labels in which the series contain the pod; empty means namespace and pod.
	NamespaceLabel, PodLabel string
}

// Unchecked returns the workloads whose grace period is unknown because their pod template was not read, although the durations of their
// requests are known.
func Unchecked(subjects []Subject) (workloads []string) {
	for i := range subjects {
		if e := &subjects[i].Ending; e.Grace == nil && len(e.Buckets) > 0 {
			kind, name, _ := strings.Cut(e.Workload, " ")
			workloads = append(workloads, kind+" "+subjects[i].Namespace+"/"+name)
		}
	}
	return workloads
}

// endingOf returns how the pods of a policy's workload end: the names of the pods, and the metrics that contain the durations of their
// requests. It does not set Grace, because the grace period is in the pod template, which only the caller can read.
func endingOf(c *policy.Compiled, platform *policy.Platform) Ending {
	target := c.Workload.Target
	suffix := "-[0-9]+(-[0-9]+)?" // StatefulSet, LeaderWorkerSet
	if target.Kind == "Deployment" {
		suffix = "-[a-z0-9]{1,10}-[a-z0-9]{5}" // does not match pods of another Deployment whose name begins with this name
	}
	out := Ending{Workload: target.Kind + " " + target.Name, Pods: regexp.QuoteMeta(target.Name) + suffix}
	for i := range c.Sources {
		e, ok := exposition.Engine(string(c.Sources[i].Type))
		if !ok {
			continue
		}
		d := platform.DataSource(c.Sources[i].DataSource)
		if d == nil || d.Type != policy.DataPrometheus {
			d = platform.Prometheus() // the controller reads the pods directly, but the check queries this server
		}
		if d != nil {
			out.NamespaceLabel, out.PodLabel = d.NamespaceLabel, d.PodLabel
		}
		m, ok := e.Lookup(exposition.RequestLatency)
		if !ok || m.Shape != exposition.Histogrammed {
			continue
		}
		for _, from := range m.From {
			if name := from.Name + "_bucket"; from.Label == "" && !slices.Contains(out.Buckets, name) {
				out.Buckets = append(out.Buckets, name)
			}
		}
	}
	return out
}

// gracePeriod adds a finding if more than 1% of the requests of the last hour took longer than the grace period. With fewer than 100
// requests, gracePeriod adds no finding, because this share is unknown. A pod that is removed by a scale-in, a rollout or a drain gets no
// new requests, and must finish its requests in flight within the grace period.
func (c *check) gracePeriod(ctx context.Context, of *Subject) error {
	e := &of.Ending
	if e.Grace == nil || len(e.Buckets) == 0 {
		return nil
	}
	requests := []*labels.Matcher{anyOf(e.Buckets),
		labels.MustNewMatcher(labels.MatchEqual, cmp.Or(e.NamespaceLabel, "namespace"), of.Namespace),
		labels.MustNewMatcher(labels.MatchRegexp, cmp.Or(e.PodLabel, "pod"), e.Pods)}
	each := c.selector(requests...)
	all := c.selector(append(requests, labels.MustNewMatcher(labels.MatchEqual, "le", "+Inf"))...)
	result, err := c.server.Instant(ctx, fmt.Sprintf("histogram_quantile(%g, sum by (le) (increase(%s[1h]))) and sum(increase(%s[1h])) >= 100",
		longest, each, all), c.now)
	if err != nil {
		return err
	}
	for _, s := range result {
		if seconds := float64(s.Value); seconds > e.Grace.Seconds() && !math.IsInf(seconds, 0) {
			c.add(Finding{Warning, GraceTooShort, of.About,
				fmt.Sprintf("1 of 100 requests of the last hour took more than %.0fs, and terminationGracePeriodSeconds of %s is %.0f",
					math.Floor(seconds), e.Workload, e.Grace.Seconds()),
				"a scale-in, a rollout and the drain of a node end the requests that a removed pod has not finished within this time",
				fmt.Sprintf("set terminationGracePeriodSeconds: %.0f or more in the pod template, and let the server finish its requests after "+
					"SIGTERM, or add a preStop hook that waits for them; a removed pod then keeps its GPUs until its last request ends",
					math.Ceil(seconds))})
		}
	}
	return nil
}
