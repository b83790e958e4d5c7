package annotations

import (
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/policy/decode"
	"github.com/gpuscaler/gpuscaler/pkg/policy/spec"
)

func appliedAnnotations(values map[string]string) (spec.Policy, string) {
	c, written, problems := decode.Collector{Origins: map[string]decode.Origin{}}, spec.Policy{}, ""
	Apply(&c, &written, FromAnnotations(values))
	for _, p := range c.Problems {
		problems += p.String() + "\n"
	}
	return written, problems
}

// The annotation contains the whole objective, so it replaces the objective in the annotation spec. With an objective, the signal queue
// needs no target.
func TestAnnotationOfAnObjective(t *testing.T) {
	p, problems := appliedAnnotations(map[string]string{Objective: "wait=10s  percentile=99.9", QueueSource: "gateway-queue",
		Spec: "objective: {deadline: 30m}\nsignals: [{name: gpu, type: dcgm}]"})
	o := p.Objective
	if problems != "" || o == nil || o.Wait == nil || time.Duration(*o.Wait) != 10*time.Second || o.Deadline != nil || *o.Percentile != 99.9 {
		t.Fatalf("%+v with %s", o, problems)
	}
	if len(p.Signals) != 2 || p.Signals[1].Measures != "queued" || p.Signals[1].Target != nil {
		t.Errorf("signals %+v", p.Signals)
	}
	if _, problems := appliedAnnotations(map[string]string{QueueSource: "gateway-queue"}); !strings.Contains(problems, "needs the target") {
		t.Errorf("a queue without target and objective: %q", problems)
	}
}

func TestAnnotationOfAnObjectiveThatCannotBeParsed(t *testing.T) {
	for text, want := range map[string]string{
		"wait":                     `"wait" is not key=value`,
		"wait:10s":                 `is not key=value`,
		"wait=10s wait=20s":        "wait is written twice",
		"wait=10s percentile=0.99": "percentile is a fraction: write 99%",
		"wait=10s percentile=100":  "percentile is out of range",
		"wait=10s percentile=NaN":  "percentile is not a percentage",
		"wait=-1s":                 "wait is out of range",
		"wait=1e300":               "wait is not a duration",
		"percentil=99":             "did you mean",
		"wait=10s; drop=1":         "wait is not a duration",
		"wait=10s percentile=９９":   "percentile is not a percentage",
	} {
		p, problems := appliedAnnotations(map[string]string{Objective: text})
		if p.Objective != nil || !strings.Contains(problems, want) ||
			!strings.Contains(problems, "metadata.annotations[gpuscaler.io/objective]") {
			t.Errorf("%q is %+v with %q, want %q", text, p.Objective, problems, want)
		}
	}
}
