package policystatus

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/events"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/rounds"
	"github.com/gpuscaler/gpuscaler/pkg/policy/store"
)

const (
	roundInterval = time.Second
	writeInterval = time.Minute // minimum time between two writes of one object
	maxWrites     = 10          // number of writes in one round, for all objects together
	writeTimeout  = 5 * time.Second
	maxDelay      = time.Hour // maximum time before a failed write is repeated
)

// Policies returns the status of the policies of each object that contains policies. The policy store implements it.
type Policies interface {
	StatusRevision() uint64
	CarrierStatuses() (all []store.CarrierStatus, known bool)
}

// Options configure a Writer.
type Options struct {
	Namespaces []string // the namespaces in which the service account may patch the objects
	Policies   Policies
	// Apply writes the annotation of an object, or removes it if text is empty.
	Apply  func(ctx context.Context, about corev1.ObjectReference, text string) error
	Events events.Sender
	// Leading reports whether this process is the leader and may write. It is called before each write.
	Leading func() bool
	Log     *slog.Logger
	Metrics prometheus.Registerer // nil: no metric is registered
}

// Writer keeps the annotation policy-status of each object equal to the status of the object's policies. Put, Unlabeled and Delete may be
// called at any time. Only one goroutine may call Run or Round.
type Writer struct {
	options    Options
	namespaces map[string]bool
	writes     *prometheus.CounterVec

	mu       sync.Mutex
	carriers map[key]*carrier
	changed  bool // whether an annotation was written or read since the last comparison, so that it may differ from the status

	revision uint64 // StatusRevision at the last comparison
	pending  []key  // objects whose annotation differs, sorted
	last     key    // the object that was written last; the next round begins after it, so that every object is written
	refused  map[permission]*failure
	failing  bool // whether the last write failed, apart from conflicts and missing permissions
}

type key struct{ kind, namespace, name string }

func compareKeys(a, b key) int {
	return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.kind, b.kind), cmp.Compare(a.name, b.name))
}

// permission is the permission of a Role to patch the objects of a kind in a namespace.
type permission struct{ kind, namespace string }

// carrier is an object that contains policies or has the annotation policy-status.
type carrier struct {
	about     corev1.ObjectReference
	written   Written
	desired   string // the annotation that the object should have; empty: no annotation
	unlabeled bool   // whether the object is a ConfigMap that was deleted or whose label was removed
	failure   failure
}

// failure counts the failed writes of one object, or of the objects of one kind in a namespace, and delays the next write.
type failure struct {
	count    int
	reported bool
	next     time.Time // time of the next attempt
}

func (f *failure) again(now time.Time) {
	f.next = now.Add(min(writeInterval<<min(f.count, 10), maxDelay))
	f.count++
}

// differs reports whether the annotation of the object must be written or removed.
func (c *carrier) differs() bool {
	if c.desired == "" {
		return c.written.Ours
	}
	return !c.written.Ours || c.written.Value != c.desired
}

// due reports whether a write of the object may be sent at the time now. If the time of the last write is in the future, because the clock
// of the API server is ahead, the write is due.
func (c *carrier) due(now time.Time) bool {
	since := now.Sub(c.written.At)
	return !now.Before(c.failure.next) && (!c.written.Ours || since < 0 || since >= writeInterval)
}

// New returns a Writer. It writes nothing before Run.
func New(o Options) *Writer {
	w := &Writer{options: o, namespaces: map[string]bool{}, carriers: map[key]*carrier{}, refused: map[permission]*failure{},
		writes: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "gpuscaler_policy_status_writes_total",
			Help: "Writes of the annotation gpuscaler.io/policy-status, by result: written, conflict (another field manager owns it), " +
				"gone (the object was deleted), forbidden or failed."}, []string{"result"}),
	}
	for _, namespace := range o.Namespaces {
		w.namespaces[namespace] = true
	}
	if o.Metrics != nil {
		o.Metrics.MustRegister(w.writes)
	}
	for _, result := range []string{"written", "conflict", "gone", "forbidden", "failed"} {
		w.writes.WithLabelValues(result)
	}
	return w
}

