package main

import (
	"cmp"
	"reflect"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuscaler/gpuscaler/pkg/cost"
	"github.com/gpuscaler/gpuscaler/pkg/dashboard"
	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/exposition"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/history"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/usage"
)

// spending computes the present cost of GPUs. While this process leads, it queries the platform's Prometheus server each minute.
type spending struct {
	prometheus.Collector
	prices *prices
	live   *usage.Live
	source policy.DataSource // configuration from which server was created
	server *history.Server
}

func (c *controller) newSpending() *spending {
	s := &spending{prices: &prices{path: c.options.prices, platform: c.policies.Platform, log: c.log}}
	s.live = usage.NewLive(c.spendingInput, c.log)
	s.Collector = usage.NewCollector(s.live, time.Now)
	return s
}

// spendingInput returns the server and options for computing the current cost. ok is false if no server is configured or this process does
// not lead.
func (c *controller) spendingInput() (q usage.Input, ok bool) {
	s, platform := c.spending, c.policies.Platform()
	s.prices.reread()
	source := prometheusOf(platform)
	if source == nil || !c.leading() {
		return q, false
	}
	if s.server == nil || !reflect.DeepEqual(s.source, *source) {
		server, err := telemetry.OpenHistory(source)
		if err != nil {
			c.log.Error("cost: cannot create a client for the data source", "source", source.Name, "err", err)
			return q, false
		}
		s.source, s.server = *source, server
	}
	return usage.Input{
		Server: s.server,
		Options: usage.Options{Matchers: source.Matchers, Region: platform.Prices.Region, Nodes: c.cluster.Offers(),
			NoPrices: platform.Prices.Source == "book", Scrape: exposition.ScrapeLabels{Namespace: source.NamespaceLabel, Pod: source.PodLabel},
			Exporter: c.exporterOf(source), Karpenter: policy.ExporterNamespaces(source.Exporters, policy.ExporterKarpenter),
			StateMetrics: policy.ExporterNamespaces(source.Exporters, policy.ExporterStateMetrics)},
		Ledger: cost.Options{Book: s.prices.current(), Cluster: platform.Cluster, Teams: teamsOf(platform)},
	}, true
}

// exporterOf returns a function that reports whether a pod is a declared DCGM exporter at present.
func (c *controller) exporterOf(source *policy.DataSource) func(namespace, pod string) bool {
	declared := map[[2]string]bool{}
	for _, e := range source.Exporters {
		if e.Type == policy.SourceDCGM {
			for _, p := range c.cluster.Exporters(e.Namespace, e.PodLabels) {
				declared[[2]string{e.Namespace, p.Name}] = true
			}
		}
	}
	return func(namespace, pod string) bool { return declared[[2]string{namespace, pod}] }
}

// prometheusOf returns the Prometheus server for queries that belong to no policy. It is the data source that is marked as default, or the
// only Prometheus data source. It returns nil if there is none, or if there are several without a default.
func prometheusOf(p *policy.Platform) *policy.DataSource {
	var all []*policy.DataSource
	for i := range p.DataSources {
		d := &p.DataSources[i]
		if d.Type != policy.DataPrometheus {
			continue
		}
		if d.Default {
			return d
		}
		all = append(all, d)
	}
	if len(all) != 1 {
		return nil
	}
	return all[0]
}

// hourly returns the price of an instance in USD per hour, or 0 if it is unknown. The PlatformConfig takes precedence over Karpenter's
// metric, and the metric over the price book.
func (s *spending) hourly(o cost.Offer) float64 {
	platform := s.prices.platform()
	seen := cost.Price{}
	if platform.Prices.Source != "book" {
		seen = s.live.Price(o, time.Now())
	}
	o.Region = cmp.Or(o.Region, usage.RegionOf(o.Zone, platform.Prices.Region))
	return s.prices.current().Price(o, seen).Hourly
}

// cost returns the current cost for the dashboard page. ok is false if no Prometheus server has GPU data.
func (c *controller) cost() (dashboard.Cost, bool) {
	bill, ok := c.spending.live.Current(time.Now())
	if !ok {
		return dashboard.Cost{}, false
	}
	return costOf(bill, c.engine.Decisions()), true
}

// costOf converts a bill to the data of the dashboard page, in USD per hour. Idle cost is grouped by the rule that determines the replicas.
func costOf(b *cost.Bill, decisions *engine.DecisionStore) dashboard.Cost {
	hours := b.To.Sub(b.From).Hours()
	out := dashboard.Cost{Currency: "USD", At: b.To, PerHour: b.Total.Cost / hours, Idle: b.Total.Idle() / hours,
		Unmeasured: b.Total.Unmeasured / hours, Unpriced: b.Total.UnpricedGPUHours / hours}
	for _, c := range b.IdleCauses(keptBy(decisions)) {
		out.Causes = append(out.Causes, dashboard.Cause{Name: c.Name, Workloads: c.Workloads, GPUs: c.GPUs, PerHour: c.PerHour})
	}
	return out
}

// keptBy returns a function that returns the name of the rule that determined a workload's target, or "" if the workload has no decision.
func keptBy(decisions *engine.DecisionStore) func(namespace, workload string) string {
	rules := map[[2]string]string{}
	var r engine.Record
	for _, k := range decisions.Keys() {
		if decisions.CopyRecord(k, &r) && !r.At.IsZero() {
			rules[[2]string{k.Namespace, r.Workload.Target.Name}] = r.Decision.Binding.String()
		}
	}
	return func(namespace, workload string) string { return rules[[2]string{namespace, workload}] }
}
