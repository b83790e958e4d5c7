package baseline

import (
	"math"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/autoscaler"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/ledger"
)

// SkyServe is SkyPilot's RequestRateAutoscaler. Each decision divides the requests per second by the capacity of a replica. The target
// changes to the result only if the results were above the target for the whole upscale delay, or below the target for the whole downscale
// delay. The fields are options of replica_policy in a SkyServe service. A delay of 0 means SkyServe's default.
type SkyServe struct {
	Min, Max    int32
	Target      float64       // target_qps_per_replica
	Up, Down    time.Duration // upscale_delay_seconds, downscale_delay_seconds; 0 means 300 s and 1200 s
	Overprovide int32         // num_overprovision: additional replicas as a reserve for preemptions
}

const (
	skyInterval = 20 * time.Second // time between two decisions
	skyWindow   = 60 * time.Second // window in which requests are counted
)

// NewActuator returns a new actuator. It replaces delays of 0 by SkyServe's defaults. As a method value it is an autoscaler.Factory.
func (k SkyServe) NewActuator() autoscaler.Actuator {
	if k.Up == 0 {
		k.Up = 300 * time.Second
	}
	if k.Down == 0 {
		k.Down = 1200 * time.Second
	}
	return &skyServe{config: k}
}

type skyServe struct {
	config   SkyServe
	arrived  [int(skyWindow/skyInterval) + 1]int64 // total number of requests that had arrived at each of the last decisions, oldest first
	seen     int
	begun    bool
	target   int32
	ups, dow int // how many decisions in a row would scale up, and how many would scale down
}

// Act decides every 20 s.
func (k *skyServe) Act(s *autoscaler.Scene) autoscaler.Move {
	if !k.begun {
		k.begun, k.target = true, s.Spec
	}
	copy(k.arrived[:], k.arrived[1:])
	k.arrived[len(k.arrived)-1] = s.Arrived
	k.seen = min(k.seen+1, len(k.arrived))
	m := autoscaler.Move{Replicas: s.Spec, Asked: s.Spec, Idle: ledger.Cooldown, Again: skyInterval}
	if k.seen == len(k.arrived) {
		rate := float64(k.arrived[len(k.arrived)-1]-k.arrived[0]) / skyWindow.Seconds()
		m.Asked = k.config.desired(rate)
		m.Replicas = min(k.next(m.Asked)+k.config.Overprovide, k.config.Max)
	}
	if m.Replicas <= k.config.Min {
		m.Idle = ledger.Minimum
	}
	return m
}

func (k *SkyServe) desired(rate float64) int32 {
	return max(k.Min, min(int32(math.Ceil(rate/k.Target)), k.Max))
}

// next returns the target after a decision that requests the given number of replicas. The target changes to this number if all decisions
// of the upscale delay requested more than the target, or all decisions of the downscale delay requested less.
func (k *skyServe) next(desired int32) int32 {
	switch {
	case desired > k.target:
		k.ups, k.dow = k.ups+1, 0
		if k.ups >= int(k.config.Up/skyInterval) {
			k.ups, k.target = 0, desired
		}
	case desired < k.target:
		k.ups, k.dow = 0, k.dow+1
		if k.dow >= int(k.config.Down/skyInterval) {
			k.dow, k.target = 0, desired
		}
	default:
		k.ups, k.dow = 0, 0
	}
	return k.target
}
