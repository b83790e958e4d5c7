package main

import (
	"time"

	"github.com/gpuscaler/gpuscaler/e2e/simulate/apiserver"
	"github.com/gpuscaler/gpuscaler/e2e/simulate/prometheus"
	"github.com/gpuscaler/gpuscaler/e2e/simulate/schedule"
	"github.com/gpuscaler/gpuscaler/pkg/policy/annotations"
)

func (s *simulation) releaseChanges(e schedule.Event) {
	switch {
	case e.Kind == schedule.RolledBack:
		s.rollBack(e.Value%2 == 0)
	case e.Kind == schedule.SecondInstalled:
		s.installSecond(e.Value%3 == 0)
	case s.second != nil:
		s.second.kill()
	}
}

// happen applies an event of the schedule to the simulation.
func (s *simulation) happen(e schedule.Event) {
	s.trace("event: %s", e.Sentence())
	s.events = append(s.events, e)
	s.count(e)
	switch {
	case e.Kind <= schedule.NodeTaken || e.Kind == schedule.PodDeleted:
		s.environmentChanges(e)
	case e.Kind <= schedule.WritesSlow:
		s.processFails(e)
	case e.Kind <= schedule.FilesBroken || e.Kind == schedule.SignalsEdited:
		s.filesChange(e)
	case e.Kind == schedule.RedisBreaks:
		s.redisFails(e)
	case e.Kind == schedule.PushBreaks:
		s.pushFails(e)
	case e.Kind >= schedule.RolledBack:
		s.releaseChanges(e)
	case e.Kind >= schedule.WriteRaced:
		s.writeFails(e)
	case e.Kind >= schedule.ConsentEdited || e.Kind >= schedule.LimitEdited && e.Kind <= schedule.DisruptionEdited,
		e.Kind == schedule.PoolAnnotated:
		s.ownerActs(s.pools[e.Which%4], e)
	default:
		s.objectChanges(e)
	}
}

func (s *simulation) environmentChanges(e schedule.Event) {
	until := s.now.Add(e.Lasting)
	switch e.Kind {
	case schedule.LoadChanges:
		s.workloads[e.Which%3].load = []float64{0, 0, 0, 5, 15, 25, 40, 70}[e.Value%8]
	case schedule.SourceBreaks:
		f := &s.faults
		f.kind, f.sourceSince, f.sourceUntil = prometheus.Fault(1+e.Value%prometheus.NumFaults), s.now, until.Add(2*e.Lasting)
		f.signal = []string{"", queueSignal, utilizationSignal}[e.Which%3]
		f.frozen = map[string][]float64{}
		for _, signal := range []string{queueSignal, utilizationSignal} {
			f.frozen[signal] = s.signalValues(signal)
		}
		s.trace("Prometheus %s for %q", f.kind, f.signal)
	case schedule.LaunchesRefused:
		s.faults.refused[s.pools[e.Which%4]] = until
	case schedule.NodeTaken:
		s.karpenter.Interrupt(e.Value)
	case schedule.PodDeleted:
		if pods := s.api.Pods(); len(pods) > 0 {
			s.api.Remove(apiserver.KindPod, namespace+"/"+pods[e.Value%len(pods)].Name)
		}
	}
}

func (s *simulation) processFails(e schedule.Event) {
	r, until := s.replicas[e.Which%2], s.now.Add(e.Lasting)
	switch e.Kind {
	case schedule.ReplicaKilled:
		r.kill()
	case schedule.ReplicaPaused:
		r.paused = s.now.Add(e.Lasting / 2)
	case schedule.ReplicaStopped:
		if r.up && r.lease.leading() {
			r.stopping = s.now.Add(5 * time.Second)
			r.lease.stop()
		} else {
			r.kill()
		}
	case schedule.ReplicaCut:
		r.cut = until
	case schedule.WatchLags:
		r.lag = time.Duration(e.Value%8) * time.Second
		s.lagUntil[e.Which%2] = until
	case schedule.WritesFail:
		v := verdict(1 + (e.Value/3)%int(killAfter))
		for i := 0; i <= e.Value%3 && (i == 0 || v < killBefore); i++ {
			s.faults.writes = append(s.faults.writes, v)
		}
	case schedule.WritesSlow:
		s.faults.slow, s.faults.slowUntil = time.Duration(1+e.Value%9)*time.Second, until
	}
}

func (s *simulation) filesChange(e schedule.Event) {
	s.people.edit(func(o *settings) {
		w := &o.workloads[e.Which%3]
		switch e.Kind {
		case schedule.BoundsEdited:
			s.boundsChange(o, e.Which%3, e.Value)
		case schedule.GroupRemoved, schedule.GroupAdded:
			o.groups[e.Which%2] = e.Kind == schedule.GroupAdded
			s.forgetEdits(groupNames[e.Which%2])
			if e.Value%2 == 0 { // if the value is even, the edit also changes the bounds of a workload
				s.boundsChange(o, e.Value%3, e.Value)
			}
		case schedule.ModeHold:
			o.hold = !o.hold
		case schedule.FilesBroken:
			o.broken = !o.broken
		case schedule.SignalsEdited:
			switch e.Value % 4 {
			case 0:
				w.queueTarget = []int{5, 10, 20}[e.Value/4%3]
			case 1:
				w.utilization = !w.utilization
			case 2:
				w.swapped = !w.swapped
			case 3:
				w.floor = int32(e.Value / 4 % 4)
			}
		}
	})
}

func (s *simulation) boundsChange(o *settings, i, value int) {
	w := &o.workloads[i]
	w.min, w.max = int32(value%3), int32(3+value%9)
	if !s.workloads[i].keda {
		w.min = max(w.min, 1)
	}
}

func (s *simulation) objectChanges(e schedule.Event) {
	w := s.workloads[e.Which%3]
	switch e.Kind {
	case schedule.ScaledByHand:
		s.scale(w, max(int32(e.Value%6), w.min), "kubectl")
	case schedule.WorkloadPaused:
		s.deployments.Annotate(w.name, annotations.Paused, map[bool]string{true: "true"}[e.Value%2 == 0])
	case schedule.DeploymentReplaced:
		s.deployments.Replace(w.name, max(w.min, 1))
	}
}

// endFaults ends every fault and every other condition that could prevent the scaling of a workload.
func (s *simulation) endFaults() {
	s.trace("the faults end")
	s.uninstallSecond()
	s.faults = faults{refused: map[*pool]time.Time{}}
	s.lagUntil = [2]time.Time{}
	s.redis.Repair()
	for _, r := range s.replicas {
		r.cut, r.paused, r.lag = time.Time{}, time.Time{}, 0
	}
	for _, w := range s.workloads {
		if w.keda {
			w.push.cut = time.Time{}
		}
		s.deployments.Annotate(w.name, annotations.Paused, "")
		w.load = []float64{0, 25, 15}[(int(s.seed)+len(w.name))%3]
	}
	for _, p := range s.pools {
		s.ownerConsents(p, allFields)
	}
	s.people.edit(func(o *settings) { o.hold, o.broken, o.groups = false, false, [2]bool{true, true} })
}
