package cluster

import "testing"

// A node shares its GPUs while its label nvidia.com/gpu.replicas is above 1. The label can change while pods run, when the device plugin is
// reconfigured.
func TestNodeSharesGPUsByItsLabel(t *testing.T) {
	c := clusterWithPools(t)
	node := func(replicas string) {
		text := `{apiVersion: v1, kind: Node, metadata: {name: "n", labels: {nvidia.com/gpu.replicas: "` + replicas + `"}}}`
		if err := c.show(object(t, text)); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct {
		replicas string
		want     bool
	}{{"1", false}, {"4", true}, {"1", false}} {
		node(step.replicas)
		if got := c.SharesGPUs("n"); got != step.want {
			t.Errorf("replicas %s: shares %t, want %t", step.replicas, got, step.want)
		}
	}
	if c.SharesGPUs("") || c.SharesGPUs("other") {
		t.Error("an unknown node shares its GPUs")
	}
}
