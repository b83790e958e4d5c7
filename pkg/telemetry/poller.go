// Package telemetry polls the signals of all policies and keeps their newest readings.
//
// Each data source is polled at its own interval, with its own time limit and in its own goroutines, so that a slow source does not delay
// the others. Workloads that share a source share its polls: one Prometheus query serves all workloads that use the same query template,
// and one Redis pipeline reads all lists of a Redis server. Polls run in the background, and a tick reads their results from memory.
//
// A signal that cannot be read is unknown and never 0, and its reading has the cause. The time of a reading is the time of the oldest
// sample from which the value is computed. Sample times are converted to gpuscaler's clock: the difference between the clock of each source
// and gpuscaler's clock is measured and subtracted. Polls use the real clock. Decisions do not: they receive the time as an argument.
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
// A server can announce any length for the data that it sends. An announced length is compared with a limit before a buffer of that length
// is allocated. For each library that reads data from a server, this table shows what determines the size of its buffers, and which limit
// applies first.
//
//	library                        sized by                           limit that applies first
//	net/http, answers              body: read in pieces; no buffer    fetch.Request.Bytes: maxBytes of the data source, 8 MiB for a pod's
//	                               by Content-Length                  page, after decompression; fetch.ErrTruncated
//	net/http, headers of answers   the headers received               64 KiB for pods, net/http's 10 MiB for servers that the platform
//	                                                                  team declares
//	net/http, HTTP/2               our own windows: 4 MiB a stream    the same, because a server cannot exceed the windows
//	compress/gzip                  a window of 32 KiB                 as for bodies, counted before and after decompression
//	encoding/json (promapi)        the current token; it doubles      maxBytes; maxSeries for elements; 16 KiB of labels for each series
//	client_golang API (history)    the whole body                     history.Limits.Bytes: 256 MiB, or maxBytes of the data source
//	expfmt (exposition)            the lines that Parse keeps         exposition.DefaultLimits: 64 KiB a line, 4,000 series, 1 MiB kept
//	go-redis                       announced lengths of strings and   package resp, which reads every byte first: 8 MiB, 2^18 elements,
//	                               arrays, before they are received   64 KiB a string, 8 nested arrays; RESP3 is refused
//	client-go (external metrics)   the whole body                     1 MiB of each answer, before client-go reads it
//
// gpuscaler's own servers have other limits; see packages externalmetrics and serve. The gRPC server (KEDA's external scaler) compares the
// announced length of a message with MaxRecvMsgSize (64 KiB) before it allocates the message, and limits headers to MaxHeaderListSize (16
// KiB). The HTTP servers limit headers to 16 KiB and read no bodies.
package telemetry

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/external"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/pods"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/redisqueue"
)

// Options are the dependencies of a Poller. Every field may be zero. If a dependency is missing, the signals that need it are
// unreachable.
type Options struct {
	Pods      engine.Pods // returns the pods of a workload
	Exporters pods.Exporters
	Nodes     pods.Nodes // reports nodes whose GPUs are shared; nil: no node is known to share its GPUs
	Triggers  external.Triggers
	// Kubernetes is the connection to the cluster's external metrics API.
	Kubernetes *rest.Config
	// Leading reports whether this process holds the Lease. If Leading is nil, the process always polls. Only the leader polls data sources,
	// for two reasons:
	//
	//   - A response that crashes the process because of a defect crashes only the leader, and a standby continues.
	//   - The load on each source does not grow with the number of standbys.
	//
	// A standby needs no readings. A new leader seeds each stabilization window with the current replicas, polls every source within half a
	// second, and decreases no target before it has readings. A latency that is scraped from pods is known only after two polls.
	Leading func() bool
	// LoopbackPods permits pods with a loopback address, for a cluster that runs on one machine. In any other cluster a loopback address
	// would be the address of gpuscaler's own pod.
	LoopbackPods bool
	Quota        Quota // limits for each namespace at each Prometheus data source
	// Transport answers the requests to Prometheus servers in a simulation. If it is nil, requests use the network.
	Transport http.RoundTripper
	// DialRedis opens the connections to Redis servers, for example through a proxy or to a server in the memory of a test. TLS and the
	// limits of the replies apply to these connections. If it is nil, the poller connects to the address of the data source.
	DialRedis  redisqueue.Dialer
	Registerer prometheus.Registerer
	Logger     *slog.Logger
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

// SetPolicies replaces the policies whose signals are polled. A signal whose source did not change keeps its reading, because otherwise an
// edit of one policy would make all workloads wait for their next poll. SetPolicies does no I/O.
//
// Call SetPolicies before the first tick that uses the new versions of the policies, because the signals of a version that was not passed
// to SetPolicies are unknown. For this purpose, set Options.Prepare of package policy/store to SetPolicies.
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
	default: // the channel already contains a notification, so Run will handle both changes at once
	}
}

// Run polls until ctx ends. Call it once.
func (p *Poller) Run(ctx context.Context) error {
	var all sync.WaitGroup
	defer p.sources.close()
	defer all.Wait()
	cleanup := time.NewTimer(replacedRetention) // may use the clock: starts the cleanup after an interval of real time
	defer cleanup.Stop()
	for {
		p.reconcile(func(r *runner) { all.Go(func() { r.run(ctx) }) })
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

// replacedRetention is how long the readings of the previous version of a policy are kept after an edit. A tick in progress may still read
// them, and every tick is shorter than this time.
const replacedRetention = time.Minute

// deleteReplaced deletes the readings of the previous versions of policies.
func (p *Poller) deleteReplaced() {
	p.mu.Lock()
	defer p.mu.Unlock()
	kept := p.plan.entries
	kept.replaced = nil
	p.plan.entries = kept
	p.latest.entries.Store(&kept)
}

// PollOnce polls every source once, in the caller's goroutine, and returns. A caller that determines the time of each poll, such as a
// simulation, uses it instead of Run.
func (p *Poller) PollOnce(ctx context.Context) {
	p.reconcile(func(*runner) {})
	p.deleteReplaced()
	p.mu.Lock()
	runners := slices.SortedFunc(maps.Values(p.runners), func(a, b *runner) int {
		return cmp.Compare(fmt.Sprint(a.group.Load().key), fmt.Sprint(b.group.Load().key))
	})
	p.mu.Unlock()
	for _, r := range runners {
		r.poll(ctx)
	}
}

// reconcile starts, updates and stops runners so that there is one runner for each group of the plan. It calls start to run a new runner.
func (p *Poller) reconcile(start func(*runner)) {
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
		start(r)
	}
}

func (p *Poller) leading() bool { return p.options.Leading == nil || p.options.Leading() }

// Read copies the newest readings of the workload's signals to the parameter out. It reads only memory and does not allocate.
func (p *Poller) Read(w *scaling.Workload, out []scaling.Reading) { p.latest.read(w, out) }

func now() time.Time { return time.Now() } // may use the clock: polls use the real clock
