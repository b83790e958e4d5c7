package karpenter_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/gpuscaler/gpuscaler/e2e/controller"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
	"github.com/gpuscaler/gpuscaler/e2e/workload"
)

// claimDriver is the name of the scripted DRA driver and of its DeviceClass. claimed is the extended resource of the class.
const (
	claimDriver = "gpu.example.com"
	claimed     = "example.com/gpu"
)

// Pods claim GPUs by dynamic resource allocation, on the real API server and scheduler. Karpenter ignores such pods, as it does by
// default. The devices must count as demand of the group, and the zero limit must be removed although Karpenter launches no node. A
// scripted driver then publishes the devices of a node. The scheduler allocates the devices, and a claim that two pods share must count
// once. After the claims are deleted, the zero limit must be set again.
func TestClaimedGPUsAreDemandAndRemoveTheZeroLimit(t *testing.T) {
	t.Parallel()
	const ns = "claims"
	spot := pool{name: "claims-spot", kind: "spot", weight: 80, nudge: allFields, by: clientSide, limit: int64(16)}
	spot.create(t)
	chat(t, ns, nil)
	create := func(o client.Object) {
		t.Helper()
		if err := suite.Client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = suite.Client.Delete(context.Background(), o) })
	}
	create(deviceClass())
	g := start(t, ns, map[string]string{
		"platform.yaml": controller.Platform("capacityGroups:\n- {name: gpu, resource: " + claimed + ", zeroLimit: true, " +
			"nodePools: {spot: claims-spot}}\n"),
		"chat.yaml": chatPolicy(ns),
	})
	g.load(t, map[string]float64{"claims/chat": 0})
	stack.Eventually(t, 40*time.Second, "the NodePool has a zero limit", claimLimit(spot.name, "0"))

	create(&resourcev1.ResourceClaimTemplate{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "gpus"},
		Spec:       resourcev1.ResourceClaimTemplateSpec{Spec: devices(2)},
	})
	template := "gpus"
	own := claiming(ns, "train", 1, corev1.PodResourceClaim{Name: "gpus", ResourceClaimTemplateName: &template})
	workload.Create(t, suite.Client, own)
	g.group(t, 30*time.Second, "the devices of a pending pod are demand", demandOf(2, "--ignore-dra-requests"))
	stack.Eventually(t, 20*time.Second, "the zero limit is removed", claimLimit(spot.name, ""))
	if nodes := suiteNodes(t, ns); len(nodes) != 0 {
		t.Errorf("Karpenter launched %v for a pod that claims devices", nodes)
	}

	g.load(t, map[string]float64{"claims/chat": 1})
	stack.Eventually(t, time.Minute, "a replica without claims gets a node", workload.HasReplicas(suite.Client, ns, "chat", 1))
	nodes := suiteNodes(t, ns)
	if len(nodes) != 1 {
		t.Fatalf("nodes %v, want one", nodes)
	}
	create(sliceOf(nodes[0], 4))
	stack.Eventually(t, time.Minute, "the scheduler allocates devices to the pod", workload.HasReplicas(suite.Client, ns, "train", 1))
	g.group(t, 30*time.Second, "the demand is known", demandOf(2, ""))

	create(&resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "shared"}, Spec: devices(2)})
	shared := "shared"
	pair := claiming(ns, "pair", 2, corev1.PodResourceClaim{Name: "gpus", ResourceClaimName: &shared})
	workload.Create(t, suite.Client, pair)
	stack.Eventually(t, time.Minute, "two pods share a claim", workload.HasReplicas(suite.Client, ns, "pair", 2))
	g.group(t, 30*time.Second, "the shared claim counts once", demandOf(4, ""))

	for _, d := range []client.Object{own, pair} {
		if err := suite.Client.Delete(t.Context(), d, client.PropagationPolicy(metav1.DeletePropagationForeground)); err != nil {
			t.Fatal(err)
		}
	}
	g.group(t, time.Minute, "no claim is demand", demandOf(0, ""))
	stack.Eventually(t, time.Minute, "the zero limit is set again", claimLimit(spot.name, "0"))
}

// demandOf returns a check that the demand of a group is n, and that the group has a finding with the given text. If the text is empty,
// the group must have no finding about claims.
func demandOf(n int64, finding string) func(fastGroup) error {
	return func(s fastGroup) error {
		all := strings.Join(s.Findings, "\n")
		switch {
		case s.Demand != n:
			return fmt.Errorf("demand %d, want %d", s.Demand, n)
		case finding != "" && !strings.Contains(all, finding):
			return errors.New("no finding about claims")
		case finding == "" && strings.Contains(all, "resourceClaims"):
			return errors.New("a finding about claims: " + all)
		}
		return nil
	}
}

// claimLimit returns a check of a NodePool's limit for the extended resource; "" means that the NodePool must have no limit.
func claimLimit(name, want string) func(context.Context) error {
	return func(ctx context.Context) error {
		var p karpv1.NodePool
		if err := suite.Client.Get(ctx, client.ObjectKey{Name: name}, &p); err != nil {
			return err
		}
		limit, set := p.Spec.Limits[claimed]
		if got := limit.String(); set != (want != "") || set && got != want {
			return fmt.Errorf("limit %s (set: %t), want %q", got, set, want)
		}
		return nil
	}
}

func suiteNodes(t *testing.T, of string) (names []string) {
	t.Helper()
	var list corev1.NodeList
	if err := suite.Client.List(t.Context(), &list, client.MatchingLabels{"suite": of}); err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return names
}

// claiming returns a Deployment whose pods claim devices and request no other GPU.
func claiming(namespace, name string, replicas int32, claim corev1.PodResourceClaim) *appsv1.Deployment {
	d := workload.Deployment(namespace, name, replicas)
	pod := &d.Spec.Template.Spec
	pod.NodeSelector = map[string]string{"suite": namespace}
	pod.ResourceClaims = []corev1.PodResourceClaim{claim}
	pod.Containers[0].Resources = corev1.ResourceRequirements{Claims: []corev1.ResourceClaim{{Name: claim.Name}}}
	return d
}

// devices returns the spec of a claim of n devices of the scripted driver.
func devices(n int64) resourcev1.ResourceClaimSpec {
	return resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{
		Name: "gpu", Exactly: &resourcev1.ExactDeviceRequest{
			DeviceClassName: claimDriver, AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: n,
		},
	}}}}
}

func deviceClass() *resourcev1.DeviceClass {
	resource := claimed
	return &resourcev1.DeviceClass{
		ObjectMeta: metav1.ObjectMeta{Name: claimDriver},
		Spec: resourcev1.DeviceClassSpec{
			ExtendedResourceName: &resource,
			Selectors: []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{
				Expression: fmt.Sprintf("device.driver == %q", claimDriver),
			}}},
		},
	}
}

// sliceOf returns the ResourceSlice with which the scripted driver publishes n devices of a node.
func sliceOf(node string, n int) *resourcev1.ResourceSlice {
	s := &resourcev1.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: "claims-" + node},
		Spec: resourcev1.ResourceSliceSpec{
			Driver: claimDriver, NodeName: &node, Pool: resourcev1.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1},
		},
	}
	for i := range n {
		s.Spec.Devices = append(s.Spec.Devices, resourcev1.Device{Name: fmt.Sprintf("gpu-%d", i)})
	}
	return s
}
