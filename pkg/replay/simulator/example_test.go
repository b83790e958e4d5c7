package simulator_test

import (
	"context"
	"fmt"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/baseline"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/karpenter"
	"github.com/gpuscaler/gpuscaler/pkg/replay/trace"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// The example simulates an hour of traffic with a static fleet of two replicas. A GPU costs $2 per hour.
func ExampleSimulator() {
	profile, _ := trace.Preset("flat")
	profile.Duration, profile.Rate, profile.Seed = time.Hour, 1, 1
	traffic, err := trace.Generate(profile)
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := simulator.New(simulator.Config{Seed: 1, Fleet: karpenter.Fleet{HourlyPerGPU: 2}, Workloads: []simulator.Workload{{
		Key: scaling.Key{Namespace: "team-chat", Name: "llama"}, Actuator: baseline.Static(2), Initial: 2,
		Traffic: traffic, Service: simulator.Chat8B,
	}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := s.Run(context.Background(), time.Hour, nil); err != nil {
		fmt.Println(err)
		return
	}
	r := s.Result()
	fmt.Printf("$%.2f for %s of GPU time; %d requests arrived, %.0f%% on time\n", r.Cost, r.Paid, r.Loads[0].Arrived, 100*r.Loads[0].OnTime)
	// Output: $4.00 for 2h0m0s of GPU time; 3462 requests arrived, 100% on time
}
