// Package telemetry polls the signals of all policies and keeps their newest readings.
//
// Each data source is polled at its own interval, with its own time limit and in its own goroutines, so that a slow source delays no
// other one. Workloads that share a source share its polls: one Prometheus query serves all workloads of a template, and one pipeline
// reads all lists of a Redis server. A tick reads memory only.
//
// A signal that cannot be read is unknown, with the cause; it is never 0. The time of a reading is that of the oldest sample behind it
// by our clock: the clock of each source is measured, and its sample times are corrected by the difference. Polls happen in real time.
// The decisions take the time as an argument.
//
// # Packages
//
//	telemetry   what is polled and when; the newest readings; metrics and limits of data sources
//	promquery   queries to Prometheus servers        promapi     the HTTP API of Prometheus
//	scrape      the /metrics pages of pods           exposition  their format, and the metrics of each engine
//	redisqueue  Redis lists and streams              resp        the bounds of Redis replies
//	external    the external metrics API             fetch       HTTP requests, addresses that are refused, clocks
//	pods        readings of workloads from values of pods
//	source      what all sources share
//	history     queries over time ranges, for reports and lint; usage computes GPU usage from them
//
// # Buffers
//
// No buffer is allocated by a length that a peer announces before that length is compared with a limit. For each library that reads bytes
// of a peer, this table has what sizes its buffers and the limit that applies first.
//
//	library                        sized by                           limit that applies first
//	net/http, answers              body: read in pieces; no buffer    fetch.Request.Bytes: maxBytes of the data source, 8 MiB for a pod's
//	                               by Content-Length                  page, after decompression; fetch.ErrTruncated
//	net/http, headers of answers   the headers received               64 KiB for pods, net/http's 10 MiB for servers that the platform
//	                                                                  team declares
//	net/http, HTTP/2               our own windows: 4 MiB a stream    the same, because a server cannot exceed the windows
//	compress/gzip                  a window of 32 KiB                 as for bodies, counted after decompression; queries to Prometheus
//	                                                                  accept no compression
//	encoding/json (promapi)        the current token; it doubles      maxBytes; maxSeries for elements; 16 KiB of labels for each series
//	client_golang API (history)    the whole body                     history.Limits.Bytes: 256 MiB, or maxBytes of the data source
//	expfmt (exposition)            the lines that Parse keeps         exposition.DefaultLimits: 64 KiB a line, 4,000 series, 1 MiB kept
//	go-redis                       announced lengths of strings and   package resp, which reads every byte first: 8 MiB, 2^18 elements,
//	                               arrays, before they are received   64 KiB a string, 8 nested arrays; RESP3 is refused
//	client-go (external metrics)   the whole body                     1 MiB of each answer, before client-go reads it
//
// The servers have limits of their own. gRPC (KEDA's external scaler) allocates a message by its announced length, and first compares it
// with MaxRecvMsgSize, 64 KiB; headers have MaxHeaderListSize, 16 KiB. HTTP servers have 16 KiB of headers and read no bodies: see
// packages externalmetrics and serve.
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
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/external"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/pods"
)

// Options are the dependencies of a Poller. Every field may be zero: the signals that need it are then unreachable.
type Options struct {
	Pods      engine.Pods // pods of a workload
	Exporters pods.Exporters
	Nodes     pods.Nodes // nil: no node is known to share its GPUs
	Triggers  external.Triggers
	// Kubernetes is the connection to the cluster's external metrics API.
	Kubernetes *rest.Config
	// Leading reports whether this process holds the Lease; nil: always. Only the leader polls data sources. An answer that ends the
	// process, by a defect that no limit prevents, then does not end the leader and the standbys at the same time. A standby needs no
	// readings: a new leader seeds each window with the current replicas, polls every source within half a second, and lowers no target
	// before it has readings. Only a latency that is scraped from pods takes two polls. The load on each source does not grow with the
	// number of standbys.
	Leading func() bool
	// LoopbackPods permits pods with a loopback address, for a cluster on one machine. Elsewhere such an address would be our own pod.
	LoopbackPods bool
	Quota        Quota // of each namespace at each Prometheus data source
	Registerer   prometheus.Registerer
	Logger       *slog.Logger
}

