package demo

import (
	"context"
	"slices"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/autoscaler"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/baseline"
)

// Outcome is the result of one way to scale the workloads of the demo.
type Outcome struct {
	Name   string  `json:"name"`
	Words  string  `json:"description"`
	Cost   float64 `json:"cost"` // cost in $
	Policy string  `json:"policy"`
	OnTime float64 `json:"onTime"` // share of requests on time in the workload with the lowest share, which Policy names
	Idle   float64 `json:"idle"`   // share of the paid GPU time in which no request was served
}

// alternative is another way to scale the workloads. It uses the same traffic, NodePools and prices as gpuscaler, but no capacity groups.
type alternative struct {
	name, words string
	actuator    func(c *policy.Compiled) autoscaler.Factory
}

// alternatives returns the two alternatives: KEDA and the smallest static fleet. KEDA has the targets in triggers, and the schedules and
// cooldowns of the policies.
func alternatives() []alternative {
	all := baseline.All()
	keda := &all[slices.IndexFunc(all, func(b baseline.Baseline) bool { return b.Name == "keda" })]
	const window = 300 // default of scaleDown.stabilizationWindowSeconds in an HPA
	return []alternative{
		{"KEDA", "a target for each workload, cooldowns of the same policies, minReplicas by cron triggers",
			func(c *policy.Compiled) autoscaler.Factory {
				p := c.Workload.Policy
				return keda.NewActuator(baseline.Bounds{Min: p.MinReplicas, Max: p.MaxReplicas, Schedules: p.Schedules},
					[]float64{triggers[c.Workload.Key.Name], p.CooldownPeriod.Seconds(), window})
			}},
		{"static fleet", "6, 2 and 5 replicas: the fewest that serve 99% on time",
			func(c *policy.Compiled) autoscaler.Factory {
				return baseline.Static(fleet[c.Workload.Key.Name])
			}},
	}
}

// triggers contains the target of KEDA's trigger for each workload: the number of requests per replica that wait or are served. The values
// are the targets of the policies. For the chat service, whose policy has an objective, the value is 6 of the 8 requests that a replica
// serves at once.
var triggers = map[string]float64{"llama-chat": 6, "embed-worker": 200, "night-batch": 20}

// fleet contains the number of replicas of each workload in the smallest static fleet that serves 99% of the requests on time on the first
// day with the default seed.
var fleet = map[string]int32{"llama-chat": 6, "embed-worker": 2, "night-batch": 5}

// Compare simulates the virtual time of the run so far with each alternative. The first outcome in the result is the outcome of gpuscaler.
// It must not be called during Run. The simulation of a day takes some seconds for each alternative.
func (d *Demo) Compare(ctx context.Context) ([]Outcome, error) {
	out := []Outcome{outcome("gpuscaler", "policies and capacity groups of this demo", d.simulator.Result())}
	length := d.simulator.Now()
	for _, a := range alternatives() {
		result, err := d.play(ctx, a, length)
		if err != nil {
			return nil, err
		}
		out = append(out, outcome(a.name, a.words, result))
	}
	return out, nil
}

// play simulates the beginning of the demo, up to the given length, with an alternative.
func (d *Demo) play(ctx context.Context, a alternative, length time.Duration) (*simulator.Result, error) {
	config, err := scenario(d.options)
	if err != nil {
		return nil, err
	}
	config.Groups = nil
	for i := range config.Workloads {
		w := &config.Workloads[i]
		w.Key, w.Actuator, w.Policy = w.Policy.Workload.Key, a.actuator(w.Policy), nil
	}
	s, err := simulator.New(config)
	if err != nil {
		return nil, err
	}
	for s.Now() < length {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		s.Step(ctx)
	}
	return s.Result(), nil
}

func outcome(name, words string, r *simulator.Result) Outcome {
	o := Outcome{Name: name, Words: words, Cost: r.Cost, OnTime: 1}
	if r.Paid > 0 {
		o.Idle = float64(r.Ledger.Idle()) / float64(r.Paid)
	}
	for i := range r.Loads {
		if l := &r.Loads[i]; l.Arrived > 0 && (o.Policy == "" || l.OnTime < o.OnTime) {
			o.Policy, o.OnTime = l.Key.String(), l.OnTime
		}
	}
	return o
}
