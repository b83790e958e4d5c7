package record

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/engine"
)

// BenchmarkGroup measures the recording of one tick of a capacity group with 50 workloads, 1,000 pods and 1,000 nodes: without any change,
// and with a change of one pod.
func BenchmarkGroup(b *testing.B) {
	for _, changes := range []bool{false, true} {
		b.Run(fmt.Sprintf("changes=%t", changes), func(b *testing.B) {
			r, err := New(filepath.Join(b.TempDir(), "recording.jsonl"), Options{})
			if err != nil {
				b.Fatal(err)
			}
			g, err := capacity.NewGroup(capacity.Group{Name: "gpu", Resource: "nvidia.com/gpu",
				Pools: []capacity.Pool{{Name: "spot", Type: capacity.Spot}, {Name: "od", Type: capacity.OnDemand}}})
			if err != nil {
				b.Fatal(err)
			}
			o := capacity.Observation{Pools: []capacity.PoolView{{Exists: true, Ready: true}, {Exists: true, Ready: true}}}
			for i := range 50 {
				w := capacity.Workload{Key: fmt.Sprint("team/", i), Known: true, GPUs: 1, Current: 20, Uncapped: 20}
				for j := range 20 {
					id := fmt.Sprint(i, "-", j)
					o.Pools[0].Nodes = append(o.Pools[0].Nodes, capacity.Node{Name: id, UID: id, Type: capacity.Spot, Stage: capacity.Usable,
						Ready: true, GPUs: 1, Used: 1, Created: noon, Hourly: 1})
					w.Pods = append(w.Pods, capacity.Pod{UID: id, Namespace: "team", Name: id, GPUs: 1, Node: i*20 + j, Since: noon, Ready: true})
				}
				o.Workloads = append(o.Workloads, w)
			}
			s := &scene{}
			decisions, now := engine.New(s, s, s, engine.Options{}).Decisions(), noon
			var state capacity.State
			var d capacity.Decision
			for i := range b.N {
				now = now.Add(time.Second)
				if changes {
					o.Workloads[0].Pods[0].Idle = i%2 == 0
				}
				state.Decide(g, &o, now, &d)
				r.GroupTick(engine.GroupTick{At: now, Group: g, Fresh: i == 0, Observation: &o, Decision: &d})
				if err := r.Tick(decisions, now); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
