package cluster

import (
	"fmt"
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

// claimsPod returns a pending pod that claims devices.
func claimsPod(name, more, ref string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {namespace: team, name: %s, labels: {app: train}%s}
spec: {tolerations: [{operator: Exists}], containers: [{name: c, image: i}], resourceClaims: [{name: devices, %s}]}`, name, more, ref)
}

func TestPodWithAClaimForGPUsMakesDemandUnknown(t *testing.T) {
	classes := []string{
		deviceClassOf("gpu.nvidia.com", `device.driver == "gpu.nvidia.com"`), deviceClassOf(rdmaClass, `device.driver == "rdma.example.com"`),
		claimTemplate("gpu", oneGPU), claimTemplate("nic", oneNIC),
		`{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {namespace: team, name: shared}, spec: {devices: {requests: ` +
			oneGPU + `}}}`,
	}
	for name, c := range map[string]struct {
		ref  string
		want bool
	}{
		"a template of GPUs":           {"resourceClaimTemplateName: gpu", true},
		"a claim of GPUs":              {"resourceClaimName: shared", true},
		"a claim that is not read yet": {"resourceClaimTemplateName: later", true},
		"a network card":               {"resourceClaimTemplateName: nic", false},
	} {
		cluster := clusterWithPools(t, append(classes, claimsPod("job", "", c.ref))...)
		g, err := capacity.NewGroup(capacity.Group{Name: "chat", Resource: "nvidia.com/gpu", ZeroLimit: true,
			Pools: []capacity.Pool{{Name: "l40s-spot", Type: capacity.Spot}, {Name: "l40s-od", Type: capacity.OnDemand}}})
		if err != nil {
			t.Fatal(err)
		}
		var o capacity.Observation
		cluster.nodes.Observe(g, nil, &o)
		o.Lost = false // no informer runs here
		d, _ := capacity.Decide(g, o, capacity.State{}, time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC))
		if d.Demand.Unknown != c.want {
			t.Errorf("%s: demand unknown %v, want %v; other pods %+v", name, d.Demand.Unknown, c.want, o.UnmanagedPods)
		}
	}
}

func TestWorkloadWhoseTemplateClaimsGPUs(t *testing.T) {
	deployment := `
apiVersion: apps/v1
kind: Deployment
metadata: {namespace: team, name: chat}
spec:
  replicas: 1
  selector: {matchLabels: {app: chat}}
  template:
    metadata: {labels: {app: chat}}
    spec: {containers: [{name: c, image: i}], resourceClaims: [{name: d, resourceClaimTemplateName: %s}]}`
	for template, want := range map[string]bool{"gpu": true, "nic": false} {
		c := clusterWithPools(t, deviceClassOf("gpu.nvidia.com", `device.driver == "gpu.nvidia.com"`),
			deviceClassOf(rdmaClass, `device.driver == "rdma.example.com"`),
			claimTemplate("gpu", oneGPU), claimTemplate("nic", oneNIC), fmt.Sprintf(deployment, template))
		chat := &scaling.Workload{Key: scaling.Key{Namespace: "team", Name: "chat"}, Target: scaling.Target{Name: "chat"}}
		o := capacity.Observation{Workloads: make([]capacity.Workload, 1)}
		c.nodes.Observe(spotAndOnDemand(t), []*scaling.Workload{chat}, &o)
		if o.Workloads[0].Claims != want {
			t.Errorf("template %s: %+v", template, o.Workloads[0])
		}
	}
}

// Without Karpenter the role has no right to read claims, and the API server would reject every list.
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
