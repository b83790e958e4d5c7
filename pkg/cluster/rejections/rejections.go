// Package rejections reads why the StatefulSet controller cannot create pods. If an admission check such as a ResourceQuota or a LimitRange
// rejects a pod, the status of a StatefulSet does not report the rejection, but an Event with the reason FailedCreate does. The status of a
// Deployment reports rejections, so this package reads only Events about StatefulSets.
package rejections

import (
	"context"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/cache"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/rounds"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

const (
	period      = 10 * time.Second
	listTimeout = 5 * time.Second
	maxEvents   = 500         // maximum number of Events that are read for one StatefulSet
	maxLists    = 20          // maximum number of requests in one round; the next round continues with the next workload
	maxAhead    = time.Minute // an Event whose time is further in the future is ignored
)

// Cache returns the StatefulSets that lack pods, and stores why the pods could not be created.
type Cache interface {
	IncompleteStatefulSets(*scaling.Workload) []cache.StatefulSet
	PutFailedCreate(*scaling.Workload, cache.FailedCreate)
}

// Policies returns the workloads that have a policy.
type Policies interface{ Current() []scaling.Workload }

// Reader reads Events about StatefulSets that have a policy and lack pods.
type Reader struct {
	events   typedcorev1.EventsGetter
	cache    Cache
	policies Policies
	log      *slog.Logger
	next     int  // index of the first workload of the next round
	failing  bool // whether the last request failed
}

// New returns a Reader. It reads no Event before Run.
func New(events typedcorev1.EventsGetter, c Cache, policies Policies, log *slog.Logger) *Reader {
	return &Reader{events: events, cache: c, policies: policies, log: log}
}

// Run reads Events every ten seconds until ctx ends.
func (r *Reader) Run(ctx context.Context) {
	rounds.Every(ctx, period, func(now time.Time) { r.round(ctx, now) })
}

// round reads the Events about at most maxLists StatefulSets. A failed request ends the round, but the results of earlier requests are
// stored.
func (r *Reader) round(ctx context.Context, now time.Time) {
	all, lists := r.policies.Current(), 0
	for i := range all {
		at := (r.next + i) % len(all)
		w := &all[at]
		sets := r.cache.IncompleteStatefulSets(w)
		if len(sets) == 0 {
			continue
		}
		if lists += len(sets); lists > maxLists {
			r.next = at
			return
		}
		last, err := r.lastFailure(ctx, w.Key.Namespace, sets, now)
		if ctx.Err() != nil {
			return
		}
		r.report(w, err)
		if err != nil {
			r.next = at + 1
			return
		}
		r.cache.PutFailedCreate(w, last)
	}
	r.next = 0
}

// report logs a failed request, unless the previous request also failed.
func (r *Reader) report(w *scaling.Workload, err error) {
	if err != nil && !r.failing {
		fix := "check the API server"
		if apierrors.IsForbidden(err) {
			fix = "upgrade the chart: its ClusterRole permits to list Events"
		}
		r.log.Warn("cannot read the Events of a StatefulSet; rejected pods are not explained", "policy", w.Key.String(), "error", err, "fix", fix)
	}
	r.failing = err != nil
}

// lastFailure returns the last failed attempt to create a pod of one of the StatefulSets.
func (r *Reader) lastFailure(ctx context.Context, namespace string, sets []cache.StatefulSet, now time.Time) (cache.FailedCreate, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	last := cache.FailedCreate{}
	for _, set := range sets {
		list, err := r.events.Events(namespace).List(ctx, metav1.ListOptions{Limit: maxEvents, FieldSelector: fields.Set{
			"involvedObject.kind": "StatefulSet", "involvedObject.name": set.Name, "reason": "FailedCreate",
		}.AsSelector().String()})
		if err != nil {
			return cache.FailedCreate{}, err
		}
		for i := range list.Items {
			e := &list.Items[i]
			at := lastTime(e)
			if e.InvolvedObject.UID == set.UID && at.After(last.At) && !at.After(now.Add(maxAhead)) {
				last = cache.FailedCreate{Message: e.Message, At: at}
			}
		}
	}
	return last, nil
}

// lastTime returns the time of the last occurrence of an Event.
func lastTime(e *corev1.Event) time.Time {
	at := e.LastTimestamp.Time
	if e.Series != nil && e.Series.LastObservedTime.After(at) {
		at = e.Series.LastObservedTime.Time
	}
	if at.IsZero() {
		at = e.EventTime.Time
	}
	return at
}
