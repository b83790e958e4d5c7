package fields_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/nodepool"
	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/replay/measure"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/karpenter"
	"github.com/gpuscaler/gpuscaler/pkg/replay/spotmarket"
)

// night returns an edit that gives the policy a capacity group and two schedules in UTC: six replicas from 7:00 to 9:00, and three from
// 10:00 to 10:30. Outside of them minReplicas is 0.
func night(group map[string]any) edit {
	return edit{
		"policy spec.capacityGroup": "chat", "policy spec.minReplicas": 0, "policy spec.activate": true, "policy spec.cooldownPeriod": "1m",
		"policy spec.schedules": []any{
			fields("name", "morning", "timezone", "UTC", "start", "0 7 * * *", "end", "0 9 * * *", "minReplicas", 6),
			fields("name", "noon", "timezone", "UTC", "start", "0 10 * * *", "end", "30 10 * * *", "minReplicas", 3),
		},
		"platform spec.capacityGroups": []any{group},
	}
}

func chatGroup(more ...any) map[string]any {
	g := group("chat", "a")
	for i := 0; i < len(more); i += 2 {
		g[more[i].(string)] = more[i+1]
	}
	return g
}

// fleet returns the fields of a capacity group that selects nodes by a label, without NodePools.
func fleet() map[string]any {
	return fields("name", "chat", "resource", "nvidia.com/gpu", "nodeSelector", fields("gpu", "l40s"))
}

// nodeWrites simulates a cluster from 6:30 to 10:00 without spot capacity from 7:20 to 7:40. It returns a line for each write to a NodePool
// or pod and for each change of a workload's target.
func nodeWrites(t *testing.T, d docSet) (out []string) {
	store := good(t, d)
	start := time.Date(2026, 11, 20, 6, 30, 0, 0, time.UTC)
	market := &spotmarket.Trace{Duration: 100 * time.Hour, Initial: 10, Events: []spotmarket.Event{{At: 50 * time.Minute, Lost: 10},
		{At: 70 * time.Minute, Added: 10}}}
	c := simulator.Config{Start: start, Seed: 1, Groups: store.Groups()}
	for name, kind := range map[string]string{"a-spot": "spot", "a-od": "on-demand"} {
		p := karpenter.NodePool{Name: name, CapacityType: kind, InstanceType: "g5", GPUs: 2, Hourly: 1, Weight: 20,
			ConsolidateAfter: time.Minute, OnlyWhenEmpty: true, Budgets: []karpenter.Budget{{Percent: 100}}}
		if kind == "spot" {
			p.Hourly, p.Weight, p.Market = 0.4, 80, market
		}
		c.NodePools = append(c.NodePools, p)
	}
	for _, compiled := range store.Compiled() {
		c.Workloads = append(c.Workloads, simulator.Workload{Policy: compiled, Service: simulator.Chat8B,
			Measures: map[string]measure.Measure{"queue": measure.Queue}})
	}
	var now time.Time
	c.Engine.OnGroupTick = func(g engine.GroupTick) {
		for _, a := range g.Decision.Actions {
			out = append(out, fmt.Sprintf("%s %s", now.Format(time.TimeOnly), a.Text()))
		}
	}
	w, err := simulator.New(c)
	if err != nil {
		t.Fatal(err)
	}
	for now = w.Time(); w.Now() < 210*time.Minute; now = w.Time() {
		for _, change := range w.Step(t.Context()).Changes {
			out = append(out, fmt.Sprintf("%s %s %d", now.Format(time.TimeOnly), change.Workload.Key, change.After.Replicas))
		}
	}
	return out
}

// buffers runs the decisions of a capacity group for an hour on a cluster that supports CapacityBuffers, and returns the actions. A
// schedule raises minReplicas to six after 30 minutes.
func buffers(t *testing.T, d docSet) (out []string) {
	g := good(t, d).Groups()[0]
	now := time.Date(2026, 11, 20, 6, 30, 0, 0, time.UTC)
	o := capacity.Observation{Buffers: true, Workloads: []capacity.Workload{{Key: "team-chat/llama", GPUs: 1, Known: true}},
		Ahead: []capacity.Span{{From: now.Add(30 * time.Minute), Until: now.Add(time.Hour), GPUs: 6, Workload: "team-chat/llama", Replicas: 6}}}
	for range g.Pools {
		o.Pools = append(o.Pools, capacity.PoolView{Exists: true, Ready: true,
			View: nodepool.View{Consent: nodepool.ConsentLimits | nodepool.ConsentWeight | nodepool.ConsentDisruption}})
	}
	var s capacity.State
	var decision capacity.Decision
	for range 60 {
		s.Decide(g, &o, now, &decision)
		for _, a := range decision.Actions {
			out = append(out, now.Format(time.TimeOnly)+" "+a.Text())
		}
		now = now.Add(time.Minute)
	}
	return out
}

