package cluster

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// Annotations of KEDA's, on a ScaledObject.
const (
	kedaPaused          = "autoscaling.keda.sh/paused"
	kedaPausedReplicas  = "autoscaling.keda.sh/paused-replicas"
	kedaPausedScaleIn   = "autoscaling.keda.sh/paused-scale-in"
	kedaPausedScaleOut  = "autoscaling.keda.sh/paused-scale-out"
	kedaForceActivation = "autoscaling.keda.sh/force-activation"
)

// kedaPause is what a person told KEDA to leave alone: the annotation that says so, empty where none does.
type kedaPause struct {
	whole   string // KEDA deletes the HPA: nobody moves the replicas
	in, out string // the HPA's direction is turned off, and so is the step to or from zero
	by      string // who wrote it, and when
}

// readPause follows KEDA's reading: a replica count pauses whatever else is said, and a value that is no boolean is true.
func readPause(annotations map[string]string, managed []metav1.ManagedFieldsEntry) (p kedaPause) {
	says := func(key string) string {
		if v, ok := annotations[key]; ok && !isFalse(v) {
			return key
		}
		return ""
	}
	p.whole, p.in, p.out = says(kedaPaused), says(kedaPausedScaleIn), says(kedaPausedScaleOut)
	if _, ok := annotations[kedaPausedReplicas]; ok {
		p.whole = kedaPausedReplicas
	}
	for _, key := range []string{p.whole, p.in, p.out} {
		if key != "" && p.by == "" {
			p.by = key + " from " + whoSet(managed, key)
		}
	}
	return p
}

// isFalse knows what KEDA's parser (strconv.ParseBool) takes for false.
func isFalse(v string) bool {
	switch v {
	case "0", "f", "F", "false", "FALSE", "False":
		return true
	}
	return false
}

// why says what KEDA does not do, for people.
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

// endless is the end of what lasts as long as an annotation stands.
var endless = time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)

// over lays KEDA's pause over what an operator told us. A number that KEDA does not follow would be explained wrongly, and nodes
// would be bought for it or given back; so what is paused stays, and what may move one way only moves that way:
//
//	paused, paused-replicas   stays at the current replicas
//	paused-scale-in           not below them: a floor that rises with them
//	paused-scale-out          not above them: a ceiling that falls with them
//
// An override that asks for more than the floor still counts, and so does one for less than the ceiling.
func (p *kedaPause) over(o scaling.Operator, by string, replicas int32) (scaling.Operator, string) {
	switch {
	case p.whole != "", p.in != "" && p.out != "":
		o.Paused = true
		return o, p.by
	case p.in != "" && o.Min <= replicas:
		return scaling.Operator{Paused: o.Paused, Min: replicas, Max: -1, Until: endless}, p.by
	case p.out != "" && (o.Max < 0 || o.Max >= replicas):
		return scaling.Operator{Paused: o.Paused, Min: -1, Max: replicas, Until: endless}, p.by
	}
	return o, by
}
