package main

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing/fstest"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/cluster"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/buffers"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/cache"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/deviceclaims"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/karpenter"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/leader"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/nodepoolwriter"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/nodes"
	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/externalmetrics"
	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/store"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry"
)

// replica is one process of gpuscaler. Most of its components are the product's own code: policy store, poller, caches, engine, writer
// and servers. In one seed in five, the leader election is also the product's (package leader). Only the watches (method deliver) and the
// loop of the controller (method step) are models.
type replica struct {
	sim     *simulation
	name    string
	release string // the Lease of the release, as NAMESPACE/NAME
	log     *slog.Logger

	up       bool
	restart  time.Time // time at which a killed process starts again
	paused   time.Time // the process does not run before this time
	cut      time.Time // no request reaches the API server before this time
	lag      time.Duration
	stopping time.Time // SIGTERM was received, and the process ends at this time
	started  time.Time

	lease  election
	cursor int // index in the API server's log of the version that the watches deliver next
	seen   map[string]string

	policies *store.Store
	edition  int       // index in people.editions of the policy files that the store has loaded
	decided  int       // index in people.editions of the policy files that the last tick used
	editedAt time.Time // time of the first tick that used the policy files with the index decided
	poller   *telemetry.Poller
	polled   time.Time
	polling  chan struct{}   // closed when the current poll has ended
	life     context.Context // ends when the process is killed
	end      context.CancelFunc
	pushes   *pushServer
	cache    *cache.Cache
	nodes    *nodes.Cache
	writer   *nodepoolwriter.Writer
	engine   *engine.Engine
	metrics  *externalmetrics.Provider
	scaler   *externalmetrics.Scaler
	pending  []delayedWrite
	job      *job // the job that runs now; nil: none
	ticked   time.Time

	releases *leader.Releases // nil until the first call of otherReleases

	shown map[string]any // the last object of each kind and name that the watches delivered
}

func newReplica(s *simulation, name string) *replica {
	r := &replica{sim: s, name: name, release: releaseOf(name), log: slog.New(slog.DiscardHandler)}
	r.start()
	return r
}

// start creates the parts of a new process. Its watches begin with the current objects.
func (r *replica) start() {
	*r = replica{sim: r.sim, name: r.name, release: r.release, log: r.log, up: true, lag: r.lag, cut: r.cut, started: r.sim.now,
		edition: -1, decided: -1,
		seen: map[string]string{}, shown: map[string]any{}}
	r.life, r.end = context.WithCancel(context.Background())
	r.lease = newElection(r)
	delete(r.sim.check.samples, r)
	r.policies = store.New(store.Options{Clock: time.Now, Prepare: func(all []*policy.Compiled, platform *policy.Platform) {
		r.poller.SetPolicies(all, platform)
	}})
	var err error
	r.cache = cache.New(36)
	source := prometheusClient{r, r.life}
	r.poller, err = telemetry.New(telemetry.Options{Pods: r.cache, Transport: source, DialRedis: r.redisClient().dial,
		Leading: r.lease.leading, Logger: r.log})
	if err != nil {
		panic(err)
	}
	changed := func() { r.nodes.Changed() }
	claims := deviceclaims.New(changed)
	r.cache.SetClaims(claims.Count)
	r.nodes = nodes.New(nodes.Options{
		Workloads: cluster.NodeWorkloads{Cache: r.cache}, WorkloadsSynced: func() bool { return true }, Groups: r.policies,
		Claims: claims, Log: r.log,
		Buffers: buffers.New(buffers.Options{
			Allowed:   func(context.Context, string) (bool, error) { return false, nil },
			Requested: func() bool { return false }, Changed: changed, Log: r.log,
		}),
	})
	r.nodes.SetSchema(karpenter.Schema{
		Known: true, Limits: true, Weight: true, ConsolidateAfter: true, ConsolidationPolicy: true, Budgets: true,
		DoNotDisruptDuration: true,
	})
	r.writer = nodepoolwriter.New(nodepoolwriter.Options{
		Client: client{replica: r}, Release: r.release, Leading: r.lease.leading, Current: r.nodes.NodePool,
		OverriddenByOther: r.overriddenByOther,
		Event:             func(corev1.ObjectReference, string, string, string) {}, Writes: nodepoolwriter.NewWritesMetric(), Log: r.log,
	})
	r.engine = engine.New(r.policies, r.poller, clusterView{r}, engine.Options{
		Groups: r.policies, Nodes: nodeWrites{r.nodes, r}, OnTransition: func(t engine.Record) { r.sim.check.transition(r, &t) },
		OnGroup: func(g engine.GroupRecord) { r.sim.traceGroup(r, &g) },
	})
	r.metrics = externalmetrics.NewProvider(r.engine.Decisions(), time.Now)
	r.scaler = externalmetrics.NewScaler(r.engine.Decisions(), time.Now)
	r.pushes = newPushServer(r)
	r.load()
	for i := range r.sim.api.Log {
		if r.sim.api.Latest(i) {
			r.show(&r.sim.api.Log[i])
		}
	}
	r.cursor = len(r.sim.api.Log)
}

