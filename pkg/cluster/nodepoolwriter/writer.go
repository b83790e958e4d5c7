// Package nodepoolwriter writes the decisions of capacity groups: the overridden fields of NodePools, and annotations of pods. Package
// capacity computes the changes in a patch, and this package sends the patch to the API server.
//
// A Writer receives a capacity.NodePoolPatch. It overrides fields by server-side apply. It restores fields by JSON patches, which also make
// the original field managers the owners of the fields again.
//
// # Terms
//
//   - record: the annotation gpuscaler.io/record of a NodePool, with the overridden fields, their original values and their original owners
//   - owner of a field: its field manager in managedFields
package nodepoolwriter

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/dynamic"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/karpenter"
)

// requestTimeout limits one request. After a failure, a later tick repeats the write.
const requestTimeout = 10 * time.Second

// Reasons of Events about NodePools.
const (
	ReasonOverridden = "NodePoolOverridden" // gpuscaler changed a field that the owner allows it to override
	ReasonRestored   = "NodePoolRestored"   // the original value of a field was restored
)

// Options configure a Writer.
type Options struct {
	Client dynamic.Interface
	// Release is the Lease of this gpuscaler release, NAMESPACE/NAME. It is written to the NodePool together with each record. Empty: it is
	// not written.
	Release string
	// Leading reports whether this process is the leader and may write. It is called before each request.
	Leading func() bool
	// OverriddenByOther returns the reason why another gpuscaler release, which wrote the record of the NodePool, is assumed to lead. It
	// returns an empty string if there is no such release.
	OverriddenByOther func(context.Context, *karpenter.NodePool) string
	// Current returns the NodePool in the cache, or nil if the cache does not contain it.
	Current func(name string) *karpenter.NodePool
	// Event queues an Event without waiting for the API server.
	Event func(about corev1.ObjectReference, kind, reason, note string)
	// Writes counts requests by object and result.
	Writes *prometheus.CounterVec
	Log    *slog.Logger
}

// Writer writes NodePools and pods. It writes the patches of one NodePool one after the other.
type Writer struct {
	options Options

	mu    sync.Mutex
	locks map[string]*sync.Mutex // key: name of the NodePool
}

// New returns a Writer. It writes only when Write, Patch or WriteAnnotation is called.
func New(o Options) *Writer { return &Writer{options: o, locks: map[string]*sync.Mutex{}} }

// Write sends one patch, which was computed from the version base of the NodePool. It reports the result in the log, in a metric and as an
// Event. If the API server returns a conflict for a patch that allows more nodes, and the patch is also valid for the newer version in the
// cache, Write sends the patch once more.
func (w *Writer) Write(p capacity.NodePoolPatch, base *karpenter.NodePool) {
	lock := w.lock(p.Pool)
	lock.Lock()
	defer lock.Unlock()
	if w.options.OverriddenByOther(context.Background(), base) != "" {
		return
	}
	// the context is not derived from the context of the tick, which may end before the requests
	ctx, cancel := context.WithTimeout(context.Background(), 2*requestTimeout)
	defer cancel()
	err := w.Patch(ctx, p, base)
	if p.Loosens && apierrors.IsConflict(err) {
		if current := w.unchanged(base); current != nil {
			base, err = current, w.Patch(ctx, p, current)
		}
	}
	w.report(p, base, err)
}

func (w *Writer) lock(pool string) *sync.Mutex {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.locks[pool] == nil {
		w.locks[pool] = &sync.Mutex{}
	}
	return w.locks[pool]
}

// unchanged returns a newer version of a NodePool from the cache for which a patch of base is still valid: its spec, consent annotation and
// record are the same, for example because only Karpenter has written the status. It returns nil if the cache has no such version.
func (w *Writer) unchanged(base *karpenter.NodePool) *karpenter.NodePool {
	current := w.options.Current(base.Name())
	if current == nil {
		return nil
	}
	before, now := base.Object, current.Object
	if now.GetUID() != before.GetUID() || now.GetGeneration() != before.GetGeneration() ||
		now.GetResourceVersion() == before.GetResourceVersion() || current.Consent() != base.Consent() ||
		current.Record() != base.Record() || current.Holder != base.Holder {
		return nil
	}
	return current
}

// report logs and counts the result of a patch. If the patch was written, it sends an Event.
func (w *Writer) report(p capacity.NodePoolPatch, base *karpenter.NodePool, err error) {
	log, text := w.options.Log, p.Text()
	switch {
	case err == nil:
		w.count("nodepool", "written")
		log.Info("NodePool written", "nodepool", p.Pool, "change", text)
		w.sendEvent(p, base)
	case errors.Is(err, errStale):
		w.count("nodepool", "conflict")
		log.Info("the NodePool was not written, because another client changed it first; the next tick reads it again", "nodepool", p.Pool,
			"error", err)
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		// the NodePool has changed since it was observed, so the next tick decides with the new version
		w.count("nodepool", "conflict")
		log.Debug("the NodePool was changed meanwhile", "nodepool", p.Pool, "error", err)
	case errors.Is(err, errNotLeading):
		log.Debug("the write was not completed", "nodepool", p.Pool, "error", err)
	case errors.Is(err, context.DeadlineExceeded):
		w.count("nodepool", "failed")
		log.Warn("the API server did not answer in time; the patch is repeated", "nodepool", p.Pool, "change", text)
	default:
		w.count("nodepool", "failed")
		log.Error("the NodePool was not written", "nodepool", p.Pool, "change", text, "error", err)
	}
}

// sendEvent sends an Event about a written patch, unless the patch changes only the record annotation.
func (w *Writer) sendEvent(p capacity.NodePoolPatch, base *karpenter.NodePool) {
	if len(p.Changes) == 0 {
		return
	}
	reason := ReasonRestored
	for _, c := range p.Changes {
		if !c.Restore {
			reason = ReasonOverridden
		}
	}
	w.options.Event(base.Reference(), corev1.EventTypeNormal, reason, strings.TrimSpace(p.Text()))
}

func (w *Writer) count(object, result string) { w.options.Writes.WithLabelValues(object, result).Inc() }

// NewWritesMetric returns the counter of requests for capacity groups. The caller registers it.
func NewWritesMetric() *prometheus.CounterVec {
	writes := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "gpuscaler_node_writes_total",
		Help: "Writes for capacity groups, by object (nodepool, pod, capacitybuffer) and result: written, conflict (another client changed " +
			"the object first) or failed.",
	}, []string{"object", "result"})
	for _, object := range []string{"nodepool", "pod", "capacitybuffer"} {
		for _, result := range []string{"written", "conflict", "failed"} {
			writes.WithLabelValues(object, result) // create the series, because Prometheus observes no increase from a missing series to 1
		}
	}
	return writes
}
