package manual

import (
	"strconv"
	"time"

	kedav1alpha1 "github.com/kedacore/keda/v2/apis/keda/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// KEDAPause contains the annotations by which a user pauses KEDA. An annotation that is not set is "".
type KEDAPause struct {
	All     string // paused or paused-replicas: KEDA deletes the HPA, so no controller scales the workload
	In, Out string // paused-scale-in, paused-scale-out: KEDA does not scale in this direction, neither by the HPA nor to or from zero
	by      string // field manager that set the annotation, and the time of its write
}

// ReadKEDAPause reads KEDA's pause annotations by the rules of KEDA: paused-replicas always pauses. The other annotations
// pause unless their value is a false boolean, such as "false".
func ReadKEDAPause(annotations map[string]string, managed []metav1.ManagedFieldsEntry) (p KEDAPause) {
	keyIfTrue := func(key string) string {
		value, set := annotations[key]
		if on, err := strconv.ParseBool(value); !set || err == nil && !on {
			return ""
		}
		return key
	}
	p.All = keyIfTrue(kedav1alpha1.PausedAnnotation)
	p.In, p.Out = keyIfTrue(kedav1alpha1.PausedScaleInAnnotation), keyIfTrue(kedav1alpha1.PausedScaleOutAnnotation)
	if _, ok := annotations[kedav1alpha1.PausedReplicasAnnotation]; ok {
		p.All = kedav1alpha1.PausedReplicasAnnotation
	}
	for _, key := range []string{p.All, p.In, p.Out} {
		if key != "" && p.by == "" {
			p.by = key + " from " + lastManager(managed, key)
		}
	}
	return p
}

// Why returns a message for users about the directions in which KEDA does not scale. It returns "" if KEDA scales in both directions.
func (p *KEDAPause) Why() string {
	switch {
	case p.In != "" && p.Out != "":
		return "KEDA scales neither in nor out: " + p.In + ", " + p.Out
	case p.In != "":
		return "KEDA does not scale in: " + p.In
	case p.Out != "":
		return "KEDA does not scale out: " + p.Out
	}
	return ""
}

// noEnd is the end of an override that lasts until its annotation is removed.
var noEnd = time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)

// Over combines KEDA's pause annotations with the annotations of gpuscaler that a user set (o). It limits the target to the replicas that
// KEDA allows. Otherwise KEDA would not apply the target, the explanation of the target would be misleading, and capacity groups would add
// or remove nodes for replicas that KEDA does not allow.
//
//	paused, paused-replicas   the target is the current replicas
//	paused-scale-in           the minimum is the current replicas
//	paused-scale-out          the maximum is the current replicas
//
// An override with a minimum above the current replicas takes precedence over paused-scale-in. An override with a maximum below the current
// replicas takes precedence over paused-scale-out.
func (p *KEDAPause) Over(o scaling.Operator, by string, replicas int32) (scaling.Operator, string) {
	switch {
	case p.All != "", p.In != "" && p.Out != "":
		o.Paused = true
		return o, p.by
	case p.In != "" && o.Min <= replicas:
		return scaling.Operator{Paused: o.Paused, Min: replicas, Max: -1, Until: noEnd}, p.by
	case p.Out != "" && (o.Max < 0 || o.Max >= replicas):
		return scaling.Operator{Paused: o.Paused, Min: -1, Max: replicas, Until: noEnd}, p.by
	}
	return o, by
}
