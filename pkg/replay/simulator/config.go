package simulator

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/replay/measure"
	"github.com/gpuscaler/gpuscaler/pkg/replay/reproducible"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/autoscaler"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/karpenter"
	"github.com/gpuscaler/gpuscaler/pkg/replay/trace"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// Config describes a simulation. A simulator does not modify its Config, so several simulators can use the same Config.
type Config struct {
	Start time.Time     // time of virtual time 0; schedules use its calendar
	Seed  uint64        // seed of all random numbers
	Tick  time.Duration // time between two engine ticks; 0 means one second

	Workloads   []Workload           // their order has no effect
	NodePools   []karpenter.NodePool // empty: every replica has its own node, which is removed with the replica (GPUs billed per second)
	Fleet       karpenter.Fleet      // used if NodePools is empty
	Assumptions *Assumptions         // nil means DefaultAssumptions
	Faults      []Fault

	// Groups are the capacity groups. Package capacity decides for them as it does in a cluster. A group overrides fields of its simulated
	// NodePools; the owner of a NodePool consents to all of these overrides. A policy's workload is in the group that its field Group names.
	Groups []*capacity.Group

	// ReportFrom is the virtual time at which the report part of the run begins. After that time, the results cover only the report part. The
	// earlier train part only provides history, for example for forecasts. Requests belong to the part in which they arrive. GPU time, cost
	// and starts belong to the part in which they occur.
	ReportFrom time.Duration

	Resolution time.Duration // time between two points of the series; 0 means a minute, a negative value no series
	Engine     engine.Options
}

// Workload is a stream of requests with the replicas that serve it.
type Workload struct {
	Policy   *policy.Compiled   // the policy that decides; nil for a baseline
	Key      scaling.Key        // name of the workload, if Policy is nil
	Actuator autoscaler.Factory // creates the actuator that writes spec.replicas; nil: autoscaler.Follower of the policy

	Traffic *trace.Trace // nil: no requests
	Service Service
	SLO     time.Duration // a request is on time if it waits at most this long; 0 means 10 s

	GPUs         int32                // GPUs per replica; 0 means 1
	Initial      int32                // replicas ready at the start
	ModelLoad    *reproducible.Spread // duration of the model load; nil: the value of Assumptions
	Pools        []string             // names of the allowed NodePools; empty: all
	DoNotDisrupt bool                 // the nodes of its replicas are not disrupted by consolidation
	// Measures contains what a signal measures, by the name of the signal. It is necessary only for a signal whose source does not show what
	// it measures: a custom query or an external metric.
	Measures map[string]measure.Measure
}

// Service determines the service time of a request: Fixed if it is set, otherwise the service time in the trace, otherwise Base + Prefill x
// input + Decode x output.
type Service struct {
	Slots   int           // requests that a replica serves concurrently; 0 means 1
	Fixed   time.Duration // above 0: service time of every request
	Base    time.Duration
	Prefill time.Duration // time per input token
	Decode  time.Duration // time per output token, at a full batch
	Input   int           // assumed number of input tokens of a request without a recorded number
	Output  int
	// IgnoreRecorded ignores the service times in the trace. It is set if they were recorded with another service.
	IgnoreRecorded bool
	// CacheTokens is the size of a replica's KV cache in tokens, for kvCacheUsage; 0: usage is always 0.
	CacheTokens int
}

// Chat8B is an 8B model on one mid-size GPU with 8 slots. It serves 1.2 conversations of the Azure trace per second.
var Chat8B = Service{
	Slots: 8, Base: 50 * time.Millisecond, Prefill: 200 * time.Microsecond, Decode: 30 * time.Millisecond,
	Input: 1155, Output: 211, CacheTokens: 32000,
}

// WithSlots returns the service with another number of slots, and a KV cache with as many tokens per slot as before. With an unchanged
// cache, each slot would have fewer tokens, and kvCacheUsage would reach 100% before all slots are used.
func (s Service) WithSlots(slots int) Service {
	if slots > 0 && s.Slots > 0 {
		s.CacheTokens = s.CacheTokens / s.Slots * slots
	}
	s.Slots = slots
	return s
}

// Takes returns the service time of a request in whole microseconds, at least one.
func (s *Service) Takes(r trace.Request) time.Duration {
	d := s.Fixed
	if d <= 0 && !s.IgnoreRecorded {
		d = r.Service
	}
	if d <= 0 {
		in, out := s.tokens(r)
		d = s.Base + time.Duration(in)*s.Prefill + time.Duration(out)*s.Decode
	}
	return max(d.Truncate(time.Microsecond), time.Microsecond)
}

// tokens returns the input and output tokens of a request. For an unknown number it returns the number in the service.
func (s *Service) tokens(r trace.Request) (in, out int) {
	in, out = r.InputTokens, r.OutputTokens
	if in == trace.UnknownTokens {
		in = s.Input
	}
	if out == trace.UnknownTokens {
		out = s.Output
	}
	return in, out
}

// Fault hides metrics for a period of time.
type Fault struct {
	Key      scaling.Key   // the affected workload; zero: every workload
	Signal   string        // the affected signal; empty: all signals
	From, To time.Duration // virtual times of the start and the end
	Cause    scaling.Cause // cause in the readings during the fault; 0 means CauseUnreachable
	Share    float64       // share of the pods that do not report a measure; 0: the whole query fails
}

func (f *Fault) silences(k scaling.Key, signal string, now time.Duration) bool {
	return f.From <= now && now < f.To && (f.Key == scaling.Key{} || f.Key == k) && (f.Signal == "" || f.Signal == signal)
}

func (c *Config) withDefaults() {
	c.Tick = cmp.Or(c.Tick, time.Second)
	c.Resolution = cmp.Or(c.Resolution, time.Minute)
	if c.Start.IsZero() {
		c.Start = time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC)
	}
}

func (c *Config) check() error {
	var errs []error
	if c.ReportFrom < 0 {
		errs = append(errs, fmt.Errorf("the report part begins at %s, before the start", c.ReportFrom))
	}
	seen := map[scaling.Key]bool{}
	for i := range c.Workloads {
		w := &c.Workloads[i]
		k := w.key()
		if seen[k] {
			errs = append(errs, fmt.Errorf("two workloads are named %s", k))
		}
		seen[k] = true
		if k.Name == "" {
			errs = append(errs, errors.New("a workload has neither a policy nor a name"))
		}
		if w.Policy == nil && w.Actuator == nil {
			errs = append(errs, fmt.Errorf("%s: neither a policy nor an actuator decides for it", k))
		}
		if w.Service.Slots < 0 || w.Service.Slots > 4096 || w.GPUs < 0 || w.Initial < 0 {
			errs = append(errs, fmt.Errorf("%s: slots are 0 to 4096, GPUs and initial replicas at least 0", k))
		}
	}
	errs = append(errs, karpenter.CheckPools(c.NodePools)...)
	for i := range c.Workloads {
		errs = append(errs, c.Workloads[i].template(0).Check(c.NodePools)...)
	}
	return errors.Join(errs...)
}

func (w *Workload) key() scaling.Key {
	if w.Policy != nil {
		return w.Policy.Workload.Key
	}
	return w.Key
}

// template returns the description of the workload's pods for package karpenter. image is the index of the workload's image.
func (w *Workload) template(image int32) *karpenter.Template {
	return &karpenter.Template{Name: w.key().String(), Image: image, GPUs: max(w.GPUs, 1), Pools: w.Pools, DoNotDisrupt: w.DoNotDisrupt}
}
