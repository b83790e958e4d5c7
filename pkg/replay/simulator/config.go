package simulator

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/replay/trace"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// Config is a world to be run. It is not written to, so that several worlds may be made of one.
type Config struct {
	Start time.Time     // the instant of virtual time 0; schedules are read on its calendar
	Seed  uint64        // of everything drawn
	Tick  time.Duration // between two engine ticks; 0 means a second

	Workloads   []Workload   // their order makes no difference
	NodePools   []NodePool   // empty: every replica brings a node of its own, which ends with it (a fleet of GPUs by the second)
	Fleet       Fleet        // where NodePools is empty
	Assumptions *Assumptions // nil means the defaults
	Faults      []Fault

	// Groups are decided by package capacity, as in a cluster: what it nudges are the NodePools above, whose owner hands over all of
	// their fields. A policy belongs to the group that its workload names.
	Groups []*capacity.Group

	Resolution time.Duration // of the series; 0 means a minute, negative none
	Engine     engine.Options
}

// Fleet is the GPUs of a world without NodePools.
type Fleet struct {
	GPUs         int32   // 0: without end
	HourlyPerGPU float64 // $
}

// Workload is a stream of requests, and the replicas that serve it.
type Workload struct {
	Policy   *policy.Compiled // what decides; nil where the Actuator decides for itself
	Key      scaling.Key      // of the policy where there is one
	Actuator ActuatorFactory  // what moves the replicas; nil: FollowHPA, or Direct where no policy is

	Traffic *trace.Trace // nil: no requests
	Service Service
	SLO     time.Duration // W: a request that waits longer for its service is late; 0 means 10 s

	GPUs         int32    // per replica; 0 means 1
	Initial      int32    // replicas ready at the start
	ModelLoad    *Spread  // nil: as assumed
	Pools        []string // names of NodePools it may run on; empty: all
	DoNotDisrupt bool     // its replicas' nodes are not consolidated
	// Measures says what a signal measures, by its name, where its source does not tell (a query of one's own, an external metric).
	Measures map[string]Measure
}

// Service is how long a request takes once it has started. With tokens known: Base + Prefill x input + Decode x output.
type Service struct {
	Slots   int           // requests that a replica serves at once; 0 means 1
	Fixed   time.Duration // above 0: every request takes this
	Base    time.Duration
	Prefill time.Duration // per input token
	Decode  time.Duration // per output token, at a full batch
	Input   int           // tokens of a request whose trace does not say
	Output  int
	// CacheTokens is what fills a replica's KV cache, for kvCacheUsage; 0: the cache is never seen to fill.
	CacheTokens int
}

// Chat8B is an 8B model on one mid-size GPU: 1.2 of the Azure trace's conversations a second with 8 slots.
var Chat8B = Service{Slots: 8, Base: 50 * time.Millisecond, Prefill: 200 * time.Microsecond, Decode: 30 * time.Millisecond, Input: 1155, Output: 211, CacheTokens: 32000}

// Takes is the service time of a request, in whole microseconds, at least one.
func (s *Service) Takes(r trace.Request) time.Duration {
	d := s.Fixed
	if d <= 0 {
		in, out := s.tokens(r)
		d = s.Base + time.Duration(in)*s.Prefill + time.Duration(out)*s.Decode
	}
	return max(d.Truncate(time.Microsecond), time.Microsecond)
}

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

// Fault silences metrics for a while.
type Fault struct {
	Key      scaling.Key   // zero: every workload
	Signal   string        // a signal's name; empty: all
	From, To time.Duration // virtual time
	Cause    scaling.Cause // what the readers are told; 0 means CauseUnreachable
	Share    float64       // of the pods that do not report, 0..1; 0: nothing is answered at all. Only what pods report can be silenced in part
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
	errs = append(errs, c.checkPools()...)
	return errors.Join(errs...)
}

func (w *Workload) key() scaling.Key {
	if w.Policy != nil {
		return w.Policy.Workload.Key
	}
	return w.Key
}
