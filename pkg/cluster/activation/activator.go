// Package activation scales workloads between zero and one replica where no other controller does, and sets KEDA's annotations on
// ScaledObjects that allow it.
//
// Once a second, an Activator compares the served target of each workload with its replicas in the cache. It scales a workload with 0
// replicas and a target above 0 to 1 replica, and a workload with 1 replica and a target of 0 to 0. The HPA scales between 1 and the
// maximum. A KEDAManager sets KEDA's annotations on ScaledObjects with the annotation gpuscaler.io/manage-keda.
package activation

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/cache"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/events"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/ownership"
	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// Served returns the targets that gpuscaler serves to external metrics clients. The engine's DecisionStore implements it.
type Served interface {
	// Lookup returns the current target of a policy. It returns an error if the mode of the policy is hold or advisory, or if its last
	// decision is too old. In case of an error, the caller must not scale the workload.
	Lookup(k scaling.Key, now time.Time) (engine.Served, error)
}

const (
	writeTimeout  = 5 * time.Second
	maxConcurrent = 8 // maximum number of concurrent writes, because many workloads are activated at the start of a working day
	// retryDelay is the time before the next attempt after a failed write. It doubles with each consecutive failure up to maxRetryDelay, so
	// that a write that the API server forbids is not repeated each second.
	retryDelay, maxRetryDelay = time.Second, time.Minute
)

// Options configure an Activator and a KEDAManager.
type Options struct {
	Cache    *cache.Cache
	Policies *cache.Policies
	// Namespaces are the namespaces in which /scale may be written.
	Namespaces []string
	// Resource returns the resource of a kind; ok is false if the API server does not serve it.
	Resource func(schema.GroupKind) (r schema.GroupVersionResource, ok bool)
	Dynamic  dynamic.Interface
	Events   events.Sender
	// Leading reports whether this process is the leader and may write.
	Leading func() bool
	Log     *slog.Logger
	Metrics prometheus.Registerer // nil: no metric is registered
}

// Activator writes /scale 0 -> 1 and 1 -> 0 for workloads whose policy has activate: true, and that have neither a ScaledObject nor an HPA
// with minReplicas 0. An HPA with minReplicas 1 or more scales neither to zero nor from zero. The Activator compares the replicas with the
// target once a second and repeats a write that failed or that another client reverted.
type Activator struct {
	options Options
	served  Served // source of the targets; nil: nothing is written
	wake    chan struct{}
	writes  *prometheus.CounterVec

	mu       sync.Mutex
	failures map[scaling.Key]failure
}

// failure counts the consecutive failed writes of one object.
type failure struct {
	count int
	retry time.Time // time of the next attempt
}

func (f failure) next(now time.Time) failure {
	f.count++
	f.retry = now.Add(min(retryDelay<<min(f.count, 10), maxRetryDelay))
	return f
}

// New returns an Activator. It writes nothing before Serve and Run are called.
func New(o Options) *Activator {
	a := &Activator{
		options: o, wake: make(chan struct{}, 1), failures: map[scaling.Key]failure{},
		writes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gpuscaler_activations_total",
			Help: "Writes to /scale between zero and one replica, by direction (up, down) and result (written, conflict, failed).",
		}, []string{"direction", "result"}),
	}
	if o.Metrics != nil {
		o.Metrics.MustRegister(a.writes)
	}
	for _, direction := range []string{"up", "down"} {
		for _, result := range []string{"written", "conflict", "failed"} {
			// create all series with the value 0, because Prometheus observes no increase from a missing series to 1
			a.writes.WithLabelValues(direction, result)
		}
	}
	return a
}

// Serve sets the source of the targets. It is called before Run.
func (a *Activator) Serve(s Served) { a.served = s }

// Enabled reports whether the Activator can write any /scale: Serve was called, and there is a source of policies.
func (a *Activator) Enabled() bool { return a.served != nil && a.options.Policies.Known() }

// Wake makes Run compare all workloads immediately, before the next second. Wake does not block.
func (a *Activator) Wake() {
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// Run compares the replicas of all workloads with their targets once a second and after each Wake, and writes /scale if they differ, until
// ctx ends.
func (a *Activator) Run(ctx context.Context) {
	ticker := time.NewTicker(time.Second) // may use the clock: paces retries
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.wake:
		case <-ticker.C:
		}
		if a.options.Leading() {
			a.round(ctx, time.Now()) // may use the clock: Lookup needs the current time
		}
	}
}

// allowed reports whether gpuscaler may activate a workload: the policy has activate: true and mode auto, and /scale may be written in its
// namespace.
func (a *Activator) allowed(w *scaling.Workload) bool {
	return w.Activate && w.Mode == scaling.Auto && slices.Contains(a.options.Namespaces, w.Key.Namespace)
}

// authorized reports whether the write of a step is still permitted: a policy with the same key and scale target exists, and allowed
// returns true for it. It is called immediately before the write, because the policy can change while the write waits for other writes.
func (a *Activator) authorized(s step) bool {
	return slices.ContainsFunc(a.options.Policies.Current(), func(w scaling.Workload) bool {
		return a.allowed(&w) && w.Key == s.workload.Key && cache.RefOfWorkload(&w) == s.target.Ref
	})
}

