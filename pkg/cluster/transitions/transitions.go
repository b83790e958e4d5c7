// Package transitions sends an Event about a workload's scale target when the workload's desired replicas change, and when its signals have
// been missing for some time.
//
// A Reporter receives the changes of each tick by Add, and sends at most one Event about a workload in half a minute.
package transitions

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/events"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/rounds"
	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
	"github.com/gpuscaler/gpuscaler/pkg/scaling/explain"
)

const (
	// sendInterval is how often the Reporter checks whether an Event is due.
	sendInterval = time.Second
	// eventInterval is the shortest time between two Events about one workload. The API server keeps Events for an hour, and a workload whose
	// target changes often must not displace the Events of other workloads. One Event reports all changes within the interval.
	eventInterval = 30 * time.Second
	// missingInputsDelay is how long signals must be missing before an Event reports it. Shorter interruptions are normal: a new leader has no
	// readings before its first polls, a new pod has no series before its first scrape, and a scrape can fail. Without the delay, every start
	// of a leader would cause two Events for each workload.
	missingInputsDelay = 30 * time.Second
)

// Reporter collects changed targets and sends Events about them.
type Reporter struct {
	events    events.Sender
	reference func(*scaling.Workload) (corev1.ObjectReference, bool)

	mu       sync.Mutex
	pending  map[scaling.Key]*transition
	sent     map[scaling.Key]time.Time // time of the last Event about each workload
	degraded map[scaling.Key]struct{}  // workloads for which an Event about missing signals was sent
}

// transition is the change of a workload since its last Event: from the target in that Event (before) to the current decision (after).
type transition struct {
	workload *scaling.Workload
	before   int32
	after    scaling.Decision
	// changed is the last decision that changed the target, and policy is the policy of that decision. The current decision (after) can have
	// another cause, for example a signal that has been missing since changed.
	changed scaling.Decision
	policy  *scaling.Policy
	// missing is the time since which signals have been missing. It is zero if no signal is missing, or if an Event has already reported the
	// missing signals.
	missing time.Time
}

// New returns a Reporter. The function reference returns the scale target of a workload. It returns false if the scale target does not
// exist.
func New(sender events.Sender, reference func(*scaling.Workload) (corev1.ObjectReference, bool)) *Reporter {
	return &Reporter{
		events: sender, reference: reference,
		pending: map[scaling.Key]*transition{}, sent: map[scaling.Key]time.Time{}, degraded: map[scaling.Key]struct{}{},
	}
}

// Add adds the changes of one tick and returns immediately. It ignores workloads of advisory policies, because gpuscaler does not scale
// them.
func (r *Reporter) Add(changes []engine.Change) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range changes {
		c := &changes[i]
		if c.Workload.Mode == scaling.Advisory {
			continue
		}
		p := r.pending[c.Workload.Key]
		if p == nil {
			p = &transition{before: c.Before}
			r.pending[c.Workload.Key] = p
		}
		if p.policy == nil || c.Before != c.After.Replicas {
			p.changed, p.policy = c.After, c.Workload.Policy
		}
		if !c.After.Degraded {
			p.missing = time.Time{}
		}
		p.workload, p.after = c.Workload, c.After
	}
}

// Run sends the Events that are due, once a second until ctx ends. While this process is not the leader, it sends no Event and discards all
// changes, because another process decides the targets.
func (r *Reporter) Run(ctx context.Context, leading func() bool) {
	rounds.Every(ctx, sendInterval, func(now time.Time) {
		if leading() {
			r.SendDue(now)
		} else {
			r.reset()
		}
	})
}

func (r *Reporter) reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.pending)
	clear(r.sent)
	clear(r.degraded)
}

// SendDue sends the Events that are due at the given time.
func (r *Reporter) SendDue(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, at := range r.sent {
		if now.Sub(at) >= eventInterval {
			delete(r.sent, key)
		}
	}
	for key, p := range r.pending {
		if _, reported := r.degraded[key]; p.after.Degraded && !reported && p.missing.IsZero() {
			p.missing = now
		}
		if _, recently := r.sent[key]; recently {
			continue
		}
		if r.send(p, now) {
			r.sent[key] = now
		}
		if p.before = p.after.Replicas; p.missing.IsZero() {
			delete(r.pending, key)
		}
	}
}

// send sends up to two Events about one transition, both with the same text. It sends the first Event if the desired replicas changed. It
// sends the second Event if the signals have been missing for missingInputsDelay, or if they are available again after such an Event. send
// returns false if it sent no Event, because nothing changed or the scale target does not exist.
func (r *Reporter) send(p *transition, now time.Time) bool {
	key := p.workload.Key
	_, wasDegraded := r.degraded[key]
	var signals string // reason of the Event about the signals; empty: no such Event
	switch {
	case !p.missing.IsZero() && now.Sub(p.missing) >= missingInputsDelay:
		signals, p.missing = events.SignalsMissing, time.Time{}
		r.degraded[key] = struct{}{}
	case wasDegraded && !p.after.Degraded:
		signals = events.SignalsRecovered
		delete(r.degraded, key)
	case p.before == p.after.Replicas:
		return false
	}
	about, ok := r.reference(p.workload)
	if !ok {
		return false
	}
	text := p.text()
	if p.before != p.after.Replicas {
		r.events.Send(about, corev1.EventTypeNormal, events.TargetChanged, text)
	}
	switch signals {
	case events.SignalsMissing:
		r.events.Send(about, corev1.EventTypeWarning, signals, text)
	case events.SignalsRecovered:
		r.events.Send(about, corev1.EventTypeNormal, signals, text)
	}
	return true
}

// text returns the Event message: "6 -> 9: gateway 87 needs 9 replicas (target 10 per replica) (policy team/chat)". The cause of the change
// is first. Missing signals follow the cause.
func (p *transition) text() string {
	numbers, cause := strconv.Itoa(int(p.after.Replicas)), explain.Cause(&p.after, p.workload.Policy)
	if p.before != p.after.Replicas {
		numbers, cause = strconv.Itoa(int(p.before))+" -> "+numbers, explain.Cause(&p.changed, p.policy)
	}
	for _, r := range p.after.Reasons.All() {
		if missing := explain.Reason(r, p.workload.Policy); r.Rule == scaling.RuleMissing && !strings.Contains(cause, missing) {
			cause += "; " + missing
		}
	}
	return fmt.Sprintf("%s: %s (policy %s)", numbers, cause, p.workload.Key)
}