// fleetCap runs the decisions of a capacity group for one hour. The group has two labeled nodes with four GPUs in use each, and pods are
// pending. fleetCap returns the caps of the workload's target.
func fleetCap(t *testing.T, d docSet) (out []string) {
	g := good(t, d).Groups()[0]
	now := time.Date(2026, 11, 20, 6, 30, 0, 0, time.UTC)
	w := capacity.Workload{Key: "team-chat/llama", GPUs: 1, Known: true, Uncapped: 12, Current: 12}
	for i := range 12 {
		p := capacity.Pod{UID: fmt.Sprint(i), GPUs: 1, Pool: -1, Pending: i >= 8}
		if !p.Pending {
			p.Pool, p.Node = 0, i/4
		}
		w.Pods = append(w.Pods, p)
	}
	o := capacity.Observation{Workloads: []capacity.Workload{w}, Pools: []capacity.PoolView{{Exists: true, Ready: true}}}
	for range 2 {
		if g.Matches(map[string]string{"gpu": "l40s"}) {
			o.Pools[0].Nodes = append(o.Pools[0].Nodes, capacity.Node{Stage: capacity.Usable, Ready: true, GPUs: 4, Used: 4, Created: now})
		}
	}
	var s capacity.State
	var decision capacity.Decision
	for range 12 {
		now = now.Add(time.Minute)
		s.Decide(g, &o, now, &decision)
		out = append(out, fmt.Sprint(now.Format(time.TimeOnly), " ", decision.Advice[0].Cap, " ", len(decision.Findings)))
	}
	return out
}

// groupProbes returns a probe for each field that changes the writes to NodePools and pods (see fieldProbe).
func groupProbes() []fieldProbe {
	const at = "platform spec.capacityGroups[0]."
	window := func(more ...any) edit {
		w := fields("name", "peak", "timezone", "UTC", "start", "0 7 * * *", "end", "0 8 * * *", "weight", 50, "limits", fields("nvidia.com/gpu",
			4),
			"disruption", fields("consolidateAfter", "Never", "consolidationPolicy", "WhenEmpty"))
		for i := 0; i < len(more); i += 2 {
			w[more[i].(string)] = more[i+1]
		}
		return night(chatGroup("schedules", []any{w}))
	}
	plain := night(chatGroup())
	all := []fieldProbe{
		{field: "policy spec.capacityGroup", is: absent{}, with: night(chatGroup("zeroLimit", true)), see: nodeWrites},
		{field: at + "resource", is: "amd.com/gpu", with: night(chatGroup("zeroLimit", true)), see: nodeWrites},
		{field: at + "nodePools", is: fields("spot", "a-spot"), with: night(chatGroup("zeroLimit", true)), see: nodeWrites},
		{field: at + "nodeSelector", is: fields("gpu", "h100"), with: night(fleet()), see: fleetCap},
		{field: at + "maxNodes", was: 2, is: 4, with: night(fleet()), see: fleetCap},
		{field: at + "maxCapacity", was: 8, is: 16, with: night(fleet()), see: fleetCap},
		{field: at + "mode", was: "auto", is: "advisory", with: night(chatGroup("zeroLimit", true)), see: nodeWrites},
		{field: at + "onDemandBaseCapacity", is: 2, with: plain, see: nodeWrites},
		{field: at + "spotWaitTimeout", is: "10m", with: plain, see: nodeWrites},
		{field: at + "fallback", was: "soft", is: "hard", with: plain, see: nodeWrites},
		{field: at + "returnNodesPerHour", was: 30, is: 1, with: night(chatGroup("consolidationFreeze", false)), see: nodeWrites},
		{field: at + "zeroLimit", is: true, with: plain, see: nodeWrites},
		{field: at + "consolidationFreeze", was: true, is: false, with: plain, see: nodeWrites},
		{field: at + "startupShield", is: true, with: plain, see: nodeWrites},
		{field: at + "emptyWholeNodes", is: true, with: joined(plain, edit{"policy spec.schedules[0].minReplicas": 5}), see: nodeWrites},
		{field: at + "leadTime", is: "10m", with: plain, see: nodeWrites},
		{field: at + "buffer", is: true, with: night(chatGroup("leadTime", "10m")), see: buffers},
		{field: at + "schedules[0].start", is: "30 7 * * *", with: window(), see: nodeWrites},
		{field: at + "schedules[0].end", is: "30 7 * * *", with: window(), see: nodeWrites},
		{field: at + "schedules[0].timezone", is: "Europe/Berlin", with: window(), see: nodeWrites},
		{field: at + "schedules[0].from", is: "2026-11-21", with: window("until", "2026-12-01"), see: nodeWrites},
		{field: at + "schedules[0].until", was: "2026-12-01", is: "2026-11-19", with: window("from", "2026-11-01"), see: nodeWrites},
		{field: at + "schedules[0].nodePools", is: []any{"spot"}, with: window(), see: nodeWrites},
		{field: at + "schedules[0].limits", is: fields("nvidia.com/gpu", 8), with: window(), see: nodeWrites},
		{field: at + "schedules[0].weight", is: 60, with: window(), see: nodeWrites},
		{field: at + "schedules[0].disruption.consolidateAfter", is: "1h", with: window(), see: nodeWrites},
		{field: at + "schedules[0].disruption.consolidationPolicy", is: "WhenEmptyOrUnderutilized", with: window(), see: nodeWrites},
	}
	return all
}
