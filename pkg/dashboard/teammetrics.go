package dashboard

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
)

// TeamBoard is the engine's read side for teams with limits.
type TeamBoard interface {
	Teams() []engine.TeamRecord
}

// TeamCollector exports what became of the limits of teams, read at scrape time.
type TeamCollector struct{ board TeamBoard }

// NewTeamCollector returns a collector over a board.
func NewTeamCollector(b TeamBoard) *TeamCollector { return &TeamCollector{board: b} }

var (
	perLimit = []string{"team", "resource"}

	teamLimit   = describe("team_limit_units", "Limit of a team in units of the resource (teams[].limits).", perLimit)
	teamUnits   = describe("team_units", "Units of the resource by what they are: targets (served; never above the limit), wanted (the targets without the limit), minimums (minReplicas of the policies), others (pods without a policy and workloads that are not served; they stop raises only).", append(perLimit[:2:2], "of"))
	teamCut     = describe("team_cut_workloads", "Workloads of the team whose target the limit cuts.", perLimit)
	teamUnknown = describe("team_unknown_workloads", "Workloads of the team that are not raised, because the amount that a replica requests cannot be read from the pod template.", perLimit)
	teamFailing = describe("team_failing", "1 while the limits of a team could not be divided in the last tick: its targets stay until they are too old.", perLimit[:1:1])
)

// Describe sends every metric's description.
func (c *TeamCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{teamLimit, teamUnits, teamCut, teamUnknown, teamFailing} {
		out <- d
	}
}

// Collect sends the newest outcome of every team.
func (c *TeamCollector) Collect(out chan<- prometheus.Metric) {
	for _, r := range c.board.Teams() {
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
			send(teamUnits, float64(u.Wanted), u.Resource, "wanted")
			send(teamUnits, float64(u.Minimums), u.Resource, "minimums")
			send(teamUnits, float64(u.Others), u.Resource, "others")
			send(teamCut, float64(u.Cut), u.Resource)
			send(teamUnknown, float64(u.Unknown), u.Resource)
		}
	}
}
