package cluster

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/events"
	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// Numbers is where the activator looks up what is served right now; the engine's DecisionStore.
type Numbers interface {
	// Lookup fails for a number that is held, advisory or too old: the activator then writes nothing.
	Lookup(k scaling.Key, now time.Time) (engine.Served, error)
}

const (
	activateTimeout  = 5 * time.Second
	activateTogether = 8 // a Monday morning wakes many at once
	// activateBackoff grows with each failure to activateRetryMax: a forbidden /scale is not asked each second.
	activateBackoff, activateRetryMax = time.Second, time.Minute
)

// activator writes /scale 0 -> 1 and 1 -> 0 for workloads that asked for it, where no KEDA does. An HPA is disabled at zero
// replicas and reads no metric there (before Kubernetes 1.37), so it can take neither step. It looks at what is, not at what
// changed: a write that was lost, refused or undone is made again.
type activator struct {
	cluster *Cluster
	numbers Numbers
	wake    chan struct{}

	mu     sync.Mutex
	failed map[scaling.Key]failure
}

type failure struct {
	times int
	until time.Time
}

func newActivator(c *Cluster) *activator {
	return &activator{cluster: c, wake: make(chan struct{}, 1), failed: map[scaling.Key]failure{}}
}

// kick makes the next round start at once.
func (a *activator) kick() {
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

func (a *activator) run(ctx context.Context) {
	ticker := time.NewTicker(time.Second) // I/O edge: paces retries
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.wake:
		case <-ticker.C:
		}
		if a.cluster.leading() && a.cluster.Synced() {
			a.round(ctx, time.Now()) // I/O edge: the board answers for the present only
		}
	}
}

// may reports whether the policy activates its target, and whether the target's namespace is one in which /scale may be written.
func (a *activator) may(w *scaling.Workload) bool {
	return w.Activate && w.Mode == scaling.Auto && slices.Contains(a.cluster.options.ActivateIn, w.Key.Namespace)
}

// authorized reports whether a policy in force still asks for the step. It is checked right before the write, because the policy may
// have changed while the step waited.
func (a *activator) authorized(s step) bool {
	return slices.ContainsFunc(a.cluster.options.Policies.Current(), func(w scaling.Workload) bool {
		return a.may(&w) && w.Key == s.workload.Key && refOfWorkload(&w) == s.target.ref
	})
}

// step is one write that is needed now.
type step struct {
	workload *scaling.Workload
	target   *targetFacts
	from, to int32
}

func (a *activator) round(ctx context.Context, now time.Time) {
	var group errgroup.Group
	group.SetLimit(activateTogether)
	workloads := a.cluster.options.Policies.Current()
	for i := range workloads {
		w := &workloads[i]
		if !a.may(w) || a.waits(w.Key, now) {
			continue
		}
		if s, needed := a.next(w, now); needed {
			group.Go(func() error {
				a.take(ctx, s, now)
				return nil
			})
		}
	}
	_ = group.Wait() // each step reports for itself
}

// next says which write a workload needs, if any.
func (a *activator) next(w *scaling.Workload, now time.Time) (s step, needed bool) {
	served, err := a.numbers.Lookup(w.Key, now)
	if err != nil {
		return s, false
	}
	at, ok := a.cluster.world.standing(refOfWorkload(w))
	if !ok || at.paused || at.scaledObject {
		return s, false
	}
	s = step{workload: w, target: at.facts, from: at.facts.replicas}
	switch {
	case s.from == 0 && served.Replicas > 0:
		s.to = 1 // not the whole number: from here on the HPA takes it there
		return s, true
	case s.from == 1 && served.Replicas == 0 && at.leastReplicas != 0:
		s.to = 0 // an HPA with minReplicas 0 (1.37) takes this step itself, and then also the way back
		return s, true
	}
	return s, false
}

// standing is what decides whether the activator may touch a target.
type standing struct {
	facts                *targetFacts
	paused, scaledObject bool
	leastReplicas        int32 // minReplicas of the HPA on it, -1 where there is none
}

func (w *world) standing(r ref) (standing, bool) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	t := w.targets[r]
	if t == nil || t.facts == nil {
		return standing{}, false
	}
	return standing{
		facts: t.facts, paused: t.view.Operator.Paused, scaledObject: t.scaledObject != nil, leastReplicas: t.view.MinReplicas,
	}, true
}

