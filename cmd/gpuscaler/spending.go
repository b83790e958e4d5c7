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

// spending is what GPUs cost at present: asked of the platform's Prometheus server each minute, while this process leads.
type spending struct {
	prometheus.Collector
	prices *prices
	live   *usage.Live
	source policy.DataSource // that server was opened for
	server *history.Server
}

func (c *controller) newSpending() *spending {
	s := &spending{prices: &prices{path: c.options.prices, platform: c.policies.Platform, log: c.log}}
	s.live = usage.NewLive(c.spendingQuestion, c.log)
	s.Collector = usage.NewCollector(s.live, time.Now)
	return s
}

// spendingQuestion is what is asked at a look; ok is false where there is nobody to ask, or another process asks.
func (c *controller) spendingQuestion() (q usage.Question, ok bool) {
	s, platform := c.spending, c.policies.Platform()
	s.prices.reread()
	source := prometheusOf(platform)
	if source == nil || !c.leading() {
		return q, false
	}
	if s.server == nil || !reflect.DeepEqual(s.source, *source) {
		server, err := telemetry.Past(source)
		if err != nil {
			c.log.Error("cost: the data source cannot be asked", "source", source.Name, "err", err)
			return q, false
		}
		s.source, s.server = *source, server
	}
	return usage.Question{
		Server: s.server,
		Options: usage.Options{Matchers: source.Matchers, Region: platform.Prices.Region, Nodes: c.cluster.Offers(),
			NoPrices: platform.Prices.Source == "book", Scrape: exposition.ScrapeLabels{Namespace: source.NamespaceLabel, Pod: source.PodLabel},
			Exporter: c.exporterOf(source), Karpenter: policy.ExporterNamespaces(source.Exporters, policy.ExporterKarpenter),
			StateMetrics: policy.ExporterNamespaces(source.Exporters, policy.ExporterStateMetrics)},
		Ledger: cost.Options{Book: s.prices.current(), Cluster: platform.Cluster, Teams: teamsOf(platform)},
	}, true
}

// exporterOf returns a check of whether a pod is a declared DCGM exporter at this moment.
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

// prometheusOf is the server that the platform's own questions go to: the default one, else the only one.
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

// hourly is what an instance costs: by the PlatformConfig in force, else by Karpenter's metric, else by the price book. 0 is unknown.
func (s *spending) hourly(o cost.Offer) float64 {
	platform := s.prices.platform()
	seen := cost.Price{}
	if platform.Prices.Source != "book" {
		seen = s.live.Price(o, time.Now())
	}
	o.Region = cmp.Or(o.Region, usage.RegionOf(o.Zone, platform.Prices.Region))
	return s.prices.current().Price(o, seen).Hourly
}

// cost is what the page shows of money; ok is false where no server says what GPUs do.
func (c *controller) cost() (dashboard.Cost, bool) {
	bill, ok := c.spending.live.Present(time.Now())
	if !ok {
		return dashboard.Cost{}, false
	}
	return spent(bill, c.engine.Decisions()), true
}

// spent is a bill as the page shows it: what is idle goes by the rule that keeps the replicas.
func spent(b *cost.Bill, board *engine.DecisionStore) dashboard.Cost {
	hours := b.To.Sub(b.From).Hours()
	out := dashboard.Cost{Currency: "USD", At: b.To, PerHour: b.Total.Cost / hours, Idle: b.Total.Idle() / hours,
		Unmeasured: b.Total.Unmeasured / hours, Unpriced: b.Total.UnpricedGPUHours / hours}
	for _, c := range b.IdleCauses(keptBy(board)) {
		out.Causes = append(out.Causes, dashboard.Cause{Name: c.Name, Of: c.Workloads, GPUs: c.GPUs, PerHour: c.PerHour})
	}
	return out
}

// keptBy tells which rule made the number of a workload's replicas.
func keptBy(board *engine.DecisionStore) func(namespace, workload string) string {
	rules := map[[2]string]string{}
	var r engine.Record
	for _, k := range board.Keys() {
		if board.CopyRecord(k, &r) && !r.At.IsZero() {
			rules[[2]string{k.Namespace, r.Workload.Target.Name}] = r.Decision.Binding.String()
		}
	}
	return func(namespace, workload string) string { return rules[[2]string{namespace, workload}] }
}
