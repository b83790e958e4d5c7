package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// people represents the users who edit the policy files. Each edit creates a new version of all files, an edition.
type people struct {
	sim      *simulation
	editions []edition
	settings settings
}

type edition struct {
	at       time.Time
	text     string
	settings settings
}

// settings are the parts of the configuration that a user edits.
type settings struct {
	hold      bool
	groups    [2]bool // whether the groups llm and rank exist
	workloads [3]workloadSettings
	broken    bool // the file with the policies cannot be parsed
}

// workloadSettings contains the fields of one ScalingPolicy that users edit.
type workloadSettings struct {
	min, max    int32
	queueTarget int   // the target of the signal queue: the queue length for each replica
	utilization bool  // the policy has the signal utilization
	swapped     bool  // whether the policy lists the signal utilization before the signal queue
	floor       int32 // minReplicas of the schedule; 0 if there is no schedule
}

// utilizationTarget is the target of the signal utilization, in percent.
const utilizationTarget = 70

// window returns the times at which the schedule of a workload opens and closes, in minutes after midnight UTC.
func (w *workload) window() (opens, closes int) {
	if w.keda {
		return 8, 15
	}
	return 12, 20
}

// floorAt returns the minReplicas of the schedule of a workload if the schedule is open at the given time, and 0 otherwise. A run starts at
// midnight UTC.
func (w *workload) floorAt(o *workloadSettings, at time.Time) int32 {
	opens, closes := w.window()
	if minute := at.UTC().Hour()*60 + at.UTC().Minute(); minute >= opens && minute < closes {
		return o.floor
	}
	return 0
}

const platformText = `apiVersion: gpuscaler.io/v1alpha1
kind: PlatformConfig
metadata: {name: simulated}
spec:
  cluster: simulated
  mode: %s
  dataSources:
  - {name: prom, type: prometheus, default: true, address: "https://prometheus.monitoring.svc:9090"}
  - {name: redis, type: redis, address: "redis.queues.svc:6379", timeout: 1700ms, namespaces: [team]}
  queries:
  - {name: queue, source: prom, query: "sum by (namespace, app) (queue_length)", workloadLabel: app}
  - {name: utilization, source: prom, query: "avg by (namespace, app) (utilization)", workloadLabel: app}
`

// groupTexts contains the YAML of the capacity groups. Together, the groups override every field of a NodePool that gpuscaler can override.
var groupTexts = [2]string{
	"  - {name: llm, resource: nvidia.com/gpu, nodePools: {spot: llm-spot, on-demand: llm-on-demand}, spotWaitTimeout: 1m, " +
		"zeroLimit: true, leadTime: 2m}\n",
	"  - {name: rank, resource: nvidia.com/gpu, nodePools: {spot: rank-spot, on-demand: rank-on-demand}, spotWaitTimeout: 1m, " +
		"zeroLimit: true,\n     fallback: hard, leadTime: 1m, startupShield: true, emptyWholeNodes: true,\n     schedules: " +
		"[{name: day, timezone: UTC, start: \"6 0 * * *\", end: \"18 0 * * *\", nodePools: [on-demand], weight: 30, " +
		"disruption: {consolidateAfter: Never}}]}\n",
}

const policyText = `---
apiVersion: gpuscaler.io/v1alpha1
kind: ScalingPolicy
metadata: {name: %s, namespace: team}
spec:
  scaleTargetRef: {name: %[1]s}
  minReplicas: %d
  maxReplicas: %d
  cooldownPeriod: 1m
%s  behavior:
    scaleDown: {stabilizationWindowSeconds: 60, policies: [{type: Percent, value: 100, periodSeconds: 15}]}
  signals:
`

func (p *people) text() string {
	mode := "auto"
	if p.settings.hold {
		mode = "hold"
	}
	var b strings.Builder
	fmt.Fprintf(&b, platformText, mode)
	if p.settings.groups != [2]bool{} {
		b.WriteString("  capacityGroups:\n")
	}
	for i, text := range groupTexts {
		if p.settings.groups[i] {
			b.WriteString(text)
		}
	}
	for i, w := range p.sim.workloads {
		b.WriteString(p.policy(w, &p.settings.workloads[i]))
	}
	if p.settings.broken {
		return strings.Replace(b.String(), "minReplicas: ", "minReplicas: x", 1)
	}
	return b.String()
}

// policy returns the ScalingPolicy of a workload as YAML.
func (p *people) policy(w *workload, o *workloadSettings) string {
	optional := ""
	for g, name := range groupNames {
		if p.settings.groups[g] && name == w.group {
			optional = "  capacityGroup: " + name + "\n"
		}
	}
	if o.floor > 0 {
		opens, closes := w.window()
		optional += fmt.Sprintf("  schedules: [{name: peak, timezone: UTC, start: \"%d 0 * * *\", end: \"%d 0 * * *\", minReplicas: %d}]\n",
			opens, closes, o.floor)
	}
	signals := []string{fmt.Sprintf("  - {name: queue, type: %s, target: %d}\n", p.sim.queueSource(w), o.queueTarget)}
	if o.utilization {
		signals = append(signals, fmt.Sprintf("  - {name: utilization, type: prometheus, queryRef: utilization, metricType: Value, target: %d}\n",
			utilizationTarget))
	}
	if o.swapped {
		slices.Reverse(signals)
	}
	return fmt.Sprintf(policyText, w.name, o.min, o.max, optional) + strings.Join(signals, "")
}

// groupNames contains the names of the capacity groups, in the order of groupTexts.
var groupNames = [2]string{"llm", "rank"}

// edit changes the settings and saves the files.
func (p *people) edit(change func(*settings)) {
	change(&p.settings)
	p.editions = append(p.editions, edition{at: p.sim.now, text: p.text(), settings: p.settings})
}

// editionAt returns the index of the newest edition that was saved at or before the given time.
func (p *people) editionAt(t time.Time) int {
	for i := len(p.editions) - 1; i > 0; i-- {
		if !p.editions[i].at.After(t) {
			return i
		}
	}
	return 0
}
