package main

import (
	"context"
	"runtime"
	"time"

	"github.com/kedacore/keda/v2/pkg/scalers/externalscaler"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/custom-metrics-apiserver/pkg/provider"

	"github.com/gpuscaler/gpuscaler/e2e/simulate/keda"
	"github.com/gpuscaler/gpuscaler/e2e/simulate/schedule"
	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/externalmetrics"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// push is KEDA's stream for one workload, with the state that the checker records about this stream. It implements keda.Surroundings.
type push struct {
	sim      *simulation
	workload *workload
	operator *keda.Operator
	cut      time.Time // KEDA reaches no replica before this time

	received bool        // whether the last message reported the workload as active; false before the first message
	active   time.Time   // when KEDA last received a message that the workload is active
	server   *pushServer // the server to which the Service forwarded a new connection at the last check
	since    time.Time   // since when that server serves a target of at least 1; zero: it serves 0
	known    time.Time   // the last time at which KEDA could reach no server, or that server had no target
	alone    time.Time   // since when KEDA has no stream although it can reach that server; zero: it has one
}

// startPushes starts a model of KEDA's operator for each workload that KEDA scales.
func (s *simulation) startPushes() {
	for i, w := range s.workloads {
		if w.keda {
			w.push = &push{sim: s, workload: w}
			w.push.operator = keda.NewOperator(w.push, w.scaledObjectRef(), time.Duration(130+40*i)*time.Millisecond)
			go w.push.operator.Run()
		}
	}
}

func (s *simulation) stopPushes() {
	for _, w := range s.workloads {
		if w.keda {
			w.push.operator.Stop()
		}
	}
}

// closePushes closes the streams to processes that do not run or do not lead, because the product's server of the external scaler runs only
// while its process leads.
func (s *simulation) closePushes() {
	s.closeStreams(func(server *pushServer) bool { return !server.serves() })
}

// stopServing closes the streams to a process whose leadership ends. It does not wait for closePushes at the end of the second, because the
// process can lead again in the same second.
func (r *replica) stopServing() {
	r.sim.closeStreams(func(server *pushServer) bool { return server == r.pushes })
}

func (s *simulation) closeStreams(closes func(*pushServer) bool) {
	for _, w := range s.workloads {
		if w.push == nil {
			continue
		}
		if server, _ := w.push.operator.Open(); server != nil && closes(server.(*pushServer)) {
			w.push.operator.Break()
		}
	}
}

// pushFails applies a failure of KEDA or of the connection from KEDA.
func (s *simulation) pushFails(e schedule.Event) {
	for _, w := range s.workloads {
		if !w.keda {
			continue
		}
		switch o := w.push.operator; e.Value % 4 {
		case 0:
			o.Break()
		case 1:
			o.Restart()
		case 2:
			w.push.cut = s.now.Add(e.Lasting)
			o.Break()
		case 3:
			o.Silence()
		}
	}
}

// inTurn calls f while no other goroutine uses the simulation.
func (s *simulation) inTurn(f func()) {
	s.takeTurn()
	defer s.endTurn()
	s.now = time.Now()
	f()
}

// Exclusively implements keda.Surroundings.
func (p *push) Exclusively(f func()) { p.sim.inTurn(f) }

// Connect implements keda.Surroundings. The Service forwards a connection to the leader, which does not answer while it is paused.
func (p *push) Connect() keda.Server {
	if p.sim.now.Before(p.cut) {
		return nil
	}
	for _, r := range p.sim.replicas {
		if r.pushes.serves() && !p.sim.now.Before(r.paused) {
			return r.pushes
		}
	}
	return nil
}

// Received implements keda.Surroundings. If the message reports the workload as active, KEDA scales it from zero. A message that the
// workload is not active is checked, but changes nothing, as in KEDA.
func (p *push) Received(from keda.Server, active bool) {
	s, w := p.sim, p.workload
	if active != p.received {
		s.trace("%s pushes that %s is active: %t", from.(*pushServer).replica.name, w.name, active)
	}
	p.received = active
	s.check.pushed(p, from.(*pushServer), active)
	if !active {
		return
	}
	p.active = s.now
	if replicas, exists := s.deployments.Replicas(w.name); exists && replicas == 0 {
		s.scale(w, w.autoscaler.Poll(s.now, replicas, true, true), "KEDA")
	}
}

// pushServer is the external scaler of one process of a replica.
type pushServer struct {
	*externalmetrics.Scaler
	replica *replica
	life    context.Context
}

func newPushServer(r *replica) *pushServer {
	p := &pushServer{replica: r, life: r.life}
	p.Scaler = externalmetrics.NewScaler(runningDecisions{p, r.engine.Decisions()}, time.Now)
	return p
}

// serves reports whether the server of the process runs: from the beginning of its leadership to SIGTERM or the end of its leadership. A
// paused process does not notice the end of its leadership, so its server continues to run.
func (p *pushServer) serves() bool {
	r := p.replica
	return p.life.Err() == nil && r.stopping.IsZero() && (r.lease.leading() || r.sim.now.Before(r.paused))
}

// runningDecisions returns the decisions of a process to its external scaler, but only while the process runs and is not paused.
type runningDecisions struct {
	server *pushServer
	store  *engine.DecisionStore
}

// Lookup implements engine.Decisions. It waits while the process is paused, and ends the goroutine if the process was killed.
func (d runningDecisions) Lookup(k scaling.Key, _ time.Time) (served engine.Served, err error) {
	for {
		var paused time.Duration
		d.server.replica.sim.inTurn(func() {
			if paused = time.Until(d.server.replica.paused); paused <= 0 && d.server.life.Err() == nil {
				served, err = d.store.Lookup(k, time.Now())
			}
		})
		switch {
		case d.server.life.Err() != nil:
			runtime.Goexit()
		case paused <= 0:
			return served, err
		}
		select {
		case <-d.server.life.Done():
		case <-time.After(time.Until(time.Now().Truncate(time.Second).Add(time.Second + pauseOffset*time.Duration(len(k.Name))))):
		}
	}
}

// pauseOffset determines when a stream of a paused process checks whether the pause has ended: in each second, pauseOffset after the full
// second for each letter in the name of the workload. The streams of a process therefore do not act at the same instant.
const pauseOffset = 25 * time.Millisecond

// pushed checks the invariant pushedInactive for a message that a server sent to KEDA.
func (c *checker) pushed(p *push, from *pushServer, active bool) {
	if active {
		return
	}
	key := scaling.Key{Namespace: namespace, Name: p.workload.name}
	if served, err := from.replica.engine.Decisions().Lookup(key, c.sim.now); err != nil || served.Replicas != 0 {
		c.fail(pushedInactive, "%s pushed that %s is not active; it serves %d, error %v", from.replica.name, key.Name, served.Replicas, err)
	}
}

// pushes checks the streams of KEDA. Each stream must be open while KEDA can reach a server, and must transfer within a second that its
// workload is active. Its handler must return after the stream is closed.
func (c *checker) pushes() {
	for _, w := range c.sim.workloads {
		if w.keda {
			c.arrives(w.push)
			c.handlersReturn(w.push)
		}
	}
}

// arrives checks the invariant pushArrives for one workload. While a tick waits for a write, no other goroutine can use the simulation, so
// no stream transfers anything. In the product, a stream does not wait for a tick.
func (c *checker) arrives(p *push) {
	s := c.sim
	server, _ := p.Connect().(*pushServer)
	if server == nil { // KEDA can reach no server; a paused process keeps its streams
		p.known, p.alone = s.now, time.Time{}
		return
	}
	if server != p.server {
		p.server, p.since, p.alone = server, time.Time{}, time.Time{}
	}
	switch active, known := server.replica.active(p.workload); {
	case !known:
		p.known = s.now
	case !active:
		p.since = time.Time{}
	case p.since.IsZero():
		p.since = s.now
	}
	to, opened := p.operator.Open()
	if to != nil {
		p.alone = time.Time{}
	} else if p.alone.IsZero() || p.alone.Before(p.operator.LastOpened()) { // a stream can be opened and closed between two checks
		p.alone = s.now
	}
	switch {
	case to == nil && s.now.Sub(p.alone) > keda.Reconnects+pushTime:
		c.fail(pushArrives, "KEDA has no stream for %s, although it can reach %s for %s", p.workload.name, server.replica.name,
			s.now.Sub(p.alone))
	case to != keda.Server(server), p.operator.Silent(), p.since.IsZero():
	case s.now.Sub(later(later(p.known, s.waited), later(opened, p.since))) > pushTime &&
		p.active.Before(later(opened, p.since.Add(-pushTime))):
		c.fail(pushArrives, "%s serves for %s that %s is active, and KEDA received that last %s ago", server.replica.name,
			s.now.Sub(p.since), p.workload.name, s.now.Sub(p.active))
	}
}

// pushTime is the longest time that an open stream may need to transfer a change.
const pushTime = time.Second

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// handlersReturn checks the invariant streamsReturn: the handlers of closed streams have returned. It ignores processes that were paused or
// unhealthy in the last two seconds.
func (c *checker) handlersReturn(p *push) {
	for _, left := range p.operator.Unreturned(c.sim.now.Add(-pushTime)) {
		server := left.(*pushServer)
		ran := c.healthy[server.replica]
		if server.life.Err() == nil && !ran.IsZero() && c.sim.now.Sub(ran) > 2*pushTime {
			c.fail(streamsReturn, "%s still handles a stream for %s that was closed", server.replica.name, p.workload.name)
		}
	}
}

// serve returns the target of a workload from the server that its autoscaler reads: the external metrics API, or KEDA's external scaler.
func (r *replica) serve(w *workload) (int32, error) {
	if w.keda {
		answer, err := r.scaler.GetMetrics(context.Background(), &externalscaler.GetMetricsRequest{
			ScaledObjectRef: w.scaledObjectRef(), MetricName: externalmetrics.MetricName})
		if err != nil {
			return 0, err
		}
		return int32(answer.MetricValues[0].MetricValue), nil
	}
	list, err := r.metrics.GetExternalMetric(context.Background(), namespace,
		labels.SelectorFromSet(labels.Set{externalmetrics.PolicyLabel: w.name}), provider.ExternalMetricInfo{Metric: externalmetrics.MetricName})
	if err != nil {
		return 0, err
	}
	return int32(list.Items[0].Value.Value()), nil
}

// active reports whether the external scaler of this replica reports the workload as active, so that KEDA scales it from zero. known is
// false if the scaler returned an error.
func (r *replica) active(w *workload) (active, known bool) {
	answer, err := r.scaler.IsActive(context.Background(), w.scaledObjectRef())
	if err != nil {
		return false, false
	}
	return answer.Result, true
}

func (w *workload) scaledObjectRef() *externalscaler.ScaledObjectRef {
	return &externalscaler.ScaledObjectRef{Namespace: namespace, Name: w.name,
		ScalerMetadata: map[string]string{externalmetrics.PolicyMetadata: w.name}}
}
