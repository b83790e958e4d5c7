package karpenter

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gpuscaler/gpuscaler/pkg/replay/reproducible"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/events"
	"github.com/gpuscaler/gpuscaler/pkg/replay/spotmarket"
)

var begin = time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC)

// run is a Cluster whose pods have a trivial replica: an evicted pod ends at once and is not replaced.
type run struct {
	*Cluster
	queue events.Queue
	pods  []*runPod
}

type runPod struct {
	Pod
	run             *run
	started, killed bool
}

func (p *runPod) Start(time.Duration) { p.started = true }

func (p *runPod) Evict() { p.end() }

func (p *runPod) Kill() {
	p.killed = true
	p.end()
}

func (p *runPod) end() {
	p.run.pods = slices.DeleteFunc(p.run.pods, func(o *runPod) bool { return o == p })
	p.run.Delete(&p.Pod)
}

func newRun(pools ...NodePool) *run {
	r := &run{}
	minute := reproducible.Fixed(time.Minute)
	r.Cluster = New(Config{NodePools: pools, Images: 1, Start: begin, Fleet: Fleet{GPUs: 4},
		Draws: func(purpose string) *reproducible.Draws { return reproducible.NewDraws(1, purpose) },
		Assumptions: Assumptions{NodeLaunch: minute, GPUReady: minute, ImagePull: minute, BatchWindow: time.Second,
			ProvisionRetry: 10 * time.Second, IceCache: 3 * time.Minute, DisruptionLoop: 10 * time.Second,
			Validation: 15 * time.Second, NodeTermination: 30 * time.Second,
			SpotNotice: 2 * time.Minute}}, &r.queue)
	r.Begin()
	return r
}

func (r *run) create(t *Template) *runPod {
	p := &runPod{run: r}
	r.Create(&p.Pod, t, p)
	r.pods = append(r.pods, p)
	r.Provision()
	return p
}

// until processes all events up to the time at.
func (r *run) until(at time.Duration) {
	for {
		e, ok := r.queue.Next(at)
		if !ok {
			return
		}
		r.Handle(&e)
	}
}

func (r *run) template(gpus int32, pools ...string) *Template {
	t := &Template{Name: "team/a", GPUs: gpus, Pools: pools}
	r.Register(t)
	return t
}

func spotPool(m *spotmarket.Trace) NodePool {
	return NodePool{Name: "spot", CapacityType: Spot, InstanceType: "g5", GPUs: 1, Hourly: 1, Weight: 80, ConsolidateAfter: Never, Market: m}
}

func TestAMarketStartsAgain(t *testing.T) {
	r := newRun(spotPool(&spotmarket.Trace{Duration: 20 * time.Minute, Initial: 2,
		Events: []spotmarket.Event{{At: 10 * time.Minute, Lost: 1, Available: 1}}}))
	for _, c := range []struct{ second, want int }{{60, 2}, {500, 1}, {1190, 1}, {1201, 2}, {1681, 1}, {2401, 2}} {
		r.until(time.Duration(c.second) * time.Second)
		if got := r.pools[0].market.available; got != c.want {
			t.Errorf("at %d s %d nodes can be had, want %d", c.second, got, c.want)
		}
	}
}

// The only spot node is lost while a pod runs on it. The pod must be evicted at the time of the interruption notice. The node must be
// removed two minutes later.
func TestPodIsEvictedAtTheInterruptionNotice(t *testing.T) {
	r := newRun(spotPool(&spotmarket.Trace{Duration: time.Hour, Initial: 1, Events: []spotmarket.Event{{At: 20 * time.Minute, Lost: 1}}}))
	pod := r.create(r.template(1))
	r.until(119 * time.Second)
	if pod.started || r.WithoutNode() != 0 {
		t.Errorf("before the GPUs are usable: started %v, %d without a node", pod.started, r.WithoutNode())
	}
	r.until(122 * time.Second)
	if !pod.started || r.pools[0].Usable() != 1 {
		t.Errorf("a second of batching and two minutes later: started %v on %d usable nodes", pod.started, r.pools[0].Usable())
	}
	r.until(18*time.Minute + time.Second)
	if len(r.pods) != 0 || pod.killed || len(r.pools[0].nodes) != 1 {
		t.Errorf("at the notice: %d pods, killed %v, %d nodes", len(r.pods), pod.killed, len(r.pools[0].nodes))
	}
	r.until(21 * time.Minute)
	if n := len(r.pools[0].nodes); n != 0 {
		t.Errorf("after the notice period: %d nodes", n)
	}
}

