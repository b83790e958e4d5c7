package cluster

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/cache"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/events"
	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// transitionEvery is the least time between two Events about one workload: a flapping one must not push the others' out of the
// hour that the API server keeps. What happens in between is told as one change.
const transitionEvery = 30 * time.Second

// transitions tells of changed targets by Events on the scaled objects.
type transitions struct {
	cluster *Cluster

	mu       sync.Mutex
	pending  map[scaling.Key]*transition
	told     map[scaling.Key]time.Time
	degraded map[scaling.Key]struct{} // who was told to decide on missing inputs
}

// transition is a change not told yet: from the number that was told last to the newest.
type transition struct {
	workload *scaling.Workload
	before   int32
	after    scaling.Decision
}

func newTransitions(c *Cluster) *transitions {
	return &transitions{
		cluster: c, pending: map[scaling.Key]*transition{}, told: map[scaling.Key]time.Time{}, degraded: map[scaling.Key]struct{}{},
	}
}

// note remembers what changed. It never blocks.
func (t *transitions) note(changes []engine.Change) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range changes {
		c := &changes[i]
		if c.Workload.Mode == scaling.Advisory {
			continue // an advisory policy writes nothing
		}
		p := t.pending[c.Workload.Key]
		if p == nil {
			p = &transition{before: c.Before}
			t.pending[c.Workload.Key] = p
		}
		p.workload, p.after = c.Workload, c.After
	}
}

func (t *transitions) run(ctx context.Context) { each(ctx, time.Second, t.tell) }

// tell sends what is due and forgets whom it has not told about lately.
func (t *transitions) tell(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for key, at := range t.told {
		if now.Sub(at) >= transitionEvery {
			delete(t.told, key)
		}
	}
	for key, p := range t.pending {
		if _, lately := t.told[key]; lately {
			continue
		}
		delete(t.pending, key)
		if t.send(p) {
			t.told[key] = now
		}
	}
}

// send tells of one transition; false where nothing is left to tell, as the number came back to what it was.
func (t *transitions) send(p *transition) bool {
	key := p.workload.Key
	_, was := t.degraded[key]
	kind, reason := corev1.EventTypeNormal, events.TargetChanged
	switch {
	case p.after.Degraded && !was:
		kind, reason = corev1.EventTypeWarning, events.SignalsMissing
		t.degraded[key] = struct{}{}
	case was && !p.after.Degraded:
		reason = events.SignalsRecovered
		delete(t.degraded, key)
	case p.before == p.after.Replicas:
		return false
	}
	about, ok := t.cluster.cache.Reference(cache.RefOfWorkload(p.workload))
	if ok {
		t.cluster.events.Send(about, kind, reason, p.text())
	}
	return ok
}

// text returns the Event message: "6 -> 9: gateway 87 needs 9 replicas (target 10 per replica) (policy team/chat)".
func (p *transition) text() string {
	numbers := strconv.Itoa(int(p.after.Replicas))
	if p.before != p.after.Replicas {
		numbers = strconv.Itoa(int(p.before)) + " -> " + numbers
	}
	return fmt.Sprintf("%s: %s (policy %s)", numbers, p.after.Why(p.workload.Policy), p.workload.Key)
}
