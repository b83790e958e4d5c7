package cluster

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/events"
	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/policy/annotations"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// Words of gpuscaler.io/manage-keda: what of KEDA's own annotations we may write on a ScaledObject.
const (
	manageActivation = "activation" // force-activation while the policy wants at least one replica: prewarm without a trigger of ours
	manageHold       = "hold"       // paused-scale-in while the policy is held or paused
)

// kedaManage is what a ScaledObject lets us write, and what of it stands there in our name.
type kedaManage struct {
	activation, hold bool
	problem          string
	ours             []string // annotations of KEDA's that our field manager applied, sorted
}

func readManage(values map[string]string, managed []metav1.ManagedFieldsEntry) (m kedaManage) {
	text, said := values[annotations.ManageKEDA]
	for _, word := range strings.Split(text, ",") {
		switch word = strings.TrimSpace(word); {
		case word == manageActivation:
			m.activation = true
		case word == manageHold:
			m.hold = true
		case said:
			m.problem = annotations.ManageKEDA + ": \"" + text + "\": want " + manageActivation + ", " + manageHold + " or both with a comma"
		}
	}
	for i := range managed {
		f := managed[i].FieldsV1
		if managed[i].Manager != fieldManager || managed[i].Operation != metav1.ManagedFieldsOperationApply || f == nil {
			continue
		}
		for _, key := range []string{kedaForceActivation, kedaPausedScaleIn} {
			if owns(f.GetRawBytes(), []string{key}) {
				m.ours = append(m.ours, key)
			}
		}
	}
	return m
}

// managing applies those annotations and takes them back. It looks at what is and keeps nothing: what a leader that died left
// behind stands under our field manager's name and is found by the next one.
type managing struct {
	cluster *Cluster
	failed  map[ref]failure
}

func (m *managing) run(ctx context.Context) {
	each(ctx, time.Second, func(now time.Time) {
		if m.cluster.leading() && m.cluster.Synced() {
			m.round(ctx, now)
		}
	})
}

func (m *managing) round(ctx context.Context, now time.Time) {
	decide := m.cluster.deciders()
	for _, s := range m.cluster.world.scaledObjects() {
		if !s.manage.activation && !s.manage.hold && len(s.manage.ours) == 0 {
			continue
		}
		want, known := m.wants(s, decide, now)
		key := refOf(s.Namespace, scaledObjectKind.GroupVersion().String(), kindScaledObject, s.Name)
		if !known || slices.Equal(want, s.manage.ours) || now.Before(m.failed[key].until) {
			continue
		}
		m.apply(ctx, s, key, want, now)
	}
}

// wants lists the annotations that should stand, sorted. Where the number is not known for a moment (a new leader, a stale decision)
// nothing is changed.
func (m *managing) wants(s *scaledObjectFacts, decide *deciders, now time.Time) (want []string, known bool) {
	w := decide.decider(s)
	if w == nil || w.Mode == scaling.Advisory {
		return nil, true
	}
	served, err := m.cluster.activator.numbers.Lookup(w.Key, now)
	held := errors.Is(err, engine.ErrHeld)
	if err != nil && !held {
		return nil, false
	}
	if s.manage.activation && (held && slices.Contains(s.manage.ours, kedaForceActivation) || !held && served.Replicas > 0) {
		want = append(want, kedaForceActivation)
	}
	if s.manage.hold && (held || m.cluster.world.pausedByUs(s.target)) {
		want = append(want, kedaPausedScaleIn)
	}
	return want, true
}

// pausedByUs reports whether somebody paused a target with our annotation; KEDA's own pauses need no second one.
func (w *world) pausedByUs(r ref) bool {
	w.mu.RLock()
	defer w.mu.RUnlock()
	t := w.targets[r]
	if t == nil {
		return false
	}
	paused := t.facts != nil && t.facts.operator.operator.Paused || t.scaledObject != nil && t.scaledObject.operator.operator.Paused
	for _, h := range t.hpas {
		paused = paused || h.operator.operator.Paused
	}
	return paused
}

// apply makes exactly those annotations ours. An annotation with another value that somebody else wrote is theirs and stays.
func (m *managing) apply(ctx context.Context, s *scaledObjectFacts, key ref, want []string, now time.Time) {
	resource, ok := m.cluster.late.resourceOf(key)
	if !ok {
		return
	}
	metadata := map[string]any{"name": s.Name, "namespace": s.Namespace}
	if len(want) > 0 { // an empty map would be ours for ever
		annotations := map[string]any{}
		for _, k := range want {
			annotations[k] = "true"
		}
		metadata["annotations"] = annotations
	}
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": scaledObjectKind.GroupVersion().String(), "kind": kindScaledObject, "metadata": metadata}}
	ctx, cancel := context.WithTimeout(ctx, activateTimeout)
	defer cancel()
	_, err := m.cluster.dynamic.Resource(resource).Namespace(s.Namespace).Apply(ctx, s.Name, u, metav1.ApplyOptions{FieldManager: fieldManager})
	switch {
	case err == nil:
		delete(m.failed, key)
		m.cluster.log.Info("applied KEDA's annotations", "scaledObject", s.Namespace+"/"+s.Name, "annotations", want, "before", s.manage.ours)
		m.cluster.events.Send(s.reference(), corev1.EventTypeNormal, events.KEDAManaged, "annotations of KEDA's in our name: "+listOr(want, "none"))
		return
	case apierrors.IsNotFound(err):
		return
	}
	f := m.failed[key]
	f.times++
	f.until = now.Add(min(activateBackoff<<min(f.times, 10), activateRetryMax))
	m.failed[key] = f
	if f.times == 1 {
		m.cluster.log.Error("cannot apply KEDA's annotations", "scaledObject", s.Namespace+"/"+s.Name, "annotations", want, "error", err)
		m.cluster.events.Send(s.reference(), corev1.EventTypeWarning, events.KEDAManageFailed, err.Error())
	}
}

func listOr(list []string, otherwise string) string {
	if len(list) == 0 {
		return otherwise
	}
	return strings.Join(list, ", ")
}
