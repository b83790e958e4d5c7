package karpenter_test

import (
	"fmt"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/reproducible"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/events"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/karpenter"
)

// replica prints when its pod starts. The other methods do nothing.
type replica struct{ queue *events.Queue }

func (r replica) Start(pull time.Duration) {
	fmt.Println("usable node at", r.queue.Now, "image pull", pull)
}
func (replica) Evict() {}
func (replica) Kill()  {}

// A pod without a node makes Karpenter launch one: a second of batching, a minute of launch, and 30 seconds until its GPUs are usable.
func ExampleCluster() {
	queue := &events.Queue{}
	c := karpenter.New(karpenter.Config{Images: 1, NodePools: []karpenter.NodePool{{Name: "spot", CapacityType: "spot", GPUs: 1}},
		Draws: func(purpose string) *reproducible.Draws { return reproducible.NewDraws(1, purpose) },
		Assumptions: karpenter.Assumptions{BatchWindow: time.Second, NodeLaunch: reproducible.Fixed(time.Minute),
			GPUReady: reproducible.Fixed(30 * time.Second), ImagePull: reproducible.Fixed(time.Minute), DisruptionLoop: 10 * time.Second}}, queue)
	c.Begin()
	template := &karpenter.Template{Name: "team/chat", GPUs: 1}
	c.Register(template)
	c.Create(&karpenter.Pod{}, template, replica{queue})
	c.Provision()
	for {
		e, ok := queue.Next(2 * time.Minute)
		if !ok {
			break
		}
		c.Handle(&e)
	}
	// Output: usable node at 1m31s image pull 1m0s
}
