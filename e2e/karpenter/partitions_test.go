package karpenter_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscaler/gpuscaler/e2e/controller"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
	"github.com/gpuscaler/gpuscaler/e2e/workload"
)

const (
	partitionDriver = "mig.example.com"
	halfClass       = "half.mig.example.com"  // DeviceClass of one half of a GPU
	wholeClass      = "whole.mig.example.com" // DeviceClass of a whole GPU
)

// A scripted DRA driver publishes one GPU as partitionable devices: the whole GPU, or up to two halves of the GPU. A capacity group has
// the DeviceClass of the halves as its resource. The demand of the group must be the number of halves that pods have or wait for, on the
// real API server and scheduler. A pod that claims the whole GPU is not demand of this group. A finding must report such a pod, because
// it uses the same GPU.
func TestPartitionsOfAGPUAreDemandOfTheirDeviceClass(t *testing.T) {
	t.Parallel()
	const ns = "partitions"
	spot := pool{name: "partitions-spot", kind: "spot", weight: 80, nudge: allFields, by: clientSide, limit: int64(16)}
	spot.create(t)
	chat(t, ns, nil)
	create := func(o client.Object) {
		t.Helper()
		if err := suite.Client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = suite.Client.Delete(context.Background(), o, client.PropagationPolicy(metav1.DeletePropagationBackground))
		})
	}
	for class, kind := range map[string]string{halfClass: "half", wholeClass: "whole"} {
		create(partitionClass(class, kind))
		create(&resourcev1.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: kind},
			Spec: resourcev1.ResourceClaimTemplateSpec{Spec: oneDevice(class)}})
	}
	g := start(t, ns, map[string]string{
		"platform.yaml": controller.Platform("capacityGroups:\n- {name: gpu, resource: deviceclass.resource.kubernetes.io/" + halfClass +
			", nodePools: {spot: partitions-spot}}\n"),
		"chat.yaml": chatPolicy(ns),
	})
	g.load(t, map[string]float64{ns + "/chat": 1})
	stack.Eventually(t, time.Minute, "a replica without claims gets a node", workload.HasReplicas(suite.Client, ns, "chat", 1))
	nodes := suiteNodes(t, ns)
	if len(nodes) != 1 {
		t.Fatalf("nodes %v, want one", nodes)
	}
	counters, devices := partitionedGPU(nodes[0])
	create(counters)
	create(devices)

	template := "half"
	halves := claiming(ns, "halves", 2, corev1.PodResourceClaim{Name: "gpus", ResourceClaimTemplateName: &template})
	create(halves)
	stack.Eventually(t, time.Minute, "the scheduler allocates both halves", workload.HasReplicas(suite.Client, ns, "halves", 2))
	g.group(t, 30*time.Second, "two halves are demand", demandOf(2, ""))

	workload.Scale(t, suite.Client, halves, 3)
	g.group(t, 30*time.Second, "a half that a pod waits for is demand", demandOf(3, "--ignore-dra-requests"))
	stack.Always(t, 5*time.Second, "the GPU has no third half", ready(ns, "halves", 2))

	template = "whole"
	whole := claiming(ns, "whole", 1, corev1.PodResourceClaim{Name: "gpus", ResourceClaimTemplateName: &template})
	create(whole)
	workload.Scale(t, suite.Client, halves, 0)
	stack.Eventually(t, time.Minute, "the scheduler allocates the whole GPU", workload.HasReplicas(suite.Client, ns, "whole", 1))
	g.group(t, 30*time.Second, "the whole GPU is no demand for halves", demandOf(0, "whose devices gpuscaler cannot count as"))
}

// partitionClass returns a DeviceClass of the devices whose attribute kind has the given value.
func partitionClass(name, kind string) *resourcev1.DeviceClass {
	return &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourcev1.DeviceClassSpec{
		Selectors: []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: fmt.Sprintf(
			"device.driver == %q && device.attributes[%q].kind == %q", partitionDriver, partitionDriver, kind)}}},
	}}
}

// oneDevice returns the spec of a claim of one device of a class.
func oneDevice(class string) resourcev1.ResourceClaimSpec {
	return resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{
		Name: "gpu", Exactly: &resourcev1.ExactDeviceRequest{
			DeviceClassName: class, AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1,
		},
	}}}}
}

// partitionedGPU returns the two ResourceSlices that a driver publishes for one GPU of a node: the counters of the GPU, and its devices.
// The whole GPU consumes both units of the counter, and each half consumes one.
func partitionedGPU(node string) (counters, devices *resourcev1.ResourceSlice) {
	slice := func(name string) *resourcev1.ResourceSlice {
		return &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name + "-" + node}, Spec: resourcev1.ResourceSliceSpec{
			Driver: partitionDriver, NodeName: &node,
			Pool: resourcev1.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 2},
		}}
	}
	units := func(n int64) map[string]resourcev1.Counter {
		return map[string]resourcev1.Counter{"slices": {Value: *resource.NewQuantity(n, resource.DecimalSI)}}
	}
	device := func(name, kind string, consumes int64) resourcev1.Device {
		return resourcev1.Device{
			Name: name, Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"kind": {StringValue: &kind}},
			ConsumesCounters: []resourcev1.DeviceCounterConsumption{{CounterSet: "gpu-0", Counters: units(consumes)}},
		}
	}
	counters, devices = slice("counters"), slice("devices")
	counters.Spec.SharedCounters = []resourcev1.CounterSet{{Name: "gpu-0", Counters: units(2)}}
	devices.Spec.Devices = []resourcev1.Device{
		device("gpu-0", "whole", 2), device("gpu-0-half-0", "half", 1), device("gpu-0-half-1", "half", 1),
	}
	return counters, devices
}

// ready returns a check that a Deployment has the given number of ready replicas.
func ready(namespace, name string, replicas int32) func(context.Context) error {
	return func(ctx context.Context) error {
		var d appsv1.Deployment
		if err := suite.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &d); err != nil {
			return err
		}
		if d.Status.ReadyReplicas != replicas {
			return fmt.Errorf("%s has %d ready replicas, want %d", name, d.Status.ReadyReplicas, replicas)
		}
		return nil
	}
}