// step is one write of /scale that changes the replicas of a target.
type step struct {
	workload *scaling.Workload
	target   *cache.Target
	from, to int32
}

func (a *Activator) round(ctx context.Context, now time.Time) {
	var group errgroup.Group
	group.SetLimit(maxConcurrent)
	workloads := a.options.Policies.Current()
	for i := range workloads {
		w := &workloads[i]
		if !a.allowed(w) || a.waits(w.Key, now) {
			continue
		}
		if s, needed := a.next(w, now); needed {
			group.Go(func() error {
				a.take(ctx, s, now)
				return nil
			})
		}
	}
	_ = group.Wait() // no function of the group returns an error; each step reports its own result
}

// next returns the write that brings the replicas of a workload closer to its target. needed is false if no write is needed.
func (a *Activator) next(w *scaling.Workload, now time.Time) (s step, needed bool) {
	served, err := a.served.Lookup(w.Key, now)
	if err != nil {
		return s, false
	}
	state, ok := a.options.Cache.ScaleState(cache.RefOfWorkload(w))
	// An HPA with minReplicas 0 (feature gate HPAScaleToZero, on by default from Kubernetes 1.37) scales to and from zero itself. A write
	// would conflict with it. It would also start a workload that a user scaled to zero, which the HPA leaves at zero.
	if !ok || state.Paused || state.HasScaledObject || state.MinReplicas == 0 {
		return s, false
	}
	s = step{workload: w, target: state.Target, from: state.Target.Replicas}
	switch {
	case s.from == 0 && served.Replicas > 0:
		s.to = 1 // 1 even for a higher target, because the HPA scales from 1 to the target
		return s, true
	case s.from == 1 && served.Replicas == 0:
		s.to = 0
		return s, true
	}
	return s, false
}

func (a *Activator) take(ctx context.Context, s step, now time.Time) {
	direction, reason := "up", events.Activated
	if s.to == 0 {
		direction, reason = "down", events.Deactivated
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	written, err := a.write(ctx, s)
	switch {
	case err != nil:
		a.writes.WithLabelValues(direction, "failed").Inc()
		if a.fail(s.workload.Key, now) == 1 {
			a.options.Log.Error("/scale was not written; trying again",
				"workload", s.workload.Key.String(), "from", s.from, "to", s.to, "error", err)
			a.options.Events.Send(s.target.Reference(), corev1.EventTypeWarning, events.ActivationFailed, err.Error())
		}
	case !written:
		a.writes.WithLabelValues(direction, "conflict").Inc()
	default:
		a.succeed(s.workload.Key)
		a.writes.WithLabelValues(direction, "written").Inc()
		a.options.Log.Info("wrote /scale", "workload", s.workload.Key.String(), "from", s.from, "to", s.to)
		a.options.Events.Send(s.target.Reference(), corev1.EventTypeNormal, reason,
			fmt.Sprintf("%d -> %d (policy %s)", s.from, s.to, s.workload.Key))
	}
}

// write writes /scale. It returns false without an error if the object was deleted, or if another client changed its replicas before the
// write. The update contains the resource version that was read, so it cannot overwrite a change by another client.
func (a *Activator) write(ctx context.Context, s step) (written bool, err error) {
	if s.from+s.to != 1 || !a.authorized(s) {
		return false, fmt.Errorf("%s: no current policy activates it from %d to %d replicas", s.target.Ref, s.from, s.to)
	}
	resource, ok := a.options.Resource(schema.GroupKind{Group: s.target.Ref.Group, Kind: s.target.Ref.Kind})
	if !ok {
		return false, fmt.Errorf("%s: the API server does not serve its kind", s.target.Ref)
	}
	objects := a.options.Dynamic.Resource(resource).Namespace(s.target.Namespace)
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
	_, err = objects.Update(ctx, scale, metav1.UpdateOptions{FieldManager: ownership.Manager}, "scale")
	if apierrors.IsConflict(err) {
		return false, nil
	}
	return err == nil, err
}

func (a *Activator) waits(k scaling.Key, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return now.Before(a.failures[k].retry)
}

// fail counts a failed write of a workload and returns the number of consecutive failures.
func (a *Activator) fail(k scaling.Key, now time.Time) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.failures[k] = a.failures[k].next(now)
	return a.failures[k].count
}

func (a *Activator) succeed(k scaling.Key) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.failures, k)
}

// Refused returns the scale targets of policies with activate: true whose namespace is not in Options.Namespaces, so gpuscaler may not
// write their /scale.
func (a *Activator) Refused() (all []cache.Problem) {
	if !a.Enabled() {
		return nil
	}
	for _, w := range a.options.Policies.Current() {
		if !w.Activate || slices.Contains(a.options.Namespaces, w.Key.Namespace) {
			continue
		}
		if about, ok := a.options.Cache.Reference(cache.RefOfWorkload(&w)); ok {
			all = append(all, cache.Problem{About: about, Text: fmt.Sprintf("policy %s has activate: true, but gpuscaler is not allowed to "+
				"write /scale in namespace %s: add it to activator.namespaces of the chart (--activate-namespaces), or remove activate",
				w.Key, w.Key.Namespace)})
		}
	}
	return all
}
