package policies

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gpuscaler/gpuscaler/cmd/gpuscaler/commandline/commandtest"
)

// fleetPlatform returns a PlatformConfig with the capacity group chat, whose nodes have the label accelerator=l40s.
func fleetPlatform(t *testing.T, more string) string {
	return commandtest.File(t, "platform.yaml", `apiVersion: gpuscaler.io/v1alpha1
kind: PlatformConfig
metadata: {name: prod}
spec:
  capacityGroups: [{name: chat, resource: nvidia.com/gpu, nodeSelector: {accelerator: l40s}`+more+`}]
`)
}

// node returns a Node with GPUs. labels and spec are inline YAML.
func node(name, gpus, labels, spec string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: Node\nmetadata: {name: %s, labels: {%s}}\nspec: {%s}\n"+
		"status: {allocatable: {nvidia.com/gpu: %q}}\n---\n", name, labels, spec, gpus)
}

// deployment returns the Deployment llama. Its pods request GPUs; spec is inline YAML of the pod template's spec.
func deployment(gpus, spec string) string {
	return `apiVersion: apps/v1
kind: Deployment
metadata: {name: llama, namespace: team-chat}
spec: {template: {spec: {containers: [{name: server, resources: {limits: {nvidia.com/gpu: "` + gpus + `"}}}]` + spec + `}}}
`
}

