package deviceclaims

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/gpupods"
)

// put adds an object to the cache as an informer does.
func put(t *testing.T, c *Cache, text string) {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	if u.GetKind() == ClassKind.Kind {
		class, err := TrimClass(u)
		if err != nil {
			t.Fatal(err)
		}
		c.PutClass(class.(*Class))
		return
	}
	claim, err := TrimClaim(u)
	if err != nil {
		t.Fatal(err)
	}
	c.PutClaim(claim.(*Claim))
}

func class(name, expression string) string {
	return fmt.Sprintf(`{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: %s},
		spec: {selectors: [{cel: {expression: %q}}]}}`, name, expression)
}

func template(name, requests string) string {
	return fmt.Sprintf(`{apiVersion: resource.k8s.io/v1, kind: ResourceClaimTemplate, metadata: {namespace: team, name: %s},
		spec: {spec: {devices: {requests: %s}}}}`, name, requests)
}

func TestMayBeGPUs(t *testing.T) {
	changes := 0
	c := New(func() { changes++ })
	put(t, c, class("gpu.nvidia.com", `device.driver == "gpu.nvidia.com"`))
	put(t, c, class("rdma", `device.driver == "rdma.example.com"`))
	put(t, c, class("anything", `true`))
	put(t, c, class("large", `device.driver == 'gpu.amd.com' && true`))
	put(t, c, template("gpu", `[{name: x, exactly: {deviceClassName: gpu.nvidia.com}}]`))
	put(t, c, template("nic", `[{name: x, exactly: {deviceClassName: rdma}}]`))
	put(t, c, template("any-device", `[{name: x, exactly: {deviceClassName: anything}}]`))
	put(t, c, template("unknown-class", `[{name: x, exactly: {deviceClassName: other}}]`))
	put(t, c, template("second-choice", `[{name: x, firstAvailable: [
		{name: a, deviceClassName: rdma}, {name: b, deviceClassName: gpu.nvidia.com}]}]`))
	put(t, c, template("admin", `[{name: x, exactly: {deviceClassName: gpu.nvidia.com, adminAccess: true}}]`))
	put(t, c, template("gpu-driver", `[{name: x, exactly: {deviceClassName: large}}]`))
	put(t, c, `{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {namespace: team, name: shared},
		spec: {devices: {requests: [{name: x, exactly: {deviceClassName: gpu.nvidia.com}}]}}}`)
	put(t, c, template("malformed", `{name: x}`))
	for name, want := range map[string]bool{
		"gpu": true, "nic": false, "any-device": true, "unknown-class": true, "second-choice": true, "admin": false,
		"malformed": true, "not-read": true, "gpu-driver": true,
	} {
		if got := c.MayBeGPUs("team", []gpupods.ClaimRef{{Template: name}}); got != want {
			t.Errorf("template %s: %t, want %t", name, got, want)
		}
	}
	if !c.MayBeGPUs("team", []gpupods.ClaimRef{{Name: "shared"}}) || !c.MayBeGPUs("team", []gpupods.ClaimRef{{Name: "nic"}}) {
		t.Error("a claim of GPUs, or a claim with the name of a template, is not for GPUs")
	}
	if !c.MayBeGPUs("other", []gpupods.ClaimRef{{Template: "nic"}}) {
		t.Error("a template of another namespace is used")
	}
	if c.MayBeGPUs("team", nil) {
		t.Error("a pod without claims claims GPUs")
	}
	if changes != 13 {
		t.Errorf("%d changes were reported, want 13", changes)
	}
}
