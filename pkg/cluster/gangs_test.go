package cluster

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
)

// gang is how a framework creates the pods of a gang: their metadata and the fields of their spec that differ from those of gpuPodOn.
type gang struct{ metadata, spec string }

// gangs are the frameworks, with the labels and controllers that they set on pods.
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

// pods returns the manifests of four pods of the gang. The first ones run on the given nodes, and the others have no node.
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

// decideGang observes a group with zero limits and consolidation freezes, and decides twenty minutes of ticks, in which no policy needs a
// replica. It returns the last decision and every action.
func decideGang(t *testing.T, objects ...string) (last capacity.Decision, actions []string) {
	t.Helper()
	g := spotAndOnDemand(t)
	g.ZeroLimit, g.ConsolidationFreeze = true, true
	c := clusterWithPools(t, objects...)
	state := capacity.State{}
	now := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	for range 20 * 60 {
		o := capacity.Observation{}
		c.nodes.Observe(g, nil, &o)
		last, state = capacity.Decide(g, o, state, now)
		for _, a := range last.Actions {
			actions = append(actions, fmt.Sprintf("%+v", a))
		}
		now = now.Add(time.Second)
	}
	return last, actions
}

// A gang starts only if all of its pods get nodes, so the pods that wait are demand together with those that run. While one of them runs,
// no limit, weight or disruption setting of a NodePool is changed, so that gpuscaler is no reason for a node of the gang to be removed.
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
			// a pod that fits on an idle node of the group does not wait for a new one
			if d.Demand.UnmanagedPods != 4 || d.Demand.Unknown || d.Demand.Pending > c.pending {
				t.Errorf("%s, %s: demand %+v, want all 4 GPUs and at most %d pending", name, state, d.Demand, c.pending)
			}
			if len(actions) > 0 {
				t.Errorf("%s, %s: actions %v", name, state, actions)
			}
		}
	}
}

// The pods of a gang that Kueue has not admitted have a scheduling gate, so no node is launched for them: they are no demand, and the zero
// limit stays. Kueue admits the gang as a whole. All its pods are then demand, and the zero limit is not set.
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
