package policystatus

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/events"
	"github.com/gpuscaler/gpuscaler/pkg/policy/annotations"
)

// write writes the annotation of one object. ok is false if writes of other objects would also fail, for example because the API server
// does not respond. The caller should then end the round.
func (w *Writer) write(ctx context.Context, about corev1.ObjectReference, text string, now time.Time) (ok bool) {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	err := w.options.Apply(ctx, about, text)
	w.mu.Lock()
	defer w.mu.Unlock()
	k := keyOf(&about)
	c := w.carriers[k]
	if c == nil || c.about.UID != about.UID {
		c = &carrier{about: about} // the object was deleted or replaced during the write
	}
	switch {
	case err == nil:
		w.count("written")
		c.written, c.failure = Written{Value: text, Ours: text != "", At: now}, failure{next: now.Add(writeInterval)}
		delete(w.refused, permission{k.kind, k.namespace})
		w.failing = false
	case isConflict(err):
		w.count("conflict")
		c.failure.again(now)
		w.reportConflict(c, err)
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		w.count("gone")
		c.failure.again(now) // delay the next attempt, because the informer will soon report the deletion
	case apierrors.IsForbidden(err):
		w.count("forbidden")
		w.reportForbidden(k, err, now)
	default:
		w.count("failed")
		c.failure.again(now)
		w.reportFailed(k, err)
		// Invalid concerns only this object, so the round continues; after other errors, writes of other objects would also fail
		return apierrors.IsInvalid(err)
	}
	if c.unlabeled && (err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err)) {
		delete(w.carriers, k)
	}
	return true
}

// isConflict reports whether the API server refused the write because another field manager owns the annotation with another value.
func isConflict(err error) bool {
	return apierrors.IsConflict(err) && apierrors.HasStatusCause(err, metav1.CauseTypeFieldManagerConflict)
}

// reportConflict reports once for each object that another field manager owns the annotation.
func (w *Writer) reportConflict(c *carrier, err error) {
	if c.failure.reported {
		return
	}
	c.failure.reported = true
	w.options.Log.Warn("the annotation "+annotations.PolicyStatus+" belongs to another field manager and is not written; remove it from the "+
		"manifest of the object", "kind", c.about.Kind, "object", c.about.Namespace+"/"+c.about.Name, "error", err)
	w.options.Events.Send(c.about, corev1.EventTypeWarning, events.PolicyStatusConflict, "the annotation "+annotations.PolicyStatus+
		" is not written: remove it from the manifest of this object, because only gpuscaler writes it; "+err.Error())
}

// reportForbidden reports once for each kind and namespace that the service account may not patch these objects, and delays the writes of
// all these objects.
func (w *Writer) reportForbidden(k key, err error, now time.Time) {
	p := permission{k.kind, k.namespace}
	f := w.refused[p]
	if f == nil {
		f = &failure{}
		w.refused[p] = f
		w.options.Log.Warn("the annotation "+annotations.PolicyStatus+" cannot be written; add the namespace to the chart value "+
			"policyStatus.namespaces, and for ConfigMaps also to teamConfigMaps.namespaces", "kind", k.kind, "namespace", k.namespace,
			"error", err)
	}
	f.again(now)
}

// reportFailed logs an error that is neither a conflict nor a missing permission. After it has logged an error, it logs the next error only
// after a write has succeeded.
func (w *Writer) reportFailed(k key, err error) {
	if !w.failing {
		w.options.Log.Warn("the annotation "+annotations.PolicyStatus+" was not written; trying again", "kind", k.kind,
			"object", k.namespace+"/"+k.name, "error", err)
	}
	w.failing = true
}

func (w *Writer) count(result string) { w.writes.WithLabelValues(result).Inc() }
