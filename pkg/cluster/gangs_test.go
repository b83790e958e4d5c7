package cluster

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// gang describes how a framework for batch jobs creates the pods of a gang (pods that start only together): their metadata, and fields to
// add to their spec.
type gang struct{ metadata, spec string }

// gangs are the frameworks, by name, with the labels and the controller that each framework sets on its pods.
var gangs = map[string]gang{
	"JobSet": {`labels: {jobset.sigs.k8s.io/jobset-name: train, jobset.sigs.k8s.io/job-index: "0", batch.kubernetes.io/job-name: train-w-0}
  ownerReferences: [{apiVersion: batch/v1, kind: Job, name: train-w-0, uid: u1, controller: true}]`, ""},
	"PyTorchJob": {`labels: {training.kubeflow.org/job-name: train, training.kubeflow.org/replica-type: worker}
  ownerReferences: [{apiVersion: kubeflow.org/v1, kind: PyTorchJob, name: train, uid: u1, controller: true}]`, ""},
	"Volcano PodGroup": {`labels: {volcano.sh/job-name: train}
  annotations: {scheduling.k8s.io/group-name: train-1}
  ownerReferences: [{apiVersion: batch.volcano.sh/v1alpha1, kind: Job, name: train, uid: u1, controller: true}]`, "schedulerName: volcano"},
	"RayJob": {`labels: {ray.io/cluster: train, ray.io/group: gpu, ray.io/node-type: worker}
  ownerReferences: [{apiVersion: ray.io/v1, kind: RayCluster, name: train, uid: u1, controller: true}]`, ""},
	"Kueue, admitted": {`labels: {kueue.x-k8s.io/pod-group-name: train, kueue.x-k8s.io/managed: "true"}`, ""},
}

// kueueGate is the scheduling gate of a pod that Kueue has not admitted.
const kueueGate = "schedulingGates: [{name: kueue.x-k8s.io/admission}]"

// pods returns the manifests of four pods of the gang. Pod i runs on nodes[i]. Pods without an element in nodes are pending.
func (g gang) pods(nodes ...string) (manifests []string) {
	for i := range 4 {
		node := ""
		if i < len(nodes) {
			node = nodes[i]
		}
		text := gpuPodOn(fmt.Sprintf("train-%d", i), node, "x")
		before, after, _ := strings.Cut(text, "  labels: {app: x}")
		_, after, _ = strings.Cut(after, "\nspec:")
		text = before + "  " + g.metadata + "\nspec:" + after
		if g.spec != "" {
			text = strings.Replace(text, "\nspec:", "\nspec:\n  "+g.spec, 1)
		}
		manifests = append(manifests, text)
	}
	return manifests
}

// decideGang runs ticks for twenty simulated minutes for a group with zero limits and consolidation freezes, while no policy needs a
// replica. It returns the last decision and the actions of all ticks.
func decideGang(t *testing.T, objects ...string) (last capacity.Decision, actions []string) {
	t.Helper()
	g := spotAndOnDemand(t)
	g.ZeroLimit, g.ConsolidationFreeze = true, true
	last = decideTicks(t, clusterWithPools(t, objects...), g, nil, &actions)
	return last, actions
}

// decideTicks runs ticks for twenty simulated minutes, in which the target of each workload is 1. It returns the last decision and appends
// the actions of each tick to actions.
func decideTicks(t *testing.T, c *Cluster, g *capacity.Group, members []*scaling.Workload, actions *[]string) (last capacity.Decision) {
	t.Helper()
	state := capacity.State{}
	now := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	for range 20 * 60 {
		o := capacity.Observation{Workloads: make([]capacity.Workload, len(members))}
		for i := range o.Workloads {
			o.Workloads[i] = capacity.Workload{Key: members[i].Key.String(), Known: true, Uncapped: 1}
		}
		c.nodes.Observe(g, members, &o)
		last, state = capacity.Decide(g, o, state, now)
		for _, a := range last.Actions {
			if actions != nil {
				*actions = append(*actions, fmt.Sprintf("%+v", a))
			}
		}
		now = now.Add(time.Second)
	}
	return last
}

