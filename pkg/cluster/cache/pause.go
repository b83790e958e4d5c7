package cache

import (
	"strconv"
	"time"

	kedav1alpha1 "github.com/kedacore/keda/v2/apis/keda/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// kedaPause contains the annotations by which a user pauses KEDA; an annotation that is not set is empty.
type kedaPause struct {
	all     string // paused or paused-replicas: KEDA deletes the HPA, so no controller scales the workload
	in, out string // paused-scale-in, paused-scale-out: KEDA scales in this direction neither by the HPA nor itself to or from zero
	by      string // field manager that set the annotation, and when
}

// readPause reads KEDA's pause annotations with KEDA's rules: paused-replicas always pauses, and the other annotations pause unless their
// value is a false boolean such as "false".
func readPause(annotations map[string]string, managed []metav1.ManagedFieldsEntry) (p kedaPause) {
	keyIfTrue := func(key string) string {
		value, set := annotations[key]
		if on, err := strconv.ParseBool(value); !set || err == nil && !on {
			return ""
		}
		return key
	}
	p.all = keyIfTrue(kedav1alpha1.PausedAnnotation)
	p.in, p.out = keyIfTrue(kedav1alpha1.PausedScaleInAnnotation), keyIfTrue(kedav1alpha1.PausedScaleOutAnnotation)
	if _, ok := annotations[kedav1alpha1.PausedReplicasAnnotation]; ok {
		p.all = kedav1alpha1.PausedReplicasAnnotation
	}
	for _, key := range []string{p.all, p.in, p.out} {
		if key != "" && p.by == "" {
			p.by = key + " from " + lastManager(managed, key)
		}
	}
	return p
}

// why returns a message for users about the direction in which KEDA does not scale. It is empty if neither scale-in nor scale-out is
// paused.
func (p *kedaPause) why() string {
	switch {
	case p.in != "" && p.out != "":
		return "KEDA scales neither in nor out: " + p.in + ", " + p.out
	case p.in != "":
		return "KEDA does not scale in: " + p.in
	case p.out != "":
		return "KEDA does not scale out: " + p.out
	}
	return ""
}

// noEnd is the end of an override that lasts while an annotation is set.
var noEnd = time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)

// over combines KEDA's pause annotations with the operator's annotations. A target that KEDA does not apply would have a misleading
// explanation, and capacity groups would add or remove nodes for it. over therefore limits the target to the replicas that KEDA allows:
//
//	paused, paused-replicas   the target is the current replicas
//	paused-scale-in           the minimum is the current replicas
//	paused-scale-out          the maximum is the current replicas
//
// An override with a minimum above the current replicas takes precedence over paused-scale-in. An override with a maximum below the current
// replicas takes precedence over paused-scale-out.
func (p *kedaPause) over(o scaling.Operator, by string, replicas int32) (scaling.Operator, string) {
	switch {
	case p.all != "", p.in != "" && p.out != "":
		o.Paused = true
		return o, p.by
	case p.in != "" && o.Min <= replicas:
		return scaling.Operator{Paused: o.Paused, Min: replicas, Max: -1, Until: noEnd}, p.by
	case p.out != "" && (o.Max < 0 || o.Max >= replicas):
		return scaling.Operator{Paused: o.Paused, Min: -1, Max: replicas, Until: noEnd}, p.by
	}
	return o, by
}
