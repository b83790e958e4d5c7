// Package learned stores the learned models of objectives in a ConfigMap in gpuscaler's namespace, so that a new leader continues with the
// models of the previous leader. A model contains what gpuscaler has learned about a workload, such as how many requests a replica serves.
// The leader reads the ConfigMap before its first tick, and writes changed models at most once a minute.
//
// The chart creates the ConfigMap. gpuscaler only needs the permissions to get and patch it. If the permissions or the ConfigMap are
// missing, gpuscaler still works, but each new leader starts to learn again.
package learned

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	typed "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/rounds"
	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// Manager is the field manager of the models in the ConfigMap.
const Manager = "gpuscaler-learned"

const (
	maxSize       = 900 << 10 // in bytes; a ConfigMap has at most 1 MiB
	writeInterval = time.Minute
	pollInterval  = 5 * time.Second
	readTimeout   = 10 * time.Second // after this time, a new leader decides without the models of the previous leader
)

// Options configure a Store.
type Options struct {
	Namespace string // namespace of gpuscaler
	ConfigMap string // name of the ConfigMap
	Log       *slog.Logger
	Metrics   prometheus.Registerer
}

// Store reads and writes the ConfigMap. Load, Write and Run must not run at the same time.
type Store struct {
	client typed.ConfigMapInterface
	name   string
	log    *slog.Logger
	limit  int // maximum size of the ConfigMap in bytes

	mu     sync.Mutex // guards recall
	recall map[scaling.Key]*engine.SavedModel

	read    bool   // whether the ConfigMap was read; before that, nothing is written, because a write could remove documents
	version string // resourceVersion of the ConfigMap
	size    int
	stored  map[string]document
	written map[scaling.Key]*engine.SavedModel
	wroteAt time.Time
	triedAt time.Time
	full    bool // whether it was logged that the ConfigMap is full

	models, ignored, unsaved prometheus.Gauge
	writes                   *prometheus.CounterVec
}

// document contains the size and the time of a document in the ConfigMap.
type document struct {
	size int
	at   time.Time // time of the last observation; zero: the document cannot be decoded
}

// New returns a Store that saves learned models in the ConfigMap that o names.
func New(kube *rest.Config, o Options) (*Store, error) {
	client, err := kubernetes.NewForConfig(kube)
	if err != nil {
		return nil, fmt.Errorf("client of ConfigMap %s: %w", o.ConfigMap, err)
	}
	return newStore(client, o), nil
}

func newStore(client kubernetes.Interface, o Options) *Store {
	s := &Store{client: client.CoreV1().ConfigMaps(o.Namespace), name: o.ConfigMap, log: o.Log, limit: maxSize,
		models: prometheus.NewGauge(prometheus.GaugeOpts{Name: "gpuscaler_learned_models",
			Help: "Documents in the ConfigMap that stores what was learned for objectives."}),
		ignored: prometheus.NewGauge(prometheus.GaugeOpts{Name: "gpuscaler_learned_models_ignored",
			Help: "Documents in that ConfigMap that are damaged, of another version or from the future; the log has the reason."}),
		unsaved: prometheus.NewGauge(prometheus.GaugeOpts{Name: "gpuscaler_learned_models_unsaved",
			Help: "Workloads with an objective that have no room in that ConfigMap; they are learned again by the next leader."}),
		writes: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "gpuscaler_learned_writes_total",
			Help: "Writes of that ConfigMap, by result: ok or error."}, []string{"result"}),
	}
	o.Metrics.MustRegister(s.models, s.ignored, s.unsaved, s.writes)
	s.writes.WithLabelValues("ok")
	s.writes.WithLabelValues("error")
	return s
}

// Recall returns the stored model of a workload, or nil. It implements engine.Memory.
func (s *Store) Recall(k scaling.Key) *engine.SavedModel {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.recall[k]
}

// Load reads the ConfigMap for a new leader. If a read fails, Load tries again, for ten seconds in total. If no read succeeds in this time,
// or if the ConfigMap does not exist or the account may not read it, the leader starts to learn again.
func (s *Store) Load(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	for {
		now := time.Now() // may use the clock: documents from the future are ignored
		err := s.get(ctx, now)
		if err == nil {
			return
		}
		if !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
			select {
			case <-ctx.Done():
			case <-time.After(time.Second): // may use the clock: paces retries
				continue
			}
		}
		s.log.Error("what was learned for objectives was not read and is learned again; check that the ConfigMap exists and that gpuscaler "+
			"may get and patch it", "configmap", s.name, "error", err)
		return
	}
}

