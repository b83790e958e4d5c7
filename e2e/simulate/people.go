package main

import (
	"fmt"
	"strings"
	"time"
)

// people edit the policy files. An edition is one version of all files.
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

// settings are what the editions differ in.
type settings struct {
	hold   bool
	groups [2]bool // llm, rank
	bounds [3]struct{ min, max int32 }
	broken bool // the file of the policies cannot be parsed
}

const platformText = `apiVersion: gpuscaler.io/v1alpha1
kind: PlatformConfig
metadata: {name: simulated}
spec:
  cluster: simulated
  mode: %s
  dataSources:
  - {name: prom, type: prometheus, default: true, address: "https://prometheus.monitoring.svc:9090"}
  queries:
  - {name: queue, source: prom, query: "sum by (namespace, app) (queue_length)", workloadLabel: app}
`

const policyText = `---
apiVersion: gpuscaler.io/v1alpha1
kind: ScalingPolicy
metadata: {name: %s, namespace: team}
spec:
  scaleTargetRef: {name: %[1]s}
  minReplicas: %d
  maxReplicas: %d
  cooldownPeriod: 1m
%s  signals:
  - {name: queue, type: prometheus, queryRef: queue, target: %d}
  behavior:
    scaleDown: {stabilizationWindowSeconds: 60, policies: [{type: Percent, value: 100, periodSeconds: 15}]}
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
	groups := []string{"llm", "rank"}
	for i, name := range groups {
		if p.settings.groups[i] {
			fmt.Fprintf(&b, "  - {name: %s, resource: nvidia.com/gpu, nodePools: {spot: %[1]s-spot, on-demand: %[1]s-on-demand}, "+
				"spotWaitTimeout: 1m, zeroLimit: true}\n", name)
		}
	}
	for i, w := range p.sim.workloads {
		group := ""
		for g, name := range groups {
			if p.settings.groups[g] && name == w.group {
				group = "  capacityGroup: " + name + "\n"
			}
		}
		fmt.Fprintf(&b, policyText, w.name, p.settings.bounds[i].min, p.settings.bounds[i].max, group, queuePerReplica)
	}
	if p.settings.broken {
		return strings.Replace(b.String(), "minReplicas: ", "minReplicas: x", 1)
	}
	return b.String()
}

// edit changes the settings and saves the files.
func (p *people) edit(change func(*settings)) {
	change(&p.settings)
	p.editions = append(p.editions, edition{at: p.sim.now, text: p.text(), settings: p.settings})
}

// editionAt returns the index of the edition that a volume contains whose content is of the given time.
func (p *people) editionAt(t time.Time) int {
	for i := len(p.editions) - 1; i > 0; i-- {
		if !p.editions[i].at.After(t) {
			return i
		}
	}
	return 0
}
