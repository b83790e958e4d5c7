package deviceclaims

import (
	"testing"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/gpupods"
)

const (
	gpuClass   = "gpu.nvidia.com"
	byClass    = "deviceclass.resource.kubernetes.io/gpu.nvidia.com"
	byExtended = "nvidia.com/gpu"
)

// claim returns a ResourceClaim. allocated is the content of status.allocation.devices.results. It is "" if no device is allocated yet.
func claim(name, requests, allocated string) string {
	text := `{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {namespace: team, name: ` + name +
		`}, spec: {devices: {requests: ` + requests + `}}`
	if allocated != "" {
		text += `, status: {allocation: {devices: {results: ` + allocated + `}}}`
	}
	return text + "}"
}

// device returns a device that was allocated for a request.
func device(request string) string {
	return "{driver: gpu.nvidia.com, pool: n1, device: gpu-0, request: " + request + "}"
}

// withClasses returns a cache with the DeviceClasses of whole GPUs, of MIG instances and of network cards.
func withClasses(t *testing.T) *Cache {
	t.Helper()
	c := New(func() {})
	put(t, c, `{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: gpu.nvidia.com}, spec: {
		extendedResourceName: nvidia.com/gpu,
		selectors: [{cel: {expression: "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'"}}]}}`)
	put(t, c, class("mig.nvidia.com", `device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'mig'`))
	put(t, c, class("rdma", `device.driver == "rdma.example.com"`))
	return c
}

func TestCountOfOneClaim(t *testing.T) {
	const exactly = `[{name: x, exactly: {deviceClassName: gpu.nvidia.com, allocationMode: ExactCount, count: `
	const all = `[{name: x, exactly: {deviceClassName: gpu.nvidia.com, allocationMode: All}}]`
	const choice = `[{name: x, firstAvailable: [{name: large, deviceClassName: gpu.nvidia.com, allocationMode: ExactCount, count: 1},
		{name: small, deviceClassName: gpu.nvidia.com, allocationMode: ExactCount, count: 4}]}]`
	const otherChoice = `[{name: x, firstAvailable: [{name: gpu, deviceClassName: gpu.nvidia.com}, {name: nic, deviceClassName: rdma}]}]`
	const migChoice = `[{name: x, firstAvailable: [{name: gpu, deviceClassName: gpu.nvidia.com},
		{name: mig, deviceClassName: mig.nvidia.com}]}]`
	claimed := func(n int64) gpupods.ClaimCount { return gpupods.ClaimCount{Devices: n, Claimed: true} }
	for name, c := range map[string]struct {
		requests, allocated string
		want                gpupods.ClaimCount
	}{
		"an exact count":                 {exactly + `4}}]`, "", claimed(4)},
		"no count is one":                {`[{name: x, exactly: {deviceClassName: gpu.nvidia.com}}]`, "", claimed(1)},
		"two requests":                   {exactly + `2}}, {name: z, exactly: {deviceClassName: gpu.nvidia.com}}]`, "", claimed(3)},
		"all devices of a node":          {all, "", gpupods.ClaimCount{Claimed: true, Unknown: true}},
		"all devices, allocated":         {all, "[" + device("x") + "," + device("x") + "]", claimed(2)},
		"the greatest alternative":       {choice, "", claimed(4)},
		"the chosen alternative":         {choice, "[" + device("x/large") + "]", claimed(1)},
		"a network card beside GPUs":     {exactly + `2}}, {name: z, exactly: {deviceClassName: rdma}}]`, "", claimed(2)},
		"GPUs or a network card":         {otherChoice, "", claimed(1)},
		"the network card was chosen":    {otherChoice, "[" + device("x/nic") + "]", gpupods.ClaimCount{}},
		"a GPU or a MIG instance":        {migChoice, "", gpupods.ClaimCount{Devices: 1, Claimed: true, Unknown: true}},
		"a MIG instance is no whole GPU": {`[{name: x, exactly: {deviceClassName: mig.nvidia.com}}]`, "", gpupods.ClaimCount{Unknown: true}},
		"an unknown class":               {`[{name: x, exactly: {deviceClassName: other}}]`, "", gpupods.ClaimCount{Unknown: true}},
		"administrative access":          {exactly + `2, adminAccess: true}}]`, "", gpupods.ClaimCount{}},
		"an absurd count":                {exactly + `9223372036854775807}}]`, "", claimed(gpupods.MaxGPUs)},
		"an absurd sum": {exactly + `65536}}, {name: z, exactly: {deviceClassName: gpu.nvidia.com, count: 65536}}]`, "",
			claimed(gpupods.MaxGPUs)},
		"a negative count":             {exactly + `-3}}]`, "", gpupods.ClaimCount{Claimed: true, Unknown: true}},
		"a count that is not a number": {exactly + `many}}]`, "", gpupods.ClaimCount{Unknown: true}},
		"an unknown mode": {`[{name: x, exactly: {deviceClassName: gpu.nvidia.com, allocationMode: Half}}]`, "",
			gpupods.ClaimCount{Claimed: true, Unknown: true}},
		"an allocation of another request":   {all, "[" + device("other") + "]", gpupods.ClaimCount{Claimed: true, Unknown: true}},
		"neither exactly nor firstAvailable": {`[{name: x}]`, "", gpupods.ClaimCount{Unknown: true}},
		"no request":                         {`[]`, "", gpupods.ClaimCount{}},
	} {
		cache := withClasses(t)
		put(t, cache, claim("one", c.requests, c.allocated))
		for _, resource := range []string{byClass, byExtended} {
			if got := cache.Count("team", []gpupods.ClaimRef{{Name: "one"}}, resource, gpupods.Counted{}); got != c.want {
				t.Errorf("%s, counted as %s: %+v, want %+v", name, resource, got, c.want)
			}
		}
	}
}

