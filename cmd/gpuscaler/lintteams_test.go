package main

import (
	"strings"
	"testing"
)

// The test's team has a limit below the sum of its workloads' minReplicas times the requests of their pod templates. The pod templates are
// read from the files of --objects.
func TestLintReportsMinReplicasAboveTheLimitOfATeam(t *testing.T) {
	platform := written(t, "platform.yaml", `apiVersion: gpuscaler.io/v1alpha1
kind: PlatformConfig
metadata: {name: prod}
spec:
  teams: [{name: chat, namespaces: [team-chat], limits: {nvidia.com/gpu: 16}}]
`)
	policies := written(t, "policies.yaml", `apiVersion: gpuscaler.io/v1alpha1
kind: ScalingPolicy
metadata: {name: llama, namespace: team-chat}
spec: {scaleTargetRef: {name: llama}, minReplicas: 2, maxReplicas: 9, signals: [{name: queue, type: vllm, target: 10}]}
---
apiVersion: gpuscaler.io/v1alpha1
kind: ScalingPolicy
metadata: {name: batch, namespace: team-chat}
spec: {scaleTargetRef: {kind: StatefulSet, name: batch}, minReplicas: 1, maxReplicas: 9, signals: [{name: queue, type: vllm, target: 10}]}
`)
	objects := func(gpus string) string {
		return written(t, "objects.yaml", `apiVersion: apps/v1
kind: Deployment
metadata: {name: llama, namespace: team-chat}
spec: {template: {spec: {containers: [{name: server, resources: {limits: {nvidia.com/gpu: "`+gpus+`"}}}]}}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: batch, namespace: team-chat}
spec: {template: {spec: {containers: [{name: server, resources: {limits: {nvidia.com/gpu: "1"}}}]}}}
`)
	}
	text, err := runLint(t, "--offline", "--objects", objects("8"), platform, policies)
	want := "request 17 nvidia.com/gpu, and the limit is 16: team-chat/batch 1 x 1, team-chat/llama 2 x 8"
	if err != nil || !strings.Contains(text, "MinReplicasAboveTeamLimit") || !strings.Contains(text, want) {
		t.Errorf("want %q\n%v\n%s", want, err, text)
	}
	if text, err := runLint(t, "--offline", "--objects", objects("4"), platform, policies); err != nil || strings.Contains(text, "TeamLimit") {
		t.Errorf("minimums within the limit: %v\n%s", err, text)
	}
}

func TestLintReportsThatKarpenterIgnoresClaims(t *testing.T) {
	platform := written(t, "platform.yaml", `apiVersion: gpuscaler.io/v1alpha1
kind: PlatformConfig
metadata: {name: prod}
spec:
  teams: [{name: chat, namespaces: [team-chat], capacityGroups: [chat]}]
  capacityGroups: [{name: chat, resource: nvidia.com/gpu, nodePools: {spot: l40s-spot}}]
`)
	policies := written(t, "policies.yaml", `apiVersion: gpuscaler.io/v1alpha1
kind: ScalingPolicy
metadata: {name: llama, namespace: team-chat}
spec:
  scaleTargetRef: {name: llama}
  capacityGroup: chat
  maxReplicas: 9
  signals: [{name: queue, type: vllm, target: 10}]
`)
	objects := func(more string) string {
		return written(t, "objects.yaml", `apiVersion: apps/v1
kind: Deployment
metadata: {name: llama, namespace: team-chat}
spec: {template: {spec: {containers: [{name: server}]`+more+`}}}
`)
	}
	claims := ", resourceClaims: [{name: gpus, resourceClaimTemplateName: gpus}]"
	for more, want := range map[string]bool{"": false, claims: true} {
		text, _ := runLint(t, "--offline", "--objects", objects(more), platform, policies) // it also reports the missing NodePools
		if !strings.Contains(text, "NodePoolMissing") || strings.Contains(text, "KarpenterIgnoresClaims") != want {
			t.Errorf("pod template with %q: want the finding: %t\n%s", more, want, text)
		}
	}
}