// kill ends the process at once, without another request.
func (r *replica) kill() {
	if r.up {
		r.up, r.restart = false, r.sim.now.Add(8*time.Second)
		r.sim.trace("%s: killed", r.name)
		r.end()
		r.lease.kill()
		r.abandon()
	}
}

// leadsNoMore clears the memory of the engine and stops the servers, as the product does when its leadership ends.
func (r *replica) leadsNoMore() {
	r.engine.Reset()
	r.sim.check.forget(r)
	r.stopServing()
}

// step runs one second of the process.
func (r *replica) step() {
	now := r.sim.now
	switch {
	case !r.up && !now.Before(r.restart):
		r.start()
		r.sim.trace("%s: started", r.name)
	case !r.up, now.Before(r.paused):
		return
	}
	resumed := !r.paused.IsZero()
	r.paused = time.Time{}
	r.sendDelayed()
	if now.Before(r.paused) {
		return
	}
	if !resumed {
		r.lease.step()
	}
	switch {
	case r.lease.leading(): // a resumed process runs this tick before the step of its election, as can happen after a pause
		r.tick()
	case !r.stopping.IsZero():
		r.lease.endRounds()
	}
	if r.up && r.lease.ended() { // the process received SIGTERM, and its election has ended
		r.kill()
	}
	if !r.up || r.sim.now.Before(r.paused) {
		return
	}
	if resumed {
		r.lease.step()
	}
	r.deliver() // after the tick, so that requests between two ticks use the new state of the caches and files
	r.load()
}

// tick polls the sources when they are due and runs the engine once, as cmd/gpuscaler/controller does.
func (r *replica) tick() {
	now := r.sim.now
	if !r.stopping.IsZero() {
		r.shutDown()
		return
	}
	if now.Sub(r.polled) >= pollInterval {
		r.polled = now
		r.poll()
	}
	r.policies.Publish()
	if r.decided != r.edition {
		r.decided, r.editedAt = r.edition, now
	}
	out := r.engine.Tick(context.Background(), now)
	r.ticked = now
	for _, err := range out.Errors {
		r.sim.check.fail("no part of a tick fails", "%s: %v", r.name, err)
	}
	r.sim.check.ticked(r)
}

// poll polls the sources in another goroutine, as the product does. It returns when the poll has ended or waits for a data source. A poll
// begins only after the previous poll has ended.
func (r *replica) poll() {
	if r.polling != nil {
		select {
		case <-r.polling:
		default:
			return
		}
	}
	ended, poller, life := make(chan struct{}), r.poller, r.life
	r.polling = ended
	r.sim.polls = true // set before the goroutine starts, because the goroutine reads the field
	go func() {
		defer close(ended)
		poller.PollOnce(life)
	}()
	synctest.Wait()
	r.sim.polls = false
}

