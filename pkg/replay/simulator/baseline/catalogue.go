package baseline

import (
	"slices"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/hpa"
	"github.com/gpuscaler/gpuscaler/pkg/replay/measure"
	"github.com/gpuscaler/gpuscaler/pkg/replay/reproducible"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/autoscaler"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// Baseline is an autoscaler that gpuscaler is compared with. It has the knobs that a search can tune, with their documented defaults.
type Baseline struct {
	Name  string
	Words string // description for the report
	Knobs []Knob
	// NewActuator returns the autoscaler with the given settings, one for each knob.
	NewActuator func(b Bounds, settings []float64) autoscaler.Factory
	// Fixed returns the number of replicas of a baseline with a constant number. Several settings can give the same number of replicas; a
	// search uses Fixed to simulate each number only once. Fixed is nil for a baseline that changes its replicas.
	Fixed func(b Bounds, settings []float64) int32
}

// Knob is a parameter of a baseline.
type Knob struct {
	Name    string
	Default float64
	Tries   []float64 // values that a search tries: the first gives the most replicas, the last the fewest
	Per     Per
}

// Per specifies which property of the service a knob depends on. The values in the catalogue are for the service simulator.Chat8B, and
// ScaledTo converts them.
type Per uint8

// The properties of a service to which a knob can be proportional.
const (
	Constant Per = iota // does not depend on the service
	PerSlot             // proportional to the slots of a replica, for example a number of requests per replica
	PerRate             // proportional to the requests per second that a replica serves
)

// ScaledTo returns the baseline for another service: it multiplies Default and Tries of each knob by a factor that depends on Per. slots is
// the factor for PerSlot: the slots of the other service divided by the slots of simulator.Chat8B. rate is the factor for PerRate: the
// requests per second that a replica of the other service serves, divided by the requests per second that a replica of simulator.Chat8B
// serves.
func (r Baseline) ScaledTo(slots, rate float64) Baseline {
	r.Knobs = slices.Clone(r.Knobs)
	for i := range r.Knobs {
		k := &r.Knobs[i]
		by := map[Per]float64{Constant: 1, PerSlot: slots, PerRate: rate}[k.Per]
		k.Default, k.Tries = reproducible.ThreeDigits(k.Default*by), slices.Clone(k.Tries)
		for j := range k.Tries {
			k.Tries[j] = reproducible.ThreeDigits(k.Tries[j] * by)
		}
	}
	return r
}

// Bounds are the minimum and maximum replicas of a workload.
type Bounds struct {
	Min, Max  int32
	Schedules []scaling.Schedule // schedules of the policy; baselines with cron triggers use their minimum
}

// Default returns the baseline with its documented defaults.
func (r *Baseline) Default(b Bounds) autoscaler.Factory {
	settings := make([]float64, len(r.Knobs))
	for i, k := range r.Knobs {
		settings[i] = k.Default
	}
	return r.NewActuator(b, settings)
}

// downWindow is the knob for scaleDown.stabilizationWindowSeconds of an HPA.
var downWindow = Knob{Name: "scaleDown window, s", Default: 300, Tries: []float64{1800, 900, 600, 300, 120, 60, 0}}

// All returns all baselines. An HPA cannot scale to zero, so its minimum is one.
func All() []Baseline {
	return []Baseline{
		{
			Name: "static", Words: "a fixed number of replicas; by default the most that the policy allows",
			Knobs:       []Knob{{Name: "replicas, share of the most", Default: 1, Tries: []float64{1, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1}}},
			Fixed:       fixedReplicas,
			NewActuator: func(b Bounds, s []float64) autoscaler.Factory { return Static(fixedReplicas(b, s)) },
		},
		{
			Name: "hpa-gpu", Words: "HPA on mean GPU utilization per pod (Pods metric of the DCGM exporter), behavior's defaults",
			Knobs:       []Knob{{Name: "target", Default: 0.7, Tries: []float64{0.5, 0.6, 0.7, 0.8, 0.9, 0.95}}, downWindow},
			NewActuator: func(b Bounds, s []float64) autoscaler.Factory { return HPAOnActivity(hpaOf(b, s[1]), s[0]) },
		},
		{
			Name: "hpa-queue", Words: "HPA on waiting requests per replica (External, AverageValue), behavior's defaults",
			Knobs:       []Knob{{Name: "target", Default: 5, Tries: []float64{1, 2, 3, 5, 10, 20, 40}, Per: PerSlot}, downWindow},
			NewActuator: func(b Bounds, s []float64) autoscaler.Factory { return HPAOnQueue(hpaOf(b, s[1]), s[0]) },
		},
		{
			Name: "hpa-concurrency", Words: "HPA on running requests per replica (Pods metric of the model server), behavior's defaults",
			Knobs: []Knob{{Name: "target", Default: 4, Tries: []float64{1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 32}, Per: PerSlot}, downWindow},
			NewActuator: func(b Bounds, s []float64) autoscaler.Factory {
				return HPA(hpaOf(b, s[1]), Metric{Measure: measure.Running, Type: PodsAverage, Target: s[0]})
			},
		},
		{
			Name: "keda", Words: "KEDA: queue trigger counting requests in flight, cron triggers for floors, pollingInterval 30 s, from and to zero",
			Knobs: []Knob{
				{Name: "target", Default: 5, Tries: []float64{1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 32}, Per: PerSlot},
				{Name: "cooldownPeriod, s", Default: 300, Tries: []float64{28800, 7200, 3600, 1800, 900, 300, 60}}, downWindow,
			},
			NewActuator: func(b Bounds, s []float64) autoscaler.Factory {
				spec := hpaOf(b, s[2])
				return KEDA{Min: b.Min, Max: b.Max, Cooldown: seconds(s[1]), Behavior: spec.Behavior, Cron: cronOf(b.Schedules),
					Triggers: []KEDATrigger{{Measure: measure.InSystem, Target: s[0]}}}.NewActuator
			},
		},
		{
			Name:  "knative",
			Words: "Knative's KPA on concurrency, 70% of the slots, stable window 60 s, panic window 6 s at 200%, scraped each second",
			Knobs: []Knob{
				{Name: "target", Default: 5.6, Tries: []float64{3, 4, 5, 5.6, 6, 7, 8, 9, 10, 12}, Per: PerSlot},
				{Name: "stable window, s", Default: 60, Tries: []float64{600, 300, 180, 120, 60, 30}},
				{Name: "scale-down-delay, s", Default: 0, Tries: []float64{1800, 900, 600, 300, 120, 0}},
				{Name: "panic threshold", Default: 2, Tries: []float64{1.1, 1.5, 2, 4, 10}},
			},
			NewActuator: func(b Bounds, s []float64) autoscaler.Factory {
				return Knative{Min: b.Min, Max: max(1, b.Max), Target: s[0], StableWindow: seconds(s[1]),
					ScaleDownDelay: seconds(s[2]), PanicThreshold: s[3]}.NewActuator
			},
		},
		{
			Name: "llm-d-wva", Words: "llm-d's WVA, saturation rules on KV cache and queue (version 1), one replica at a time, each 60 s",
			Knobs: []Knob{
				{Name: "kvSpareTrigger", Default: 0.1, Tries: []float64{0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.05}},
				{Name: "queueSpareTrigger", Default: 3, Tries: []float64{4.9, 4.5, 4, 3, 2, 1}},
				{Name: "interval, s", Default: 60, Tries: []float64{15, 30, 60}},
			},
			NewActuator: func(b Bounds, s []float64) autoscaler.Factory {
				return WVA{Min: b.Min, Max: max(1, b.Max), CacheSpare: s[0], QueueSpare: s[1], Interval: seconds(s[2])}.NewActuator
			},
		},
		{
			Name: "skyserve", Words: "SkyServe's request-rate autoscaler, upscale delay 300 s, downscale delay 1200 s",
			Knobs: []Knob{
				{Name: "target_qps_per_replica", Default: 1, Tries: []float64{0.5, 0.7, 0.8, 0.9, 1, 1.1, 1.2, 1.3}, Per: PerRate},
				{Name: "upscale delay, s", Default: 300, Tries: []float64{20, 40, 60, 120, 300}},
				{Name: "downscale delay, s", Default: 1200, Tries: []float64{2400, 1200, 600, 300, 120, 60, 20}},
			},
			NewActuator: func(b Bounds, s []float64) autoscaler.Factory {
				return SkyServe{Min: max(1, b.Min), Max: max(1, b.Max), Target: s[0], Up: seconds(s[1]), Down: seconds(s[2])}.NewActuator
			},
		},
	}
}

// fixedReplicas returns the replicas of the baseline static.
func fixedReplicas(b Bounds, settings []float64) int32 {
	return max(1, b.Min, int32(float64(float64(b.Max)*settings[0])+0.5))
}

func hpaOf(b Bounds, window float64) hpa.Spec {
	behavior := hpa.DefaultBehavior()
	behavior.Down.StabilizationWindow = seconds(window)
	return hpa.Spec{Min: max(1, b.Min), Max: max(1, b.Max), Behavior: behavior}
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// cronOf returns the minimum of each schedule as a cron trigger of KEDA.
func cronOf(schedules []scaling.Schedule) (triggers []CronTrigger) {
	for _, s := range schedules {
		if s.Min > 0 {
			triggers = append(triggers, CronTrigger{Window: s.Window, Desired: s.Min})
		}
	}
	return triggers
}