// Lint must report a capacity group whose labeled nodes cannot run the pods of its workloads, although no pod is pending. It must print the
// command that corrects the configuration. In a cluster without Karpenter, no finding may mention Karpenter.
func TestLintReportsGroupsOfLabeledNodesThatCannotWork(t *testing.T) {
	const onGroup, label = ", nodeSelector: {accelerator: l40s}", "accelerator: l40s"
	two := node("gpu-0", "4", label, "") + node("gpu-1", "4", label, "")
	tainted := node("gpu-0", "4", label, "taints: [{key: gpu, value: chat, effect: NoSchedule}]")
	minimum := func(n string) string {
		return strings.Replace(llamaPolicy, "maxReplicas: 9", "minReplicas: "+n+"\n  maxReplicas: 9", 1)
	}
	scheduled := llamaPolicy + `  schedules: [{name: peak, timezone: UTC, start: "0 9 * * 1", end: "0 10 * * 1", minReplicas: 5}]
`
	embed := strings.ReplaceAll(minimum("2"), "llama", "embed")
	for _, c := range []struct {
		name, group, objects, policies string
		check, text                    string // name of the check and text of the finding; empty: no finding
	}{
		{"nodes that suffice", "", two + deployment("2", onGroup), minimum("4"), "", ""},
		{"no Node was read", "", deployment("2", onGroup), minimum("4"), "", ""},
		{"no node has the labels", "", node("gpu-0", "4", "accelerator: L40S", "") + deployment("2", onGroup), llamaPolicy,
			"NodeGroupWithoutNodes", "no node has the labels accelerator=l40s; other nodes have accelerator=L40S"},
		{"how to label nodes", "", node("gpu-0", "4", "", "") + deployment("2", onGroup), llamaPolicy, "NodeGroupWithoutNodes",
			"`kubectl label nodes NODE accelerator=l40s`"},
		{"an autoscaler adds the first node", ", maxNodes: 3", node("cpu", "0", "", "") + deployment("2", onGroup), minimum("4"), "", ""},
		{"more nodes than the maximum", ", maxNodes: 1", two + deployment("2", onGroup), llamaPolicy, "NodeGroupAboveMaximum",
			"2 nodes have the labels accelerator=l40s, and maxNodes is 1"},
		{"the nodes do not suffice", "", two + deployment("2", onGroup), minimum("5"), "NodeGroupTooSmall",
			"minReplicas 5 needs 10 nvidia.com/gpu, and the nodes of capacity group chat may have 8"},
		{"how many nodes suffice", "", two + deployment("2", onGroup), minimum("5"), "NodeGroupTooSmall", "add nodes to a total of 3"},
		{"the nodes of a schedule do not suffice", "", two + deployment("2", onGroup), scheduled, "NodeGroupTooSmall",
			"minReplicas of schedule peak 5 needs 10 nvidia.com/gpu"},
		{"with another policy they do not suffice", "", two + deployment("2", onGroup) + "---\n" + strings.ReplaceAll(deployment("1", onGroup),
			"llama", "embed"), minimum("4") + "---\n" + embed, "NodeGroupTooSmall",
			"minReplicas 4 needs 8 nvidia.com/gpu, minReplicas of other policies need 2, and"},
		{"the maximum does not suffice", ", maxNodes: 2", two + deployment("2", onGroup), minimum("5"), "NodeGroupTooSmall",
			"set the maximum of the autoscaler to at least 3 nodes, and set maxNodes to at least 3"},
		{"the maximum suffices", ", maxNodes: 3", two + deployment("2", onGroup), minimum("5"), "", ""},
		{"maxCapacity does not suffice", ", maxNodes: 9, maxCapacity: 8", two + deployment("2", onGroup), minimum("5"), "NodeGroupTooSmall",
			"set maxCapacity to at least 10"},
		{"a pod larger than a node", "", two + deployment("8", onGroup), llamaPolicy, "PodLargerThanNode",
			"a pod of Deployment llama requests 8 nvidia.com/gpu, and the largest node of capacity group chat has 4"},
		{"a taint", "", tainted + deployment("2", onGroup), llamaPolicy, "PodCannotUseNodeGroup",
			"they do not tolerate the taint gpu=chat:NoSchedule"},
		{"how to tolerate it", "", tainted + deployment("2", onGroup), llamaPolicy, "PodCannotUseNodeGroup",
			`kubectl -n team-chat patch deployment llama --type json -p '[{"op":"add","path":"/spec/template/spec/tolerations","value":` +
				`[{"key":"gpu","operator":"Equal","value":"chat","effect":"NoSchedule"}]}]'`},
		{"beside another toleration", "", tainted + deployment("2", onGroup+", tolerations: [{key: x, operator: Exists}]"), llamaPolicy,
			"PodCannotUseNodeGroup", `"path":"/spec/template/spec/tolerations/-"`},
		{"a tolerated taint", "", tainted + deployment("2", onGroup+", tolerations: [{key: gpu, operator: Exists}]"), llamaPolicy, "", ""},
		{"a cordoned node", "", node("gpu-0", "4", label, "taints: [{key: node.kubernetes.io/unschedulable, effect: NoSchedule}]") +
			deployment("2", onGroup), llamaPolicy, "", ""},
		{"other nodes are selected", "", two + deployment("2", ", nodeSelector: {accelerator: a100}"), llamaPolicy, "PodCannotUseNodeGroup",
			`kubectl -n team-chat patch deployment llama -p '{"spec":{"template":{"spec":{"nodeSelector":{"accelerator":"l40s"}}}}}'`},
		{"other nodes are selected, and the group has none yet", ", maxNodes: 3", node("cpu", "0", "", "") +
			deployment("2", ", nodeSelector: {accelerator: a100}"), llamaPolicy, "PodCannotUseNodeGroup",
			"they require the label accelerator=a100, and the nodes have accelerator=l40s"},
		{"a label that the nodes do not have", "", two + deployment("2", ", nodeSelector: {accelerator: l40s, disk: nvme}"), llamaPolicy,
			"PodCannotUseNodeGroup", "`kubectl label nodes -l accelerator=l40s disk=nvme` if the nodes have this property"},
		{"an affinity", "", two + deployment("2", onGroup+", affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: "+
			"{nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: In, values: [b]}]}]}}}"), llamaPolicy, "PodCannotUseNodeGroup",
			"their required node affinity matches none of them"},
		{"also other nodes", "", two + node("a100-0", "8", "accelerator: a100", "") + deployment("2", ""), llamaPolicy, "PodCanUseOtherNodes",
			"the pods of Deployment llama can also run on nodes outside capacity group chat: on 1 now"},
		{"other nodes without GPUs", "", two + node("cpu", "0", "", "") + deployment("2", ""), llamaPolicy, "", ""},
		{"a partition of a GPU", "", two + strings.Replace(deployment("2", onGroup), "nvidia.com/gpu", "nvidia.com/mig-1g.10gb", 1), llamaPolicy,
			"", ""},
		{"no pod template", "", two, minimum("4"), "", ""},
	} {
		text, _ := runLint(t, "--offline", "--objects", commandtest.File(t, "objects.yaml", c.objects), fleetPlatform(t, c.group),
			commandtest.File(t, "policies.yaml", c.policies))
		if !strings.Contains(text, c.check) || !strings.Contains(text, c.text) {
			t.Errorf("%s: want %s: %q\n%s", c.name, c.check, c.text, text)
		}
		if c.check == "" && !strings.Contains(text, "nothing found") || strings.Contains(text, "Karpenter") {
			t.Errorf("%s: there are other findings\n%s", c.name, text)
		}
	}
}
