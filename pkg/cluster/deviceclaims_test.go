package cluster

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

func deviceClassOf(name, expression string) string {
	return fmt.Sprintf(`{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: %s},
		spec: {selectors: [{cel: {expression: %q}}]}}`, name, expression)
}

func claimTemplate(name, requests string) string {
	return fmt.Sprintf(`{apiVersion: resource.k8s.io/v1, kind: ResourceClaimTemplate, metadata: {namespace: team, name: %s},
		spec: {spec: {devices: {requests: %s}}}}`, name, requests)
}

const (
	rdmaClass = "rdma.example.com"
	oneGPU    = `[{name: gpu, exactly: {deviceClassName: gpu.nvidia.com}}]`
	oneNIC    = `[{name: nic, exactly: {deviceClassName: rdma.example.com}}]`
)

// gpusAndNICs returns manifests: a DeviceClass and a claim template of GPUs, a DeviceClass and a claim template of network cards, and the
// manifests in more.
func gpusAndNICs(more ...string) []string {
	return append([]string{
		deviceClassOf("gpu.nvidia.com", `device.driver == "gpu.nvidia.com"`), deviceClassOf(rdmaClass, `device.driver == "rdma.example.com"`),
		claimTemplate("gpu", oneGPU), claimTemplate("nic", oneNIC),
	}, more...)
}

// claimsDeployment returns the Deployment of the workload chat, whose pods claim devices by a template.
func claimsDeployment(template string) string {
	return fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {namespace: team, name: chat}
spec:
  replicas: 1
  selector: {matchLabels: {app: chat}}
  template:
    metadata: {labels: {app: chat}}
    spec: {containers: [{name: c, image: i}], resourceClaims: [{name: d, resourceClaimTemplateName: %s}]}`, template)
}

// claimsPod returns a pending pod that claims devices.
func claimsPod(name, ref string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {namespace: team, name: %s, labels: {app: train}}
spec: {tolerations: [{operator: Exists}], containers: [{name: c, image: i}], resourceClaims: [{name: devices, %s}]}`, name, ref)
}

func TestPodWithAClaimForGPUsMakesDemandUnknown(t *testing.T) {
	shared := `{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {namespace: team, name: shared}, spec: {devices: {requests: ` +
		oneGPU + `}}}`
	for name, c := range map[string]struct {
		ref  string
		want bool
	}{
		"a template of GPUs":           {"resourceClaimTemplateName: gpu", true},
		"a claim of GPUs":              {"resourceClaimName: shared", true},
		"a claim that is not read yet": {"resourceClaimTemplateName: later", true},
		"a network card":               {"resourceClaimTemplateName: nic", false},
	} {
		cluster := clusterWithPools(t, gpusAndNICs(shared, claimsPod("job", c.ref))...)
		o, d := observeClaims(t, cluster, "nvidia.com/gpu")
		if d.Demand.Unknown != c.want {
			t.Errorf("%s: demand unknown %v, want %v; other pods %+v", name, d.Demand.Unknown, c.want, o.UnmanagedPods)
		}
	}
}

func TestWorkloadWhoseTemplateClaimsGPUs(t *testing.T) {
	for template, want := range map[string]bool{"gpu": true, "nic": false} {
		c := clusterWithPools(t, gpusAndNICs(claimsDeployment(template))...)
		chat := &scaling.Workload{Key: scaling.Key{Namespace: "team", Name: "chat"}, Target: scaling.Target{Name: "chat"}}
		o := capacity.Observation{Workloads: make([]capacity.Workload, 1)}
		c.nodes.Observe(spotAndOnDemand(t), []*scaling.Workload{chat}, &o)
		if o.Workloads[0].Claims != want {
			t.Errorf("template %s: %+v", template, o.Workloads[0])
		}
	}
}

// Without Karpenter, gpuscaler's ClusterRole has no permission to read ResourceClaims, so the API server would reject every list request.
func TestDeviceClaimsAreNotWatchedWithoutNodePools(t *testing.T) {
	cluster := clusterWithPools(t)
	if len(cluster.nodes.devices) == 0 {
		t.Fatal("no kind of DRA is watched")
	}
	for _, k := range cluster.nodes.devices {
		if k.Allowed == nil || k.Allowed(t.Context()) {
			t.Errorf("%s is watched although no NodePool is served", k.GVK.Kind)
		}
	}
}