// A gang starts only if all its pods get nodes. The demand is therefore the sum of its running and waiting pods. While a pod of the gang
// runs, gpuscaler must not change a limit, a weight or a disruption setting of a NodePool, because Karpenter could then remove a node of
// the gang.
func TestGangIsDemandWithAllItsPods(t *testing.T) {
	nodes := []string{
		claim("s1", "l40s-spot", "spot", "n1"), readyNode("n1"), claim("o1", "l40s-od", "on-demand", "n2"), readyNode("n2"),
	}
	for name, g := range gangs {
		for state, c := range map[string]struct {
			pods    []string
			pending int64
		}{
			"all wait":                      {g.pods(), 4},
			"on spot and on-demand, 2 wait": {g.pods("n1", "n2"), 2},
		} {
			d, actions := decideGang(t, append(slices.Clone(nodes), c.pods...)...)
			// c.pending is only an upper bound, because a pod does not wait for a new node if it fits on an idle node of the group
			if d.Demand.UnmanagedPods != 4 || d.Demand.Unknown || d.Demand.Pending > c.pending {
				t.Errorf("%s, %s: demand %+v, want all 4 GPUs and at most %d pending", name, state, d.Demand, c.pending)
			}
			if len(actions) > 0 {
				t.Errorf("%s, %s: actions %v", name, state, actions)
			}
		}
	}
}

// Before Kueue admits a gang, its pods have a scheduling gate, and no node is launched for them. They must not count as demand, and the
// zero limit must stay. Kueue admits the whole gang at once. From then on, all its pods are demand, and the zero limit must be removed.
func TestGangIsDemandOnceKueueAdmitsIt(t *testing.T) {
	admitted := gangs["Kueue, admitted"]
	gated := gang{admitted.metadata, kueueGate}
	d, actions := decideGang(t, gated.pods()...)
	if d.Demand.Total() != 0 || len(actions) == 0 || !strings.Contains(actions[0], "limits") {
		t.Errorf("gated: demand %+v, actions %v; want none, and the zero limit", d.Demand, actions)
	}
	if d, actions = decideGang(t, admitted.pods()...); d.Demand.UnmanagedPods != 4 || d.Demand.Pending != 4 || len(actions) > 0 {
		t.Errorf("admitted: demand %+v, actions %v; want 4 pending GPUs and no zero limit", d.Demand, actions)
	}
}

// Kueue removes the scheduling gates of an admitted gang one after another. When the first gate is removed, all pods of the gang are
// demand, but only pods without a gate wait for nodes.
func TestPodsWithAGateAreDemandOnceAPodOfTheirGangHasNone(t *testing.T) {
	admitted := gangs["Kueue, admitted"]
	gated := gang{admitted.metadata, kueueGate}
	d, actions := decideGang(t, append(admitted.pods()[:1], gated.pods()[1:]...)...)
	if d.Demand.UnmanagedPods != 4 || d.Demand.Pending != 1 || len(actions) > 0 {
		t.Errorf("demand %+v, actions %v; want 4 GPUs, 1 pending, and no zero limit", d.Demand, actions)
	}
	if text := findingTexts(t, d); !strings.Contains(text, "team/train-1 and 2 more have no node and wait for something other than a node") {
		t.Errorf("findings %q", text)
	}
	other := strings.NewReplacer("namespace: team", "namespace: other").Replace(admitted.pods()[0])
	if d, _ := decideGang(t, append(gated.pods()[1:], other)...); d.Demand.UnmanagedPods != 1 {
		t.Errorf("a gang with the same name in another namespace: demand %+v, want the 1 GPU of that gang", d.Demand)
	}
}

