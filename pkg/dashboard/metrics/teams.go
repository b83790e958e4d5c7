package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
)

// TeamReader returns the newest record of each team that has limits. The engine's decision store implements TeamReader.
type TeamReader interface {
	Teams() []engine.TeamRecord
}

// TeamCollector exports the limits of teams and how much of each limit the team uses.
type TeamCollector struct{ decisions TeamReader }

// NewTeamCollector returns a collector that reads the records from b.
func NewTeamCollector(b TeamReader) *TeamCollector { return &TeamCollector{decisions: b} }

var (
	perLimit = []string{"team", "resource"}

	teamLimit = describe("team_limit_units", "Limit of a team in units of the resource (teams[].limits).", perLimit)
	teamUnits = describe("team_units", "Units of the resource by what they are: targets (served; never above the limit), "+
		"uncapped (the targets without the limit), minimums (minReplicas of the policies), "+
		"others (pods without a policy and workloads that are not served; they only prevent increases).", append(perLimit[:2:2], "of"))
	teamCut     = describe("team_cut_workloads", "Workloads of the team whose target the limit reduces.", perLimit)
	teamUnknown = describe("team_unknown_workloads",
		"Workloads of the team whose target cannot increase, because it is not known how much a replica requests: "+
			"the pod template cannot be read, or the pods have device claims whose devices cannot be counted.", perLimit)
	teamFailing = describe("team_failing",
		"1 while the division of the team's limits failed in the last tick: its targets do not change until they are too old to be served.",
		perLimit[:1:1])
)

// Describe sends the description of every metric.
func (c *TeamCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{teamLimit, teamUnits, teamCut, teamUnknown, teamFailing} {
		out <- d
	}
}

// Collect sends the metrics of the newest record of each team that has a decision.
func (c *TeamCollector) Collect(out chan<- prometheus.Metric) {
	for _, r := range c.decisions.Teams() {
		if r.At.IsZero() {
			continue
		}
		send := func(d *prometheus.Desc, v float64, more ...string) {
			out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, append([]string{r.Name}, more...)...)
		}
		send(teamFailing, number(r.Err != ""))
		for i := range r.Limits {
			u := &r.Limits[i]
			send(teamLimit, float64(u.Limit), u.Resource)
			send(teamUnits, float64(u.Targets), u.Resource, "targets")
			send(teamUnits, float64(u.Uncapped), u.Resource, "uncapped")
			send(teamUnits, float64(u.Minimums), u.Resource, "minimums")
			send(teamUnits, float64(u.Others), u.Resource, "others")
			send(teamCut, float64(u.Cut), u.Resource)
			send(teamUnknown, float64(u.Unknown), u.Resource)
		}
	}
}
