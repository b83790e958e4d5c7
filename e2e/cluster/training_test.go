package cluster

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/karpenter/pkg/apis"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/gpuscaler/gpuscaler/e2e/definitions"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/cluster"
)

// training is a capacity group with zero limits and consolidation freezes, whose NodePool is in the real API server. Karpenter does not
// run, so the test adds the nodes. The ticks of the group use a virtual clock.
type training struct {
	cluster   *cluster.Cluster
	group     *capacity.Group
	state     capacity.State
	now       time.Time
	namespace string
	pool      string
}

type fixedGroups []*capacity.Group

func (f fixedGroups) Groups() []*capacity.Group { return f }

// ownLimit is the GPU limit that the NodePool's owner has set.
const ownLimit = "64"

func newTraining(t *testing.T, name string) *training {
	t.Helper()
	definitions.Install(t, shared.Client, apis.CRDs...)
	tr := &training{namespace: namespace(t, name), pool: name, now: time.Now()}
	p := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"gpuscaler.io/nudge": "limits,disruption"}}}
	p.Spec.Template.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: "karpenter.kwok.sh", Kind: "KWOKNodeClass", Name: "default"}
	p.Spec.Template.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{{Key: karpv1.CapacityTypeLabelKey,
		Operator: corev1.NodeSelectorOpIn, Values: []string{karpv1.CapacityTypeSpot}}}
	p.Spec.Template.Spec.Taints = []corev1.Taint{tr.taint()}
	p.Spec.Limits = karpv1.Limits{stack.GPU: resource.MustParse(ownLimit)}
	p.Spec.Disruption.ConsolidateAfter = karpv1.MustParseNillableDuration("30s")
	create(t, p)
	var err error
	tr.group, err = capacity.NewGroup(capacity.Group{Name: name, Resource: string(stack.GPU), ZeroLimit: true, ConsolidationFreeze: true,
		Pools: []capacity.Pool{{Name: name, Type: capacity.Spot}}})
	if err != nil {
		t.Fatal(err)
	}
	tr.cluster = start(t, cluster.Options{Groups: fixedGroups{tr.group}, Release: home + "/gpuscaler"}, nil)
	t.Cleanup(func() {
		err := shared.Client.DeleteAllOf(context.Background(), &corev1.Pod{}, client.InNamespace(name), client.GracePeriodSeconds(0))
		for _, o := range []client.Object{&corev1.Node{}, &karpv1.NodeClaim{}, &karpv1.NodePool{}} {
			o.SetName(name)
			err = errors.Join(err, client.IgnoreNotFound(shared.Client.Delete(context.Background(), o)))
		}
		if err != nil {
			t.Error(err)
		}
	})
	return tr
}

// taint returns a taint that prevents the pods of other tests from running on the node.
func (tr *training) taint() corev1.Taint {
	return corev1.Taint{Key: "training", Value: tr.pool, Effect: corev1.TaintEffectNoSchedule}
}

// pod returns a pod that requests one GPU on a node of the NodePool.
func (tr *training) pod(name string, edit func(p *corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: tr.namespace, Name: name}, Spec: gpuPod()}
	p.Spec.NodeSelector = map[string]string{karpv1.NodePoolLabelKey: tr.pool}
	p.Spec.Tolerations = []corev1.Toleration{{Key: "training", Operator: corev1.TolerationOpExists}}
	edit(p)
	return p
}

// node adds a node with its NodeClaim, as Karpenter does.
func (tr *training) node(t *testing.T, gpus int64) {
	t.Helper()
	labels := map[string]string{karpv1.NodePoolLabelKey: tr.pool, karpv1.CapacityTypeLabelKey: karpv1.CapacityTypeSpot}
	resources := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("64"), corev1.ResourceMemory: resource.MustParse("512Gi"),
		corev1.ResourcePods: resource.MustParse("110"), stack.GPU: *resource.NewQuantity(gpus, resource.DecimalSI)}
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: tr.pool, Labels: labels}, Spec: karpv1.NodeClaimSpec{
		NodeClassRef: &karpv1.NodeClassReference{Group: "karpenter.kwok.sh", Kind: "KWOKNodeClass", Name: "default"},
		Requirements: []karpv1.NodeSelectorRequirementWithMinValues{{Key: karpv1.CapacityTypeLabelKey, Operator: corev1.NodeSelectorOpIn,
			Values: []string{karpv1.CapacityTypeSpot}}},
		Resources: karpv1.ResourceRequirements{Requests: corev1.ResourceList{stack.GPU: resources[stack.GPU]}},
	}}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: tr.pool, Labels: labels, Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"}},
		Spec:       corev1.NodeSpec{Taints: []corev1.Taint{tr.taint()}},
		Status:     corev1.NodeStatus{Capacity: resources, Allocatable: resources},
	}
	node.Labels["type"] = "kwok"
	create(t, claim, node)
	claim.Status.NodeName, claim.Status.ProviderID = tr.pool, "kwok://"+tr.pool
	for _, kind := range []string{karpv1.ConditionTypeLaunched, karpv1.ConditionTypeRegistered, karpv1.ConditionTypeInitialized} {
		claim.StatusConditions().SetTrue(kind)
	}
	if err := shared.Client.Status().Update(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
}

// tick runs one decision of the capacity group and stores it in d.
func (tr *training) tick(d *capacity.Decision) {
	var o capacity.Observation
	tr.cluster.Nodes().Observe(tr.group, nil, &o)
	tr.state.Decide(tr.group, &o, tr.now, d)
	tr.now = tr.now.Add(time.Second)
}

// eventually runs ticks and writes their actions until the demand, the pending GPUs and the limit of the NodePool have the given values.
func (tr *training) eventually(t *testing.T, what string, demand, pending int64, limit string) {
	t.Helper()
	var d capacity.Decision
	stack.Eventually(t, time.Minute, what, func(ctx context.Context) error {
		for range 30 {
			tr.tick(&d)
			<-tr.cluster.Nodes().Act(tr.group, d.Actions)
		}
		if d.Demand.Unknown || d.Demand.UnmanagedPods != demand || d.Demand.Pending != pending {
			return fmt.Errorf("demand %+v, want %d GPUs, %d of them pending", d.Demand, demand, pending)
		}
		var p karpv1.NodePool
		if err := shared.Client.Get(ctx, client.ObjectKey{Name: tr.pool}, &p); err != nil {
			return err
		}
		if is := p.Spec.Limits[stack.GPU]; is.String() != limit {
			return fmt.Errorf("limit %s, want %s", is.String(), limit)
		}
		return nil
	})
}

// untouched runs ticks for twenty minutes of the virtual clock and fails the test if one of the ticks has an action. It returns the last
// decision.
func (tr *training) untouched(t *testing.T) (d capacity.Decision) {
	t.Helper()
	for range 20 * 60 {
		if tr.tick(&d); len(d.Actions) > 0 {
			t.Fatalf("%+v is written although a pod of the gang runs", d.Actions)
		}
	}
	return d
}