// A MIG instance is one device. It must count as a unit of the DeviceClass of MIG instances. For the DeviceClass of whole GPUs, the count
// must be unknown.
func TestDevicesCountOnlyForTheirClass(t *testing.T) {
	c := withClasses(t)
	put(t, c, template("slices", `[{name: x, exactly: {deviceClassName: mig.nvidia.com, allocationMode: ExactCount, count: 3}}]`))
	refs := []gpupods.ClaimRef{{Template: "slices"}}
	want := gpupods.ClaimCount{Devices: 3, Claimed: true}
	if got := c.Count("team", refs, "deviceclass.resource.kubernetes.io/mig.nvidia.com", nil); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := c.Count("team", refs, byClass, nil); got != (gpupods.ClaimCount{Unknown: true}) {
		t.Errorf("as whole GPUs: %+v", got)
	}
	if got := c.Count("team", refs, "", nil); got != want {
		t.Errorf("as GPUs of any class: %+v, want %+v", got, want)
	}
	if c.ExtendedResource(byClass) != byExtended || c.ExtendedResource(byExtended) != "" ||
		c.ExtendedResource("deviceclass.resource.kubernetes.io/mig.nvidia.com") != "" {
		t.Error("the extended resource of a DeviceClass is wrong")
	}
}

// Two pods share a claim of two GPUs, so the GPUs must count only for the first pod. If the pod template of a workload refers to this claim
// by name, its GPUs must not count as GPUs of a replica.
func TestSharedClaimCountsOnce(t *testing.T) {
	c, counted := withClasses(t), gpupods.Counted{}
	put(t, c, claim("shared", `[{name: x, exactly: {deviceClassName: gpu.nvidia.com, count: 2}}]`, ""))
	refs := []gpupods.ClaimRef{{Name: "shared"}}
	for i, want := range []int64{2, 0, 0} {
		if got := c.Count("team", refs, byExtended, counted); got != (gpupods.ClaimCount{Devices: want, Claimed: true}) {
			t.Errorf("pod %d: %+v, want %d devices", i, got, want)
		}
	}
	if got := c.Count("team", refs, byExtended, nil); got != (gpupods.ClaimCount{Claimed: true}) {
		t.Errorf("pod template: %+v", got)
	}
	if got := c.Count("other", refs, byExtended, counted); got != (gpupods.ClaimCount{Unknown: true}) {
		t.Errorf("a claim of the same name in another namespace: %+v", got)
	}
}

// A claim that was generated from a template must keep its count after the template is deleted. Until the claim is in the cache, its
// template determines the count. If neither the claim nor the template is in the cache, the count is unknown, both for the pod and for the
// next replica.
func TestDeletedTemplate(t *testing.T) {
	c := withClasses(t)
	put(t, c, template("gpus", `[{name: x, exactly: {deviceClassName: gpu.nvidia.com, count: 2}}]`))
	put(t, c, claim("chat-1-gpus-abcde", `[{name: x, exactly: {deviceClassName: gpu.nvidia.com, count: 4}}]`, ""))
	running := []gpupods.ClaimRef{{Name: "chat-1-gpus-abcde", Template: "gpus"}}
	created := []gpupods.ClaimRef{{Name: "chat-2-gpus-fghij", Template: "gpus"}}
	devices := func(when string, refs []gpupods.ClaimRef, counted gpupods.Counted, want gpupods.ClaimCount) {
		t.Helper()
		if got := c.Count("team", refs, byExtended, counted); got != want {
			t.Errorf("%s: %+v, want %+v", when, got, want)
		}
	}
	devices("the claim precedes the template", running, gpupods.Counted{}, gpupods.ClaimCount{Devices: 4, Claimed: true})
	devices("the claim is not read yet", created, gpupods.Counted{}, gpupods.ClaimCount{Devices: 2, Claimed: true})
	c.DeleteClaim(c.claims[claimKey{"team", "gpus", true}])
	devices("the template is deleted", running, gpupods.Counted{}, gpupods.ClaimCount{Devices: 4, Claimed: true})
	devices("neither is there", created, gpupods.Counted{}, gpupods.ClaimCount{Unknown: true})
	devices("the next replica", []gpupods.ClaimRef{{Template: "gpus"}}, nil, gpupods.ClaimCount{Unknown: true})
	c.DeleteClass(c.classes[gpuClass])
	devices("the class is deleted", running, gpupods.Counted{}, gpupods.ClaimCount{Unknown: true})
}

// A pod requests devices without a claim, by the resource name of their DeviceClass. These devices must also be counted.
func TestDevicesRequestedByTheNameOfTheirClass(t *testing.T) {
	c := withClasses(t)
	refs := []gpupods.ClaimRef{{Class: gpuClass, Devices: 8}, {Class: "rdma", Devices: 1}}
	for _, resource := range []string{byClass, byExtended} {
		if got := c.Count("team", refs, resource, nil); got != (gpupods.ClaimCount{Devices: 8, Claimed: true}) {
			t.Errorf("%s: %+v", resource, got)
		}
	}
	if got := c.Count("team", refs, "amd.com/gpu", nil); got != (gpupods.ClaimCount{Unknown: true}) {
		t.Errorf("another resource: %+v", got)
	}
	if c.MayBeGPUs("team", refs[1:]) || !c.MayBeGPUs("team", refs) {
		t.Error("MayBeGPUs of a class is wrong")
	}
}