// Run writes annotations until ctx ends.
func (w *Writer) Run(ctx context.Context) {
	rounds.Every(ctx, roundInterval, func(now time.Time) { w.Round(ctx, now) })
}

// Put records an object that an informer has read. It ignores objects in namespaces that are not in Options.Namespaces.
func (w *Writer) Put(about corev1.ObjectReference, read Written) {
	if !w.namespaces[about.Namespace] {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.carriers[keyOf(&about)]
	if c == nil || c.about.UID != about.UID {
		c = &carrier{about: about}
		w.carriers[keyOf(&about)] = c
		w.changed = true
	}
	if c.unlabeled || c.written.Value != read.Value || c.written.Ours != read.Ours {
		c.unlabeled, c.written = false, read
		w.changed = w.changed || c.differs()
	}
}

// Unlabeled records that a ConfigMap was deleted or its label was removed. An informer that selects by the label cannot distinguish these
// cases.
func (w *Writer) Unlabeled(about corev1.ObjectReference) {
	w.mu.Lock()
	defer w.mu.Unlock()
	k := keyOf(&about)
	c := w.carriers[k]
	switch {
	case c == nil:
	case c.written.Ours:
		c.unlabeled, w.changed = true, true
	default:
		delete(w.carriers, k)
	}
}

// Delete records that an object was deleted.
func (w *Writer) Delete(about corev1.ObjectReference) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.carriers, keyOf(&about))
}

func keyOf(about *corev1.ObjectReference) key { return key{about.Kind, about.Namespace, about.Name} }

// Round compares the annotations with the statuses of the policies if an annotation or a status has changed, and writes the annotations
// that differ and are due.
func (w *Writer) Round(ctx context.Context, now time.Time) {
	if !w.options.Leading() {
		w.pending, w.revision = w.pending[:0], 0 // when this process becomes the leader again, it must compare all annotations
		return
	}
	if w.compare(); len(w.pending) == 0 {
		return
	}
	from, found := slices.BinarySearchFunc(w.pending, w.last, compareKeys)
	if found {
		from++
	}
	sent := 0
	for i := range w.pending {
		k := w.pending[(from+i)%len(w.pending)]
		about, text, due := w.next(k, now)
		if !due {
			continue
		}
		if sent++; sent > maxWrites || !w.options.Leading() {
			break
		}
		w.last = k
		if !w.write(ctx, about, text, now) {
			break
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pending = slices.DeleteFunc(w.pending, func(k key) bool { return w.carriers[k] == nil || !w.carriers[k].differs() })
}

// compare updates the desired annotation of each object and the list of objects whose annotation differs. It does nothing if neither the
// statuses of the policies nor the annotations changed since its last call.
func (w *Writer) compare() {
	revision := w.options.Policies.StatusRevision()
	w.mu.Lock()
	changed := w.changed || revision != w.revision
	w.mu.Unlock()
	if !changed {
		return
	}
	statuses, known := w.options.Policies.CarrierStatuses()
	if !known {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.changed, w.revision = false, revision
	for _, c := range w.carriers {
		c.desired = ""
	}
	for i := range statuses {
		st := &statuses[i]
		c := w.carriers[key{st.Kind, st.Namespace, st.Name}]
		if c == nil || c.unlabeled {
			continue
		}
		if text, known := Text(st); known {
			c.desired = text
		} else if c.written.Ours {
			c.desired = c.written.Value
		}
	}
	w.pending = w.pending[:0]
	for k, c := range w.carriers {
		if c.differs() {
			w.pending = append(w.pending, k)
		}
	}
	slices.SortFunc(w.pending, compareKeys)
}

// next returns the object with the key k and its desired annotation. due is false if the annotation is correct, or if its write is not due
// yet.
func (w *Writer) next(k key, now time.Time) (about corev1.ObjectReference, text string, due bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.carriers[k]
	if c == nil || !c.differs() || !c.due(now) {
		return about, "", false
	}
	if f := w.refused[permission{k.kind, k.namespace}]; f != nil && now.Before(f.next) {
		return about, "", false
	}
	return c.about, c.desired, true
}