func (s *Store) get(ctx context.Context, now time.Time) error {
	s.read, s.triedAt = false, now
	found, err := s.client.Get(ctx, s.name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	s.take(found, now)
	return nil
}

// take replaces the stored documents and models by the content of the ConfigMap.
func (s *Store) take(found *corev1.ConfigMap, now time.Time) {
	s.read, s.version, s.size = true, found.ResourceVersion, 0
	s.stored, s.written = map[string]document{}, map[scaling.Key]*engine.SavedModel{}
	recall, ignored := map[scaling.Key]*engine.SavedModel{}, 0
	for key, text := range found.Data { // gpuscaler writes only BinaryData, but Data that another client wrote also takes space
		s.size += len(key) + len(text)
	}
	for _, key := range slices.Sorted(maps.Keys(found.BinaryData)) {
		value := found.BinaryData[key]
		d := document{size: len(key) + len(value)}
		m, err := decode(value, now)
		if err == nil && keyOf(m.Key) != key {
			err = fmt.Errorf("%w: it is of %s", errDocument, m.Key)
		}
		if err != nil {
			ignored++
			s.log.Warn("what was learned for a workload is ignored and learned again", "configmap", s.name, "key", key, "error", err)
		} else {
			d.at, recall[m.Key] = m.At, m
		}
		s.stored[key], s.size = d, s.size+d.size
	}
	s.models.Set(float64(len(s.stored)))
	s.ignored.Set(float64(ignored))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.recall = recall
}

// Run writes the result of the function models to the ConfigMap periodically, until ctx ends.
func (s *Store) Run(ctx context.Context, models func() []*engine.SavedModel) {
	rounds.Every(ctx, pollInterval, func(now time.Time) { s.Write(ctx, now, models(), false) })
}

// Write writes the models that changed since the last write. It writes at most once a minute. If last is true, it writes immediately.
func (s *Store) Write(ctx context.Context, now time.Time, models []*engine.SavedModel, last bool) {
	age := now.Sub(s.wroteAt)
	if !last && age >= 0 && age < writeInterval || !s.changed(models) {
		return
	}
	if !s.read {
		if since := now.Sub(s.triedAt); since >= 0 && since < writeInterval || s.get(ctx, now) != nil {
			return // the ConfigMap is still not read, and Load has logged the reason
		}
	}
	s.wroteAt = now
	patch, written := s.patch(models)
	if len(patch) == 0 {
		return
	}
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": s.version}, "binaryData": patch})
	if err == nil {
		var after *corev1.ConfigMap
		after, err = s.client.Patch(ctx, s.name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: Manager})
		if err == nil {
			s.note(after.ResourceVersion, patch, written)
			return
		}
	}
	s.read = false // read the ConfigMap before the next write, because it may have changed or been deleted
	s.writes.WithLabelValues("error").Inc()
	s.log.Warn("what was learned for objectives was not written; trying again in a minute", "configmap", s.name, "error", err)
}

func (s *Store) changed(models []*engine.SavedModel) bool {
	return slices.ContainsFunc(models, func(m *engine.SavedModel) bool { return s.written[m.Key] != m })
}

// note updates the fields of the Store after a successful write.
func (s *Store) note(version string, patch map[string][]byte, written []*engine.SavedModel) {
	s.version = version
	for key, value := range patch {
		s.size -= s.stored[key].size
		delete(s.stored, key)
		if value != nil {
			s.stored[key] = document{size: len(key) + len(value)}
			s.size += len(key) + len(value)
		}
	}
	for _, m := range written {
		s.written[m.Key] = m
		if d, is := s.stored[keyOf(m.Key)]; is {
			d.at = m.At
			s.stored[keyOf(m.Key)] = d
		}
	}
	s.models.Set(float64(len(s.stored)))
	s.writes.WithLabelValues("ok").Inc()
}

// patch returns the new values of the keys in the ConfigMap (nil for a document to remove) and the models in these values. If there is not
// enough space, it removes documents of workloads that no longer have an objective, the oldest first. If the space is still not sufficient,
// it omits some models.
func (s *Store) patch(models []*engine.SavedModel) (patch map[string][]byte, written []*engine.SavedModel) {
	patch, size, left := map[string][]byte{}, s.size, 0
	old := s.removable(models)
	for _, m := range models {
		key := keyOf(m.Key)
		if s.written[m.Key] == m || s.knowsMore(m) {
			continue
		}
		value, err := encode(m)
		if err != nil {
			s.log.Error("what was learned for a workload cannot be encoded", "policy", m.Key.String(), "error", err)
			continue
		}
		more := len(key) + len(value) - s.stored[key].size
		for size+more > s.limit && len(old) > 0 {
			size -= s.stored[old[0]].size
			patch[old[0]], old = nil, old[1:]
		}
		if size+more > s.limit {
			left++
			continue
		}
		size += more
		patch[key] = value
		written = append(written, m)
	}
	if s.unsaved.Set(float64(left)); left > 0 && !s.full {
		s.log.Warn("the ConfigMap for what was learned is full; the next leader learns the other workloads again", "configmap", s.name,
			"bytes", size, "workloads", left)
	}
	s.full = left > 0
	return patch, written
}

// knowsMore reports whether the stored model has the same scale target and Work as the new model m, and has received measurements for a
// longer time than m. This can occur if the leader could not read the ConfigMap at its start.
func (s *Store) knowsMore(m *engine.SavedModel) bool {
	old := s.Recall(m.Key)
	return old != nil && old.Target == m.Target && old.Work.Same(m.Work) && old.Observed > m.Observed
}

// removable returns the keys of the stored documents whose workload has none of the given models, the oldest first.
func (s *Store) removable(models []*engine.SavedModel) (keys []string) {
	live := make(map[string]bool, len(models))
	for _, m := range models {
		live[keyOf(m.Key)] = true
	}
	for key := range s.stored {
		if !live[key] {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b string) int {
		return cmp.Or(s.stored[a].at.Compare(s.stored[b].at), cmp.Compare(a, b))
	})
	return keys
}
