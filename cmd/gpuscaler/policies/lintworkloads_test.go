package policies

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/gpuscaler/gpuscaler/cmd/gpuscaler/commandline"
	"github.com/gpuscaler/gpuscaler/cmd/gpuscaler/commandline/commandtest"
	"github.com/gpuscaler/gpuscaler/pkg/policy/store"
)

// llamaPolicy is a policy in the capacity group chat.
const llamaPolicy = `apiVersion: gpuscaler.io/v1alpha1
kind: ScalingPolicy
metadata: {name: llama, namespace: team-chat}
spec:
  scaleTargetRef: {name: llama}
  capacityGroup: chat
  maxReplicas: 9
  signals: [{name: queue, type: vllm, target: 10}]
`

// The team's GPU limit is lower than the number of GPUs that its workloads request at minReplicas, so lint must report the limit. A
// workload requests minReplicas times the GPUs in its pod template, which lint reads from the files of --objects.
func TestLintReportsMinReplicasAboveTheLimitOfATeam(t *testing.T) {
	platform := commandtest.File(t, "platform.yaml", `apiVersion: gpuscaler.io/v1alpha1
kind: PlatformConfig
metadata: {name: prod}
spec:
  teams: [{name: chat, namespaces: [team-chat], limits: {nvidia.com/gpu: 16}}]
`)
	policies := commandtest.File(t, "policies.yaml", `apiVersion: gpuscaler.io/v1alpha1
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
		return commandtest.File(t, "objects.yaml", `apiVersion: apps/v1
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
	platform := commandtest.File(t, "platform.yaml", `apiVersion: gpuscaler.io/v1alpha1
kind: PlatformConfig
metadata: {name: prod}
spec:
  teams: [{name: chat, namespaces: [team-chat], capacityGroups: [chat]}]
  capacityGroups: [{name: chat, resource: nvidia.com/gpu, nodePools: {spot: l40s-spot}}]
`)
	policies := commandtest.File(t, "policies.yaml", llamaPolicy)
	objects := func(more string) string {
		return commandtest.File(t, "objects.yaml", `apiVersion: apps/v1
kind: Deployment
metadata: {name: llama, namespace: team-chat}
spec: {template: {spec: {containers: [{name: server}]`+more+`}}}
`)
	}
	claims := ", resourceClaims: [{name: gpus, resourceClaimTemplateName: gpus}]"
	for more, want := range map[string]bool{"": false, claims: true} {
		text, _ := runLint(t, "--offline", "--objects", objects(more), platform, policies)
		if strings.Contains(text, "NodePoolMissing") || !strings.Contains(text, "not checked: the files of --objects contain none") ||
			strings.Contains(text, "KarpenterIgnoresClaims") != want {
			t.Errorf("pod template with %q: want the finding: %t\n%s", more, want, text)
		}
	}
}

// If a file contains at least one NodePool, lint assumes that it contains all NodePools. It must report a NodePool of a capacity group that
// is not in the file.
func TestLintReportsNodePoolsThatFilesDoNotContain(t *testing.T) {
	platform := commandtest.File(t, "platform.yaml", `apiVersion: gpuscaler.io/v1alpha1
kind: PlatformConfig
metadata: {name: prod}
spec:
  capacityGroups: [{name: chat, resource: nvidia.com/gpu, nodePools: {spot: l40s-spot, on-demand: l40s-ondemand}}]
`)
	pools := commandtest.File(t, "pools.yaml", `apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: l40s-spot}
spec: {template: {spec: {nodeClassRef: {group: a, kind: B, name: c}, requirements: []}}}
`)
	text, err := runLint(t, platform, "--offline", "--objects", pools)
	if !errors.Is(err, commandline.ErrReported) || !strings.Contains(text, "its on-demand NodePool l40s-ondemand does not exist") ||
		strings.Contains(text, "its spot NodePool l40s-spot does not exist") {
		t.Errorf("%v\n%s", err, text)
	}
}

// A policy whose pods request a MIG partition is reported unless a node of a NodePool has it or a NodeOverlay adds it.
func TestLintReportsPartitionsThatKarpenterDoesNotOffer(t *testing.T) {
	platform := func(resource string) string {
		return commandtest.File(t, "platform.yaml", `apiVersion: gpuscaler.io/v1alpha1
kind: PlatformConfig
metadata: {name: prod}
spec:
  capacityGroups: [{name: chat, resource: `+resource+`, nodePools: {on-demand: a100}}]
`)
	}
	policies := commandtest.File(t, "policies.yaml", llamaPolicy)
	const mig = "nvidia.com/mig-1g.10gb"
	overlay := `---
apiVersion: karpenter.sh/v1alpha1
kind: NodeOverlay
metadata: {name: mig}
spec: {requirements: [], capacity: {` + mig + `: "7"}}
`
	for _, c := range []struct {
		name, counted, requested, status, more string
		reported                               bool
	}{
		{"a whole GPU", "nvidia.com/gpu", "nvidia.com/gpu", "", "", false},
		{"a partition that no node has", mig, mig, "", "", true},
		{"the group counts whole GPUs", "nvidia.com/gpu", mig, "", "", true},
		{"the pod template is not known", mig, "", "", "", true},
		{"a node has it", mig, mig, "status: {resources: {" + mig + `: "7"}}`, "", false},
		{"a NodeOverlay adds it", mig, mig, "", overlay, false},
		{"a share of a GPU", "nvidia.com/gpu.shared", "nvidia.com/gpu.shared", "", overlay, true},
	} {
		objects := `apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: a100}
spec: {template: {spec: {requirements: [], nodeClassRef: {group: karpenter.example, kind: NodeClass, name: default}}}}
` + c.status + "\n" + c.more
		if c.requested != "" {
			objects += `---
apiVersion: apps/v1
kind: Deployment
metadata: {name: llama, namespace: team-chat}
spec: {template: {spec: {containers: [{name: server, resources: {limits: {` + c.requested + `: "1"}}}]}}}
`
		}
		text, _ := runLint(t, "--offline", "--objects", commandtest.File(t, "objects.yaml", objects), platform(c.counted), policies)
		if strings.Contains(text, "ResourceNotOffered") != c.reported {
			t.Errorf("%s: want the finding: %t\n%s", c.name, c.reported, text)
		}
	}
}

// If a Deployment uses all GPUs of its NodePools and starts a new pod before it removes an old one, the rollout never ends: the new pod
// waits for a GPU, and the old pods wait until the new pod is ready.
func TestLintReportsRolloutsThatWouldWaitForGPUs(t *testing.T) {
	platform := commandtest.File(t, "platform.yaml", `apiVersion: gpuscaler.io/v1alpha1
kind: PlatformConfig
metadata: {name: prod}
spec:
  capacityGroups: [{name: chat, resource: nvidia.com/gpu, nodePools: {spot: l40s-spot, on-demand: l40s}}]
`)
	second := `---
apiVersion: gpuscaler.io/v1alpha1
kind: ScalingPolicy
metadata: {name: embed, namespace: team-chat}
spec:
  scaleTargetRef: {name: embed}
  capacityGroup: chat
  minReplicas: 1
  maxReplicas: 2
  signals: [{name: queue, type: vllm, target: 10}]
`
	for _, c := range []struct {
		name, kind, strategy, policies string
		limits                         [2]string // GPU limits of the spot NodePool and of the on-demand NodePool
		reported                       string    // text of the finding; empty: no finding
	}{
		{"the default strategy adds one pod at 3 replicas and removes none", "Deployment", "", llamaPolicy, [2]string{"4", "2"},
			"at 3 replicas, Deployment llama has no room for a rollout: it starts a new pod before it removes an old one, the new pod needs " +
				"2 nvidia.com/gpu, the replicas use 6, and the NodePools of capacity group chat are limited to 6"},
		{"a GPU is left, and a pod needs two", "Deployment", "", llamaPolicy, [2]string{"4", "3"}, "at 3 replicas"},
		{"at 4 replicas it may remove one", "Deployment", "", llamaPolicy, [2]string{"4", "4"}, ""},
		{"it may never remove one", "Deployment", "{rollingUpdate: {maxUnavailable: 0}}", llamaPolicy, [2]string{"8", "8"}, "at 8 replicas"},
		{"it removes one first", "Deployment", "{rollingUpdate: {maxSurge: 0, maxUnavailable: 1}}", llamaPolicy, [2]string{"4", "2"}, ""},
		{"both 0 count as one unavailable", "Deployment", "{rollingUpdate: {maxSurge: 0, maxUnavailable: 0}}", llamaPolicy,
			[2]string{"4", "2"}, ""},
		{"all at once", "Deployment", "{type: Recreate}", llamaPolicy, [2]string{"4", "2"}, ""},
		{"a StatefulSet removes one first", "StatefulSet", "", strings.Replace(llamaPolicy, "{name: llama}\n  capacity",
			"{kind: StatefulSet, name: llama}\n  capacity", 1), [2]string{"4", "2"}, ""},
		{"room above maxReplicas", "Deployment", "{rollingUpdate: {maxUnavailable: 0}}", llamaPolicy, [2]string{"18", "2"}, ""},
		{"room above maxReplicas that another workload always uses", "Deployment", "{rollingUpdate: {maxUnavailable: 0}}", llamaPolicy + second,
			[2]string{"18", "2"}, "the replicas use 18, minReplicas of other workloads use 2, and the NodePools of " +
				"capacity group chat are limited to 20"},
		{"no room for a replica", "Deployment", "", llamaPolicy, [2]string{"0", "1"}, ""},
		{"a NodePool without a limit", "Deployment", "", llamaPolicy, [2]string{"4", ""}, ""},
		{"an invalid strategy", "Deployment", "{rollingUpdate: {maxSurge: a lot}}", llamaPolicy, [2]string{"4", "2"}, ""},
	} {
		objects := ""
		for i, name := range []string{"l40s-spot", "l40s"} {
			limits := ""
			if c.limits[i] != "" {
				limits = `limits: {nvidia.com/gpu: "` + c.limits[i] + `"}, `
			}
			objects += `apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: ` + name + `}
spec: {` + limits + `template: {spec: {requirements: [], nodeClassRef: {group: karpenter.example, kind: NodeClass, name: default}}}}
---
`
		}
		for _, name := range []string{"llama", "embed"} {
			strategy := ""
			if c.strategy != "" {
				strategy = "strategy: " + c.strategy + ", "
			}
			objects += `apiVersion: apps/v1
kind: ` + c.kind + `
metadata: {name: ` + name + `, namespace: team-chat}
spec: {` + strategy + `template: {spec: {containers: [{name: server, resources: {limits: {nvidia.com/gpu: "2"}}}]}}}
---
`
		}
		text, err := runLint(t, "--offline", "--objects", commandtest.File(t, "objects.yaml", objects), platform,
			commandtest.File(t, "policies.yaml", c.policies))
		if got := strings.Contains(text, "RolloutNeedsMoreGPUs"); got != (c.reported != "") || !strings.Contains(text, c.reported) {
			t.Errorf("%s: want %q, %v\n%s", c.name, c.reported, err, text)
		}
	}
}

// The termination grace period of a policy's pods is the value in the pod template, or the API server's default if the template has no
// value. If lint could not read the template, the grace period is unknown.
func TestGracePeriodsAreThoseOfThePodTemplates(t *testing.T) {
	policies := store.New(store.Options{})
	policies.Load(commandtest.File(t, "llama.yaml", strings.Replace(llamaPolicy, "  capacityGroup: chat\n", "", 1)))
	template := func(spec string) string {
		return "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: llama, namespace: team-chat}\nspec: {template: {spec: {" + spec +
			"containers: [{name: c, image: i}]}}}\n"
	}
	for object, want := range map[string]string{"": "<nil>", template(""): "30s", template("terminationGracePeriodSeconds: 600, "): "10m0s",
		template("terminationGracePeriodSeconds: 0, "): "0s"} {
		templates := podTemplates{}
		if object != "" {
			objects, err := commandline.ReadObjects([]string{commandtest.File(t, "objects.yaml", object)})
			if err != nil {
				t.Fatal(err)
			}
			templates.add(objects[0])
		}
		subjects := templates.subjects(policies)
		if len(subjects) != 1 || fmt.Sprint(subjects[0].Ending.Grace) != want || subjects[0].Ending.Workload != "Deployment llama" {
			t.Errorf("%q: %+v, want a grace period of %s", object, subjects, want)
		}
		l := &linted{}
		subjects[0].Ending.Buckets = []string{"vllm:e2e_request_latency_seconds_bucket"}
		if l.unchecked(subjects); (len(l.Facts) == 1) != (want == "<nil>") ||
			len(l.Facts) == 1 && !strings.Contains(l.Facts[0].Value, "not read: Deployment team-chat/llama; give lint the permission") {
			t.Errorf("%q: facts %+v", object, l.Facts)
		}
	}
}
