package activation

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	kedav1alpha1 "github.com/kedacore/keda/v2/apis/keda/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/cache"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/events"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/ownership"
	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// KEDAManager sets and removes KEDA's annotations on ScaledObjects that have the annotation gpuscaler.io/manage-keda. It does not store
// which annotations it has set, because a new leader would not have this data. It reads them from the managedFields of the ScaledObject,
// which list them under gpuscaler's field manager.
type KEDAManager struct {
	options  Options
	served   Served
	failures map[cache.Ref]failure
}

// NewKEDAManager returns a KEDAManager that reads the served targets from s.
func NewKEDAManager(o Options, s Served) *KEDAManager {
	return &KEDAManager{options: o, served: s, failures: map[cache.Ref]failure{}}
}

// Round compares every ScaledObject with its policy and writes the annotations that differ. Only one goroutine may call it.
func (m *KEDAManager) Round(ctx context.Context, now time.Time) {
	index := m.options.Policies.Index()
	for _, s := range m.options.Cache.ScaledObjects() {
		if !s.Manage.Activation && !s.Manage.Hold && len(s.Manage.Applied) == 0 {
			continue
		}
		desired, known := m.desired(s, index, now)
		key := cache.RefOf(s.Namespace, cache.ScaledObjects.GroupVersion().String(), cache.ScaledObjectKind, s.Name)
		if !known || slices.Equal(desired, s.Manage.Applied) || now.Before(m.failures[key].retry) {
			continue
		}
		m.apply(ctx, s, key, desired, now)
	}
}

// desired returns the keys of the KEDA annotations that gpuscaler must set on a ScaledObject, sorted. known is false while the target of
// its policy is unknown, for example in a new leader or because the last decision is too old. The caller then keeps the annotations
// unchanged.
func (m *KEDAManager) desired(s *cache.ScaledObject, index *cache.PolicyIndex, now time.Time) (keys []string, known bool) {
	w := index.Decider(s)
	if w == nil || w.Mode == scaling.Advisory {
		return nil, true
	}
	served, err := m.served.Lookup(w.Key, now)
	held := errors.Is(err, engine.ErrHeld)
	if err != nil && !held {
		return nil, false
	}
	applied := slices.Contains(s.Manage.Applied, kedav1alpha1.ForceActivationAnnotation)
	if s.Manage.Activation && (held && applied || !held && served.Replicas > 0) {
		keys = append(keys, kedav1alpha1.ForceActivationAnnotation)
	}
	if s.Manage.Hold && (held || m.options.Cache.PausedByUser(s.Target)) {
		keys = append(keys, kedav1alpha1.PausedScaleInAnnotation)
	}
	return keys, true
}

// apply sets the desired annotations to "true" by server-side apply, and removes the other annotations that gpuscaler set earlier. It does
// not force the apply: if another field manager has set an annotation to a different value, the apply fails and that value stays.
func (m *KEDAManager) apply(ctx context.Context, s *cache.ScaledObject, key cache.Ref, desired []string, now time.Time) {
	resource, ok := m.options.Resource(cache.ScaledObjects.GroupKind())
	if !ok {
		return
	}
	metadata := map[string]any{"name": s.Name, "namespace": s.Namespace}
	if len(desired) > 0 { // without this condition, gpuscaler would own an empty map of annotations forever
		annotations := map[string]any{}
		for _, k := range desired {
			annotations[k] = "true"
		}
		metadata["annotations"] = annotations
	}
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": cache.ScaledObjects.GroupVersion().String(), "kind": cache.ScaledObjectKind, "metadata": metadata,
	}}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	client := m.options.Dynamic.Resource(resource).Namespace(s.Namespace)
	log := m.options.Log.With("scaledObject", s.Namespace+"/"+s.Name)
	_, err := client.Apply(ctx, s.Name, u, metav1.ApplyOptions{FieldManager: ownership.Manager})
	switch {
	case err == nil:
		delete(m.failures, key)
		log.Info("applied KEDA's annotations", "annotations", desired, "before", s.Manage.Applied)
		m.options.Events.Send(s.Reference(), corev1.EventTypeNormal, events.KEDAManaged,
			"KEDA annotations set by gpuscaler: "+listOrNone(desired))
		return
	case apierrors.IsNotFound(err):
		return
	}
	m.failures[key] = m.failures[key].next(now)
	if m.failures[key].count == 1 {
		log.Error("KEDA's annotations were not applied; trying again", "annotations", desired, "error", err)
		m.options.Events.Send(s.Reference(), corev1.EventTypeWarning, events.KEDAManageFailed, err.Error())
	}
}

func listOrNone(list []string) string {
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, ", ")
}
