// Package telemetry keeps the newest reading of every signal. Each source is polled at its own pace with its own time-out, in its own
// goroutine: one slow source delays nobody. Workloads that share a source share its polls: one Prometheus query serves all
// workloads of a template, one pipeline all lists of a Redis server. What a tick reads is memory only.
//
// A reading that could not be had is unknown and says why; it is never a zero. Its time is that of the oldest sample behind it, by our
// clock: the clock of each source is measured and taken off. Time is real time here (polling is input and output); everything that
// judges takes it as an argument.
package telemetry

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// Triggers resolves the trigger of a ScaledObject to the external metric that KEDA serves for it. Package cluster implements it.
type Triggers interface {
	// TriggerMetric returns the metric's name and label selector ("scaledobject.keda.sh/name=llama") for the trigger of that name in
	// the ScaledObject that owns the workload; ok is false while KEDA has not published it.
	TriggerMetric(w *scaling.Workload, trigger string) (metric, selector string, ok bool)
}

// Exporters lists pods that are no workload's own: the DCGM exporters, which run one per node. Package cluster implements it.
type Exporters interface {
	Exporters(namespace string, labels map[string]string) []engine.Pod
}

// Nodes knows which nodes offer shares of their GPUs (time-slicing, MPS). Package cluster implements it.
type Nodes interface {
	SharesGPUs(node string) bool
}

// Options are what a Poller works with. Every field may be left zero: what needs it then reads as unreachable.
type Options struct {
	Pods      engine.Pods // pods of a workload, for coverage, matching and direct scrape
	Exporters Exporters
	Nodes     Nodes // nil: no node is known to share its GPUs
	Triggers  Triggers
	// Kubernetes reaches the cluster's external metrics API.
	Kubernetes *rest.Config
	// Leading reports whether this process holds the Lease; nil: always. Only the leader polls data sources. A source whose answer ends
	// the process by a defect that no bound prevents then ends the leader and not, at the same moment, the replica that is to replace it.
	// A standby also has no use for readings: a new leader seeds each window with the current replicas, polls every source within half a
	// second, and lowers no target before readings arrive. Only a latency that is scraped from pods takes two rounds, because its
	// window needs two samples. The load on each source does not grow with the number of replicas.
	Leading func() bool
	// LoopbackPods lets a pod's address be a loopback one, where a whole cluster runs on one machine. In a real cluster such an
	// address would be our own pod.
	LoopbackPods bool
	Registerer   prometheus.Registerer
	Logger       *slog.Logger
}

// Poller polls the sources of all policies and hands out the newest readings. It implements engine.Telemetry.
type Poller struct {
	options Options
	metrics *pollMetrics
	board   board

	mu      sync.Mutex // guards what follows; never held during I/O
	plan    plan
	changed chan struct{}
	state   map[groupKey]*runner
	links   *links
	clocks  clocks
}

// New returns a Poller that polls nothing until SetPolicies and Run.
func New(o Options) (*Poller, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	m, err := newPollMetrics(o.Registerer)
	if err != nil {
		return nil, err
	}
	p := &Poller{options: o, metrics: m, changed: make(chan struct{}, 1), state: map[groupKey]*runner{}}
	p.links = newLinks(&p.options)
	if o.Registerer != nil {
		if err := o.Registerer.Register(offenceCollector{p}); err != nil {
			return nil, err
		}
	}
	p.board.entries.Store(&entries{})
	return p, nil
}

// SetPolicies replaces what is polled. Readings of a signal whose source did not change are kept under the new version of its
// policy: an edit of one bound must not make ten thousand workloads wait for their next poll. It does no I/O, and is to be called
// before anybody decides by the new versions (policy.Options.Prepare): what Read is not told of is unknown.
func (p *Poller) SetPolicies(policies []*policy.Compiled, platform *policy.Platform) {
	if platform == nil {
		platform = &policy.Platform{}
	}
	p.mu.Lock()
	next := newPlan(policies, platform, &p.plan)
	p.plan = next
	p.board.entries.Store(&next.entries)
	p.mu.Unlock()
	select {
	case p.changed <- struct{}{}:
	default: // Run has not seen the last change yet, and will see both at once
	}
}

// Run polls until ctx ends. It must be called once.
func (p *Poller) Run(ctx context.Context) error {
	var all sync.WaitGroup
	defer p.links.close()
	defer all.Wait()
	forget := time.NewTimer(forgetAfter) // I/O edge: paces the cleanup
	defer forget.Stop()
	for {
		p.reconcile(ctx, &all)
		forget.Reset(forgetAfter)
		for waits := true; waits; {
			select {
			case <-ctx.Done():
				return nil
			case <-forget.C:
				p.forget()
			case <-p.changed:
				waits = false
			}
		}
	}
}

// forgetAfter is far longer than a tick may take: then nobody decides by a version that was replaced.
const forgetAfter = time.Minute

// forget lets go of the readings of versions that were replaced.
func (p *Poller) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	kept := p.plan.entries
	kept.replaced = nil
	p.plan.entries = kept
	p.board.entries.Store(&kept)
}

// reconcile starts, updates and stops runners so that they match the plan.
func (p *Poller) reconcile(ctx context.Context, all *sync.WaitGroup) {
	p.mu.Lock()
	defer p.mu.Unlock()
	groups := p.plan.groups
	p.links.update(p.plan.platform)
	for key, r := range p.state {
		if _, ok := groups[key]; !ok || !r.group.Load().sameSource(groups[key]) {
			r.stop()
			delete(p.state, key)
		}
	}
	for key, g := range groups {
		if r, ok := p.state[key]; ok {
			r.update(g)
			continue
		}
		r := newRunner(g, p)
		p.state[key] = r
		all.Go(func() { r.run(ctx) })
	}
}

func (p *Poller) leading() bool { return p.options.Leading == nil || p.options.Leading() }

// Read fills out with the newest readings of w's signals. It reads memory only and allocates nothing.
func (p *Poller) Read(w *scaling.Workload, out []scaling.Reading) { p.board.read(w, out) }

func now() time.Time { return time.Now() } // I/O edge: polls happen in real time, whatever clock decides on their readings
