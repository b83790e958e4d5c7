package evaluate

import (
	"strings"
	"testing"

	"github.com/gpuscaler/gpuscaler/pkg/replay/measure"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// With 8 slots, a target of 12 requests in flight per replica is only reached when requests wait, so the report has a warning.
func TestTargetAboveTheCapacityOfAReplicaIsReported(t *testing.T) {
	for _, c := range []struct {
		measure measure.Measure
		target  float64
		kind    scaling.Kind
		want    string
	}{
		{measure.InSystem, 12, scaling.Total,
			"signal load: its target of 12 requests in flight per replica is more than the 8 that a replica serves concurrently"},
		{measure.Running, 9, scaling.Mean, "signal load: its target of 9 running requests per replica is more than the 8"},
		{measure.InSystem, 6, scaling.Total, ""},
		{measure.Queue, 12, scaling.Total, ""}, // no warning: a queue can have any length
		{measure.Arrivals, 100, scaling.Total, "signal load: its target of 100 requests per second per replica is more than the "},
		{measure.Arrivals, 0.1, scaling.Total, ""},
	} {
		k := small(t, nil)
		p := *k.Policy
		limits := *p.Workload.Policy
		limits.Signals = []scaling.Signal{{Name: "load", Type: "prometheus", Target: c.target, Kind: c.kind}}
		p.Workload.Policy, p.Sources = &limits, p.Sources[:1]
		k.Policy, k.Measures = &p, map[string]measure.Measure{"load": c.measure}
		s := k.subject()
		found := strings.Join(s.Warnings, "\n")
		if c.want == "" && strings.Contains(found, "signal load") || !strings.Contains(found, c.want) {
			t.Errorf("%s, target %v: warnings %q, want %q", c.measure, c.target, found, c.want)
		}
	}
}
