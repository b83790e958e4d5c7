package controller

import (
	"cmp"
	"reflect"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuscaler/gpuscaler/pkg/cost"
	"github.com/gpuscaler/gpuscaler/pkg/dashboard"
	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/exposition"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/history"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/usage"
)

// spending computes the current cost of GPUs. While this process is the leader, spending queries the Prometheus server of the
// PlatformConfig once a minute.
type spending struct {
	prometheus.Collector
	prices *prices
	live   *usage.Live
	source policy.DataSource // configuration from which the field server was created
	server *history.Server
}

func (c *controller) newSpending() *spending {
	s := &spending{prices: &prices{path: c.options.prices, platform: c.policies.Platform, log: c.log}}
	s.live = usage.NewLive(c.spendingInput, c.log)
	s.Collector = usage.NewCollector(s.live, time.Now)
	return s
}

// spendingInput returns the Prometheus server and the options for computing the current cost. ok is false if no server is configured or
// this process is not the leader.
func (c *controller) spendingInput() (q usage.Input, ok bool) {
	s, platform := c.spending, c.policies.Platform()
	s.prices.reread()
	source := platform.Prometheus()
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
		Ledger: cost.Options{Book: s.prices.current(), Cluster: platform.Cluster, Teams: platform.TeamNames()},
	}, true
}

// exporterOf returns a function that reports whether a pod is one of the DCGM exporters that the data source declares. The function uses
// the pods that exist when exporterOf is called.
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

// hourly returns the price of an instance in USD per hour, or 0 if the price is unknown. It uses the first of these sources that contains
// the price: the PlatformConfig, Karpenter's metric, the price book.
func (s *spending) hourly(o cost.Offer) float64 {
	platform := s.prices.platform()
	seen := cost.Price{}
	if platform.Prices.Source != "book" {
		seen = s.live.Price(o, time.Now())
	}
	o.Region = cmp.Or(o.Region, usage.RegionOf(o.Zone, platform.Prices.Region))
	return s.prices.current().Price(o, seen).Hourly
}

// cost returns the current cost for the web page. ok is false if no Prometheus server has GPU data.
func (c *controller) cost() (dashboard.Cost, bool) {
	bill, ok := c.spending.live.Current(time.Now())
	if !ok {
		return dashboard.Cost{}, false
	}
	return dashboard.NewCost(bill, c.engine.Decisions()), true
}
