package cluster

import (
	"strings"
	"testing"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/buffers"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

func chatWorkload() *scaling.Workload {
	return &scaling.Workload{Key: scaling.Key{Namespace: "team", Name: "chat"}, Target: scaling.Target{Name: "chat"}, Group: "chat"}
}

func TestBufferTaskKnowsTheTargetAndLimitsWithoutRequests(t *testing.T) {
	for name, c := range map[string]struct {
		resources string
		want      bool
	}{
		"limits":   {"limits: {nvidia.com/gpu: \"1\"}", true},
		"both":     {"limits: {nvidia.com/gpu: \"1\"}, requests: {nvidia.com/gpu: \"1\"}", false},
		"requests": {"requests: {nvidia.com/gpu: \"1\"}", false},
		"cpu":      {"limits: {cpu: \"1\"}", false},
	} {
		c0 := clusterWithPools(t, strings.Replace(chatDeployment, "limits: {nvidia.com/gpu: \"1\"}", c.resources, 1))
		task := func() buffers.Task {
			g := spotAndOnDemand(t)
			o := capacity.Observation{Workloads: make([]capacity.Workload, 1)}
			c0.nodes.Observe(g, []*scaling.Workload{chatWorkload()}, &o)
			return c0.nodes.BufferTask(g, capacity.Buffer{Workload: "team/chat", Replicas: 2})
		}()
		if task.LimitsOnly != c.want || task.Owner == nil || task.Owner.Name != "chat" || task.Replicas != 2 {
			t.Errorf("%s: %+v", name, task)
		}
	}
}