func (a *activator) take(ctx context.Context, s step, now time.Time) {
	direction, reason := "up", events.Activated
	if s.to == 0 {
		direction, reason = "down", events.Deactivated
	}
	ctx, cancel := context.WithTimeout(ctx, activateTimeout)
	defer cancel()
	written, err := a.write(ctx, s)
	switch {
	case err != nil:
		a.cluster.metrics.activations.WithLabelValues(direction, "failed").Inc()
		if a.fail(s.workload.Key, now) == 1 {
			a.cluster.log.Error("cannot write /scale", "workload", s.workload.Key.String(), "from", s.from, "to", s.to, "error", err)
			a.cluster.events.Send(s.target.reference(), corev1.EventTypeWarning, events.ActivationFailed, err.Error())
		}
	case !written:
		a.cluster.metrics.activations.WithLabelValues(direction, "outrun").Inc()
	default:
		a.forgive(s.workload.Key)
		a.cluster.metrics.activations.WithLabelValues(direction, "written").Inc()
		a.cluster.log.Info("wrote /scale", "workload", s.workload.Key.String(), "from", s.from, "to", s.to)
		a.cluster.events.Send(s.target.reference(), corev1.EventTypeNormal, reason,
			fmt.Sprintf("%d -> %d (policy %s)", s.from, s.to, s.workload.Key))
	}
}

// write changes /scale from one number to the other; false where somebody else was there before, which is no failure: the
// resource version makes sure that nothing they wrote is overwritten.
func (a *activator) write(ctx context.Context, s step) (bool, error) {
	if s.from+s.to != 1 || !a.authorized(s) {
		return false, fmt.Errorf("%s: no policy in force activates it from %d to %d replicas", s.target.ref, s.from, s.to)
	}
	resource, ok := a.cluster.resourceOf(s.target.ref)
	if !ok {
		return false, fmt.Errorf("%s is not served by the API server", s.target.ref)
	}
	objects := a.cluster.dynamic.Resource(resource).Namespace(s.target.Namespace)
	scale, err := objects.Get(ctx, s.target.Name, metav1.GetOptions{}, "scale")
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if now, _, _ := unstructured.NestedInt64(scale.Object, "spec", "replicas"); now != int64(s.from) {
		return false, nil
	}
	if err := unstructured.SetNestedField(scale.Object, int64(s.to), "spec", "replicas"); err != nil {
		return false, err
	}
	_, err = objects.Update(ctx, scale, metav1.UpdateOptions{FieldManager: fieldManager}, "scale")
	if apierrors.IsConflict(err) {
		return false, nil
	}
	return err == nil, err
}

func (a *activator) waits(k scaling.Key, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return now.Before(a.failed[k].until)
}

// fail counts a failure and says how many there were in a row.
func (a *activator) fail(k scaling.Key, now time.Time) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	f := a.failed[k]
	f.times++
	f.until = now.Add(min(activateBackoff<<min(f.times, 10), activateRetryMax))
	a.failed[k] = f
	return f.times
}

func (a *activator) forgive(k scaling.Key) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.failed, k)
}

// resourceOf is where objects of a target's kind live in the API.
func (c *Cluster) resourceOf(r ref) (schema.GroupVersionResource, bool) {
	if r.group == "apps" {
		switch r.kind {
		case "Deployment":
			return schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}, true
		case "StatefulSet":
			return schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "statefulsets"}, true
		}
	}
	return c.late.resourceOf(r)
}

// unlisted is a target whose policy has activate: true in a namespace in which /scale may not be written.
type unlisted struct {
	target *targetFacts
	policy scaling.Key
}

func (u unlisted) note() string {
	return fmt.Sprintf("policy %s has activate: true, but gpuscaler may not write /scale in namespace %s: add it to activator.namespaces "+
		"of the chart (--activate-namespaces), or remove activate", u.policy, u.policy.Namespace)
}

// unlisted lists the targets that an activating policy does not reach for want of their namespace.
func (a *activator) unlisted() (all []unlisted) {
	if a.numbers == nil || a.cluster.options.Policies == nil {
		return nil
	}
	for _, w := range a.cluster.options.Policies.Current() {
		if !w.Activate || slices.Contains(a.cluster.options.ActivateIn, w.Key.Namespace) {
			continue
		}
		if at, ok := a.cluster.world.standing(refOfWorkload(&w)); ok {
			all = append(all, unlisted{at.facts, w.Key})
		}
	}
	return all
}