func TestParseBudgets(t *testing.T) {
	c := &Cluster{start: begin, queue: &events.Queue{}}
	list := []Budget{{Percent: 10}, {Nodes: 2, Reason: reasonEmpty}, {Percent: 100, Reason: reasonUnderutilized}}
	got := c.budgetsOf(budgetsText(list))
	if len(got) != 3 || got[0] != list[0] || got[1] != list[1] || got[2] != list[2] {
		t.Errorf("%+v", got)
	}
	held := c.budgetsOf(`[{"nodes":"100%"},{"duration":"90m","nodes":"0","reasons":["Empty"],"schedule":"30 7 2 11 *"}]`)
	if len(held) != 2 || held[1] != (Budget{Reason: reasonEmpty, From: 7*time.Hour + 30*time.Minute, Until: 9 * time.Hour}) {
		t.Errorf("%+v", held)
	}
	if budgetsText(nil) != `[{"nodes":"10%"}]` {
		t.Error("the default budget is not 10%")
	}
}

// Pods are created and ended in a random order. The GPU counters of pools and nodes must agree with the pods, and no NodePool may exceed
// its limit.
func TestCountersAgreeWithThePods(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.Int64Range(0, 12).Draw(t, "limit")
		spot := spotPool(&spotmarket.Trace{Duration: 10 * time.Minute, Initial: 3, Events: []spotmarket.Event{{At: 6 * time.Minute, Lost: 2}}})
		spot.ConsolidateAfter, spot.GPUs = time.Minute, rapid.Int32Range(1, 4).Draw(t, "spot GPUs")
		reserved := NodePool{Name: "reserved", CapacityType: Reserved, GPUs: 4, Hourly: 8, Limit: &limit, ConsolidateAfter: 30 * time.Second}
		pools := []NodePool{spot, reserved}
		if rapid.Bool().Draw(t, "private") {
			pools = nil
		}
		r := newRun(pools...)
		for at := time.Duration(0); at < 30*time.Minute; {
			switch n := len(r.pods); {
			case n > 0 && rapid.IntRange(0, 2).Draw(t, "end") == 0:
				r.pods[rapid.IntRange(0, n-1).Draw(t, "which")].end()
			case n < 20:
				r.create(r.template(rapid.Int32Range(1, 4).Draw(t, "GPUs")))
			}
			at += time.Duration(rapid.IntRange(0, 120).Draw(t, "seconds")) * time.Second
			r.until(at)
			r.check(t)
		}
	})
}

func (r *run) check(t *rapid.T) {
	placed := 0
	for _, p := range r.pools {
		var gpus, launching, free, ending int64
		for _, n := range p.nodes {
			var used int32
			for _, pod := range n.pods {
				used += pod.template.GPUs
				placed++
				if pod.node != n || pod.phase == unassigned {
					t.Fatalf("a pod of node %s is on another node, or in phase %d", n.Name(), pod.phase)
				}
			}
			if used != n.used || used > n.gpus {
				t.Fatalf("node %s of %d GPUs has %d used, its pods use %d", n.Name(), n.gpus, n.used, used)
			}
			switch {
			case n.state < Usable:
				launching += int64(n.gpus)
			case n.state == Leaving:
				ending += int64(n.gpus - n.used)
			default:
				free += int64(n.gpus - n.used)
			}
			if n.state != Leaving {
				gpus += int64(n.gpus)
			}
		}
		if gpus != p.gpus || p.config.Limit != nil && gpus > *p.config.Limit {
			t.Fatalf("pool %s has %d GPUs, its nodes %d", p.config.Name, p.gpus, gpus)
		}
		if launching != p.launching || free != p.empty+p.loose || ending != p.ending {
			t.Fatalf("pool %s counts %d launching, %d + %d free, %d ending; its nodes have %d, %d, %d",
				p.config.Name, p.launching, p.empty, p.loose, p.ending, launching, free, ending)
		}
	}
	if without := int(r.WithoutNode()); placed+without != len(r.pods) {
		t.Fatalf("%d pods: %d on nodes, %d without", len(r.pods), placed, without)
	}
}