// Each pod of a Kueue gang has an annotation with the number of pods of the gang. Pods that do not exist yet are demand. Pods without GPUs
// count as existing pods. If all existing pods have nodes, the missing pods count as finished pods. An impossible number must be reported
// and must not change the demand.
func TestMissingPodsOfAGangAreDemand(t *testing.T) {
	const labels = `labels: {kueue.x-k8s.io/pod-group-name: train}`
	sized := func(size string) gang {
		return gang{labels + "\n  annotations: {kueue.x-k8s.io/pod-group-total-count: " + size + "}", ""}
	}
	nodes := []string{claim("s1", "l40s-spot", "spot", "n1"), readyNode("n1"), claim("s2", "l40s-spot", "spot", "n2"), readyNode("n2")}
	launcher := strings.Replace(sized(`"4"`).pods("n1")[3], `limits: {nvidia.com/gpu: "1"}`, `requests: {cpu: "1"}`, 1)
	for name, c := range map[string]struct {
		pods   []string
		demand int64
		wrong  bool
	}{
		"two of four exist":            {sized(`"4"`).pods("n1")[:2], 4, false},
		"one runs, the others ended":   {sized(`"4"`).pods("n1")[:1], 1, false},
		"all exist":                    {sized(`"4"`).pods("n1", "n2"), 4, false},
		"one more than all":            {sized(`"3"`).pods("n1", "n2"), 4, false},
		"one is a launcher":            {append(sized(`"4"`).pods("n1")[:2], launcher), 3, false},
		"65536 pods":                   {sized(`"65536"`).pods("n1", "n2"), 65536, false},
		"0 pods":                       {sized(`"0"`).pods("n1", "n2"), 4, true},
		"-8 pods":                      {sized(`"-8"`).pods("n1", "n2"), 4, true},
		"10^9 pods":                    {sized(`"1000000000"`).pods("n1", "n2"), 4, true},
		"10^30 pods":                   {sized(`"1000000000000000000000000000000"`).pods("n1", "n2"), 4, true},
		"a text":                       {sized(`many`).pods("n1", "n2"), 4, true},
		"a size without a group":       {gang{strings.Replace(sized(`"9"`).metadata, "group-name", "x", 1), ""}.pods("n1"), 4, false},
		"an annotation without a text": {sized(`""`).pods("n1", "n2"), 4, false},
	} {
		d, _ := decideGang(t, append(slices.Clone(nodes), c.pods...)...)
		if d.Demand.UnmanagedPods != c.demand || d.Demand.Unknown {
			t.Errorf("%s: demand %+v, want %d GPUs", name, d.Demand, c.demand)
		}
		if text := findingTexts(t, d); strings.Contains(text, "kueue.x-k8s.io/pod-group-total-count is not a number") != c.wrong {
			t.Errorf("%s: findings %q", name, text)
		}
	}
}

// A pod can wait for admission by Kueue. Volcano can also report that a pod waits because other pods of its gang have no space. In both
// cases, no autoscaler launches nodes for the pod. Even if it waits for hours, the group must not fall back from spot to on-demand.
func TestPodsThatWaitForAdmissionDoNotWaitForNodes(t *testing.T) {
	const condition = `{conditions: [{type: PodScheduled, status: "False", reason: `
	state := func(pod, reason string) string {
		before, _, _ := strings.Cut(pod, "status: {conditions")
		return before + "status: " + condition + reason + "}]}"
	}
	volcano := gangs["Volcano PodGroup"].pods()[0]
	replica := gpuPodOn("chat-1", "", "chat")
	for name, c := range map[string]struct {
		pod     string
		pending int64
	}{
		"Volcano: the pod has space":             {state(volcano, "Schedulable"), 0},
		"Volcano: the pod was not considered":    {state(volcano, "Undetermined"), 0},
		"Volcano: the pod has no space":          {state(volcano, "Unschedulable"), 1},
		"a replica that Kueue has not admitted":  {strings.Replace(replica, "\nspec:", "\nspec:\n  "+kueueGate, 1), 0},
		"a replica without space":                {state(replica, "Unschedulable"), 1},
		"a replica that no scheduler considered": {replica, 1},
	} {
		g := spotAndOnDemand(t)
		g.SpotWaitTimeout = 5 * time.Minute
		c0 := clusterWithPools(t, chatDeployment, c.pod)
		last := decideTicks(t, c0, g, []*scaling.Workload{chatWorkload()}, nil)
		if last.Demand.Pending != c.pending || (last.Phase.String() == "prefer spot") != (c.pending == 0) {
			t.Errorf("%s: demand %+v in the phase %q, want %d pending", name, last.Demand, last.Phase, c.pending)
		}
	}
}

// findingTexts returns the texts of the findings of a decision.
func findingTexts(t *testing.T, d capacity.Decision) (text string) {
	t.Helper()
	for _, f := range d.Findings {
		text += f.Text(spotAndOnDemand(t).Names()) + "\n"
	}
	return text
}
