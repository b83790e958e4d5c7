package chart

import (
	"testing"

	"github.com/gpuscaler/gpuscaler/pkg/policy/annotations"
)

// annotated returns an HPA with the given annotations.
func annotated(values map[string]string) map[string]any {
	all := map[string]any{}
	for k, v := range values {
		all[k] = v
	}
	return map[string]any{"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
		"metadata": map[string]any{"name": "chat", "annotations": all}, "spec": map[string]any{"maxReplicas": int64(4)}}
}

// If a user writes an annotation that gpuscaler would refuse, the admission policy must warn the user. It must not check an annotation that
// the request does not change, so that an update of other fields is never refused.
func TestShortAnnotationsAreCheckedWhenTheyAreWritten(t *testing.T) {
	const wait = "gpuscaler.io/objective"
	j := newJudge(t, nil)
	for _, c := range []struct{ key, value, want string }{
		{"gpuscaler.io/mode", "advisory", ""}, {"gpuscaler.io/mode", "Auto", "use auto, advisory or hold"},
		{"gpuscaler.io/paused", "true", ""}, {"gpuscaler.io/paused", " False", ""}, {"gpuscaler.io/paused", "yes", "use true or false"},
		{"gpuscaler.io/pause", "true", "has no such annotation"}, {"example.com/pause", "yes", ""},
		{wait, "wait=10s percentile=99", ""}, {wait, "percentile=99.9%\n deadline=1h30m", ""}, {wait, "timeToFirstToken=500ms", ""},
		{wait, "wait=10 s", "use \"wait=10s"}, {wait, "waits=10s", "use \"wait=10s"}, {wait, "", "use \"wait=10s"},
		{wait, "wait=10spercentile=9", "use \"wait"},
		{"gpuscaler.io/gpu-utilization-target", "80%", ""}, {"gpuscaler.io/gpu-utilization-target", "eighty", "use a number"},
		{"gpuscaler.io/queue-depth-per-replica", "4.5", ""}, {"gpuscaler.io/queue-depth-per-replica", "-4", "use a number"},
		{"gpuscaler.io/manage-keda", "activation, hold", ""}, {"gpuscaler.io/manage-keda", "all", "use activation, hold"},
		{"gpuscaler.io/spec", "anything: [", ""}, // accepted here, because only the controller can report the line of an error in YAML
	} {
		after := annotated(map[string]string{c.key: c.value})
		judged(t, j.refusals(request{policy: "annotations", before: annotated(nil), after: after}), c.want)
		judged(t, j.refusals(request{policy: "annotations", before: after, after: after}), "")
	}
}

// The admission policy must accept each override that gpuscaler can parse, and refuse all other overrides. It does not check conditions
// that compare several values.
func TestCheckOfAnOverrideAgreesWithTheController(t *testing.T) {
	j := newJudge(t, nil)
	for _, text := range []string{
		"min=3 until=2026-11-22T06:00Z", "max=3 until=2026-11-22T06:00:00.5+01:00", " until=2026-11-22T06:00-07:00\tmin=1   max=2 ",
		"min=3", "until=2026-11-22T06:00Z", "", "min=3 until=2026-11-22T06:00", "min=3 until=tomorrow", "min=-1 until=2026-11-22T06:00Z",
		"minimum=3 until=2026-11-22T06:00Z", "min=3until=2026-11-22T06:00Z", "min=3,until=2026-11-22T06:00Z", "min = 3 until=2026-11-22T06:00Z",
	} {
		_, problems := annotations.ParseOperator(map[string]string{annotations.Override: text})
		want := ""
		if len(problems) > 0 {
			want = "use min, max or both"
		}
		after := annotated(map[string]string{annotations.Override: text})
		t.Run(text, func(t *testing.T) {
			judged(t, judge{t, j.policies}.refusals(request{policy: "annotations", before: annotated(nil), after: after}), want)
		})
	}
}