// observeClaims returns the observation of the capacity group chat, which counts the given resource, and the decision that package capacity
// makes from it.
func observeClaims(t *testing.T, c *Cluster, resource string, members ...*scaling.Workload) (capacity.Observation, capacity.Decision) {
	t.Helper()
	g, err := capacity.NewGroup(capacity.Group{Name: "chat", Resource: resource, ZeroLimit: true,
		Pools: []capacity.Pool{{Name: "l40s-spot", Type: capacity.Spot}, {Name: "l40s-od", Type: capacity.OnDemand}}})
	if err != nil {
		t.Fatal(err)
	}
	o := capacity.Observation{Workloads: make([]capacity.Workload, len(members))}
	for i, m := range members {
		o.Workloads[i] = capacity.Workload{Key: m.Key.String(), Known: true, Uncapped: 1}
	}
	c.nodes.Observe(g, members, &o)
	o.Lost = false // Observe sets Lost, because no informer runs in this test
	d, _ := capacity.Decide(g, o, capacity.State{}, time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC))
	return o, d
}

const countedClass = `{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: gpu.nvidia.com}, spec: {
	extendedResourceName: nvidia.com/gpu, selectors: [{cel: {expression: "device.driver == 'gpu.nvidia.com'"}}]}}`

// twoGPUs returns a ResourceClaim of two GPUs.
func twoGPUs(name string) string {
	return fmt.Sprintf(`{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {namespace: team, name: %s},
		spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.nvidia.com, allocationMode: ExactCount, count: 2}}]}}}`, name)
}

// Two pods on a node share a claim of two GPUs. A third pod requests GPUs by the name of their class. All GPUs must count, and the two GPUs
// of the shared claim must count only once. While the third pod is pending, the demand is unknown.
func TestClaimsWithAKnownCountAreDemand(t *testing.T) {
	running := func(name string) string {
		return claimsPod(name, "resourceClaimName: shared") + "\n" + `status: {phase: Running}`
	}
	onNode := func(pod string) string {
		return strings.Replace(pod, "spec: {", "spec: {nodeName: node-1, ", 1)
	}
	byName := `
apiVersion: v1
kind: Pod
metadata: {namespace: team, name: by-name}
spec:
  tolerations: [{operator: Exists}]
  containers: [{name: c, image: i, resources: {limits: {deviceclass.resource.kubernetes.io/gpu.nvidia.com: "3"}}}]`
	for _, resource := range []string{"nvidia.com/gpu", "deviceclass.resource.kubernetes.io/gpu.nvidia.com"} {
		c := clusterWithPools(t, countedClass, twoGPUs("shared"), claim("nc-1", "l40s-spot", "spot", "node-1"),
			onNode(running("first")), onNode(running("second")))
		o, d := observeClaims(t, c, resource)
		if d.Demand.UnmanagedPods != 2 || d.Demand.Unknown || len(o.UnmanagedPods) != 2 {
			t.Errorf("%s: two pods share a claim: demand %+v, pods %+v", resource, d.Demand, o.UnmanagedPods)
		}
		if len(o.Pools[0].Nodes) != 1 || o.Pools[0].Nodes[0].Used != 2 || o.Pools[0].Nodes[0].GPUs < 2 {
			t.Errorf("%s: nodes %+v, want one that uses 2 GPUs", resource, o.Pools[0].Nodes)
		}
		c = clusterWithPools(t, countedClass, byName)
		if _, d = observeClaims(t, c, resource); d.Demand.UnmanagedPods != 3 || !d.Demand.Unknown || d.Demand.Pending != 0 {
			t.Errorf("%s: a pod waits for 3 devices: demand %+v", resource, d.Demand)
		}
	}
}

// The claim template of a workload determines how many GPUs a replica requests. After the template is deleted, this number is unknown.
func TestWorkloadWithCountedClaims(t *testing.T) {
	template := claimTemplate("gpus", `[{name: gpu, exactly: {deviceClassName: gpu.nvidia.com, allocationMode: ExactCount, count: 4}}]`)
	chat := &scaling.Workload{Key: scaling.Key{Namespace: "team", Name: "chat"}, Target: scaling.Target{Name: "chat"}}
	c := clusterWithPools(t, countedClass, template, claimsDeployment("gpus"))
	o, d := observeClaims(t, c, "nvidia.com/gpu", chat)
	if w := o.Workloads[0]; w.GPUs != 4 || !w.Claimed || w.Claims || d.Demand.Policies != 4 {
		t.Errorf("workload %+v, demand %+v, want 4 GPUs", w, d.Demand)
	}
	c = clusterWithPools(t, countedClass, claimsDeployment("gpus"))
	if o, d = observeClaims(t, c, "nvidia.com/gpu", chat); o.Workloads[0].GPUs != 0 || !o.Workloads[0].Claims || !d.Demand.Unknown {
		t.Errorf("without the template: workload %+v, demand %+v", o.Workloads[0], d.Demand)
	}
}