// Poller polls the data sources of all policies and returns the newest readings. It implements engine.Telemetry.
type Poller struct {
	options Options
	metrics *pollMetrics
	latest  latestReadings
	sources *dataSources
	clocks  clockReports
	changed chan struct{}

	mu      sync.Mutex // guards plan and runners; it is not held during I/O
	plan    plan
	runners map[groupKey]*runner
}

// New returns a Poller. It polls nothing before SetPolicies and Run.
func New(o Options) (*Poller, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.Quota = o.Quota.withDefaults()
	m, err := newPollMetrics(o.Registerer)
	if err != nil {
		return nil, err
	}
	p := &Poller{options: o, metrics: m, changed: make(chan struct{}, 1), runners: map[groupKey]*runner{}}
	p.sources = newDataSources(&p.options)
	if o.Registerer != nil {
		if err := o.Registerer.Register(violationCollector{p}); err != nil {
			return nil, err
		}
	}
	p.latest.entries.Store(&entries{})
	return p, nil
}

// SetPolicies replaces the policies whose signals are polled. A signal whose source did not change keeps its reading, so that an edit of
// one bound does not make ten thousand workloads wait for their next poll. SetPolicies does no I/O. Call it before any tick decides by
// the new versions (policy.Options.Prepare): the signals of a version that it was not called with are unknown.
func (p *Poller) SetPolicies(policies []*policy.Compiled, platform *policy.Platform) {
	if platform == nil {
		platform = &policy.Platform{}
	}
	p.mu.Lock()
	next := newPlan(policies, platform, p.options.Quota, &p.plan)
	p.plan = next
	p.latest.entries.Store(&next.entries)
	p.mu.Unlock()
	select {
	case p.changed <- struct{}{}:
	default: // Run has not handled the last change yet, and handles both together
	}
}

// Run polls until ctx ends. Call it once.
func (p *Poller) Run(ctx context.Context) error {
	var all sync.WaitGroup
	defer p.sources.close()
	defer all.Wait()
	cleanup := time.NewTimer(replacedRetention) // I/O edge: schedules the cleanup in real time
	defer cleanup.Stop()
	for {
		p.reconcile(ctx, &all)
		cleanup.Reset(replacedRetention)
		for waits := true; waits; {
			select {
			case <-ctx.Done():
				return nil
			case <-cleanup.C:
				p.deleteReplaced()
			case <-p.changed:
				waits = false
			}
		}
	}
}

// replacedRetention is how long the readings of a replaced version are kept. It is much longer than a tick, so that no tick still decides
// by that version.
const replacedRetention = time.Minute

// deleteReplaced deletes the readings of replaced versions.
func (p *Poller) deleteReplaced() {
	p.mu.Lock()
	defer p.mu.Unlock()
	kept := p.plan.entries
	kept.replaced = nil
	p.plan.entries = kept
	p.latest.entries.Store(&kept)
}

// reconcile starts, updates and stops runners so that they match the plan.
func (p *Poller) reconcile(ctx context.Context, all *sync.WaitGroup) {
	p.mu.Lock()
	defer p.mu.Unlock()
	groups := p.plan.groups
	p.sources.update(p.plan.platform)
	for key, r := range p.runners {
		if _, ok := groups[key]; !ok || !r.group.Load().sameSource(groups[key]) {
			r.stop()
			delete(p.runners, key)
		}
	}
	for key, g := range groups {
		if r, ok := p.runners[key]; ok {
			r.update(g)
			continue
		}
		r := newRunner(g, p)
		p.runners[key] = r
		all.Go(func() { r.run(ctx) })
	}
}

func (p *Poller) leading() bool { return p.options.Leading == nil || p.options.Leading() }

// Read fills out with the newest readings of w's signals. It reads memory only and does not allocate.
func (p *Poller) Read(w *scaling.Workload, out []scaling.Reading) { p.latest.read(w, out) }

func now() time.Time { return time.Now() } // I/O edge: polls happen in real time
