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

// push is KEDA's stream for one workload, with the data that the checker records about the stream. It implements keda.Surroundings.
type push struct {
	sim      *simulation
	workload *workload
	operator *keda.Operator
	cut      time.Time // KEDA reaches no replica before this time

	received bool        // whether the last message reported the workload as active; false before the first message
	active   time.Time   // last time at which KEDA received a message that the workload is active
	server   *pushServer // the server to which the Service would have forwarded a new connection at the last check
	since    time.Time   // time since which this server serves a target of at least 1; zero: the target is 0
	known    time.Time   // the last time at which KEDA could reach no server, or the server had no target
	alone    time.Time   // time since which KEDA could reach the server but has no stream; zero: KEDA has a stream
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

// closePushes closes the streams to processes that do not run or do not lead. In the product, a process runs the server of the external
// scaler only while it leads.
func (s *simulation) closePushes() {
	s.closeStreams(func(server *pushServer) bool { return !server.serves() })
}

// stopServing closes the streams to a process whose leadership ends. The call of closePushes at the end of the second would be too late,
// because the process can lead again in the same second.
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

// Received implements keda.Surroundings. If the message reports the workload as active, KEDA scales the workload from zero. As in KEDA, a
// message that the workload is inactive has no effect; the checker only checks it.
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

// pushServer is the external scaler that one process of gpuscaler serves to KEDA.
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

// serves reports whether the server of the process runs. The server runs from the beginning of the leadership until SIGTERM or until the
// leadership ends. A paused process does not detect the end of its leadership, so its server continues to run.
func (p *pushServer) serves() bool {
	r := p.replica
	return p.life.Err() == nil && r.stopping.IsZero() && (r.lease.leading() || r.sim.now.Before(r.paused))
}

// runningDecisions provides the decisions of a process to its external scaler while the process runs and is not paused.
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

// pauseOffset determines when a stream of a paused process checks whether the pause is over. The stream checks once a second, at
// pauseOffset times the length of the workload's name after the full second. The streams of a process therefore act at different times.
const pauseOffset = 25 * time.Millisecond

// pushed checks a message that a server sent to KEDA. The message may report a workload as inactive only while the server serves the target
// 0.
func (c *checker) pushed(p *push, from *pushServer, active bool) {
	if active {
		return
	}
	key := scaling.Key{Namespace: namespace, Name: p.workload.name}
	if served, err := from.replica.engine.Decisions().Lookup(key, c.sim.now); err != nil || served.Replicas != 0 {
		c.fail(pushedInactive, "%s pushed that %s is not active; it serves %d, error %v", from.replica.name, key.Name, served.Replicas, err)
	}
}

// pushes checks the streams of KEDA. While KEDA can reach a server, each stream must be open. When a workload becomes active, its stream
// must report this within a second. After a stream is closed, its handler must return.
func (c *checker) pushes() {
	for _, w := range c.sim.workloads {
		if w.keda {
			c.arrives(w.push)
			c.handlersReturn(w.push)
		}
	}
}

// arrives checks that KEDA has a stream for a workload, and that this stream reports an active workload at most pushTime after gpuscaler
// does. While a tick waits for a write, the delay may be longer, because no other goroutine can run in the simulation during this time. In
// the product, a stream does not wait for a tick.
func (c *checker) arrives(p *push) {
	s := c.sim
	server, _ := p.Connect().(*pushServer)
	if server == nil { // KEDA can reach no server; a paused process keeps its open streams
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
	} else if p.alone.IsZero() || p.alone.Before(p.operator.LastOpened()) { // a stream was opened after p.alone, and is closed again
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

// pushTime is the longest allowed time until an open stream has transferred a change, or until the handler of a closed stream has returned.
const pushTime = time.Second

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// handlersReturn checks that the handler of each stream has returned a second after the stream was closed. It ignores processes that were
// paused or unhealthy in the last two seconds.
func (c *checker) handlersReturn(p *push) {
	for _, left := range p.operator.Unreturned(c.sim.now.Add(-pushTime)) {
		server := left.(*pushServer)
		ran := c.healthy[server.replica]
		if server.life.Err() == nil && !ran.IsZero() && c.sim.now.Sub(ran) > 2*pushTime {
			c.fail(streamsReturn, "%s still handles a stream for %s that was closed", server.replica.name, p.workload.name)
		}
	}
}

// serve returns the target of a workload from the server that its autoscaler uses: the external metrics API for an HPA, and the external
// scaler for KEDA.
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

// active reports whether the external scaler of this replica reports the workload as active, which makes KEDA scale the workload from
// zero. known is false if the scaler returned an error.
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