// shutDown runs one round of Engine.Shutdown in a leader that received SIGTERM. After the last round, the election releases the Lease and
// ends.
func (r *replica) shutDown() {
	rounds := make(chan time.Time, 1)
	rounds <- r.sim.now
	close(rounds)
	ctx, cancel := context.WithTimeout(context.Background(), time.Second) // a slow write takes longer than this timeout, as in the product
	defer cancel()
	r.engine.Shutdown(ctx, rounds)
	if !r.sim.now.Before(r.stopping) {
		r.lease.endRounds()
	}
}

// load reads the policy files if their volume has changed. Each node updates its volume at a different time, so a replica with a lag
// reads a change later.
func (r *replica) load() {
	if e := r.sim.people.editionAt(r.sim.now.Add(-r.lag)); e != r.edition {
		r.edition = e
		r.policies.LoadFS(fstest.MapFS{"policies.yaml": {Data: []byte(r.sim.people.editions[e].text)}})
	}
}

// clusterView implements engine.Cluster with the product's cache.
type clusterView struct{ replica *replica }

// View implements engine.Cluster. In the first tick that uses new files, it also checks the served targets, because an autoscaler can
// read a target while the engine makes its decisions.
func (c clusterView) View(w *scaling.Workload) (engine.View, bool) {
	if r := c.replica; r.editedAt.Equal(r.sim.now) {
		r.sim.check.read(r)
	}
	return c.replica.cache.View(w)
}

func (c clusterView) Refusal(w *scaling.Workload) string                 { return c.replica.cache.Refusal(w) }
func (c clusterView) TargetUID(w *scaling.Workload) (string, bool)       { return c.replica.cache.UID(w) }
func (c clusterView) Apply(ctx context.Context, _ []engine.Change) error { return ctx.Err() }

// nodeWrites implements engine.Nodes with the product's cache and writer, as package cluster does.
type nodeWrites struct {
	*nodes.Cache
	replica *replica
}

// Act implements engine.Nodes. It sends the writes in a job.
func (n nodeWrites) Act(g *capacity.Group, actions []capacity.Action) <-chan struct{} {
	r, done := n.replica, make(chan struct{})
	var sends []func()
	annotates := false
	for _, action := range actions {
		switch a := action.(type) {
		case capacity.NodePoolPatch:
			if base := n.PatchBase(g, a.Pool); base != nil {
				sends = append(sends, func() { r.writer.Write(a, base) })
			}
		case capacity.PodAnnotation:
			annotates = true
			sends = append(sends, func() { r.writer.WriteAnnotation(a) })
		}
	}
	r.sim.check.read(r) // an autoscaler can read targets while a tick writes
	send := func() {
		for _, s := range sends {
			if r.up {
				s()
			}
		}
	}
	if !r.lease.leading() || r == r.sim.fresh {
		close(done)
		return done
	}
	w := delayedWrite{at: r.sim.now, job: newJob(send), done: done}
	if len(sends) > 0 {
		w.at = w.at.Add(r.sim.faults.slowWrites(r.sim.now))
		r.willStall(&w, annotates)
	}
	if r.sim.now.Before(w.at) || r.sim.now.Before(r.paused) {
		r.pending = append(r.pending, w)
		return done
	}
	r.proceed(w)
	return done
}

// willStall takes the first stall that applies to the write w from the faults, and stores it in the write. If the process must stall
// before the first request, the process is paused at once.
func (r *replica) willStall(w *delayedWrite, annotates bool) {
	f := &r.sim.faults
	i := slices.IndexFunc(f.stalls, func(s stall) bool { return annotates || !s.pods })
	if i < 0 {
		return
	}
	next := f.stalls[i]
	f.stalls = slices.Delete(f.stalls, i, i+1)
	if next.request > 0 {
		w.job.stall = &next
		return
	}
	r.pause(next.lasting)
	w.at = r.paused
}

// served returns the target that the replica serves to the autoscaler of a workload. It returns an error if the replica does not run, is
// paused or does not lead.
func (r *replica) served(w *workload) (int32, error) {
	if !r.up || r.sim.now.Before(r.paused) || !r.lease.leading() {
		return 0, fmt.Errorf("no leader answers")
	}
	return r.serve(w)
}
