package store

import (
	"fmt"
	"maps"
	"math"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
	"pgregory.net/rapid"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/decode"
	"github.com/gpuscaler/gpuscaler/pkg/policy/promql"
	"github.com/gpuscaler/gpuscaler/pkg/policy/spec"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// broken returns a text for each invariant of package scaling that a compiled policy violates.
func broken(c *policy.Compiled) (faults []string) {
	p := c.Workload.Policy
	check := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Sprintf(format, args...))
		}
	}
	check(c.Workload.Key.Name != "" && c.Workload.Key.Namespace != "" && c.Workload.Target.Name != "" &&
		c.Workload.Target.Kind != "", "workload %+v", c.Workload)
	check(p.MinReplicas >= 0 && p.MinReplicas <= p.MaxReplicas && p.MaxReplicas >= 1 &&
		p.MaxReplicas <= policy.ReplicaLimit, "bounds %d..%d", p.MinReplicas, p.MaxReplicas)
	check(p.CooldownPeriod >= 0, "cooldown %s", p.CooldownPeriod)
	check(len(p.Signals) <= scaling.MaxSignals && len(p.Signals) == len(c.Sources), "%d signals, %d sources", len(p.Signals), len(c.Sources))
	check(len(p.Schedules) <= scaling.MaxSchedules, "%d schedules", len(p.Schedules))
	check(len(p.Signals)+len(p.Schedules) > 0, "nothing decides")
	names := map[string]bool{}
	for i, s := range p.Signals {
		check(s.Target > 0 && !math.IsInf(s.Target, 0) && !math.IsNaN(s.Target), "%s: target %v", s.Name, s.Target)
		check(s.Activation >= 0 && !math.IsInf(s.Activation, 0), "%s: activation %v", s.Name, s.Activation)
		check(s.MaxAge > 0, "%s: max age %s", s.Name, s.MaxAge)
		check(s.MinCoverage >= 0 && s.MinCoverage <= 1, "%s: coverage %v", s.Name, s.MinCoverage)
		check(s.Unit != scaling.Percent || s.Target <= 1, "%s: %v is above 100%%", s.Name, s.Target)
		check(s.Class != scaling.Latency || s.Kind == scaling.Mean, "%s: a latency as a total", s.Name)
		check(s.Name != "" && !names[s.Name], "%s: twice", s.Name)
		names[s.Name] = true
		check(c.Sources[i].Quantile >= 0 && c.Sources[i].Quantile < 1, "%s: quantile %v", s.Name, c.Sources[i].Quantile)
		if q := c.Sources[i].Query; q != "" {
			_, err := promql.Parse(q)
			check(err == nil, "%s: query %s: %v", s.Name, q, err)
		}
	}
	for _, d := range []scaling.Direction{p.ScaleUp, p.ScaleDown} {
		check(d.StabilizationWindow >= 0 && d.StabilizationWindow <= time.Hour && d.Tolerance >= 0 && d.Tolerance <= 1 &&
			len(d.Rates) <= 4, "direction %+v", d)
		for _, r := range d.Rates {
			check(r.Value >= 1 && r.Period >= time.Second && r.Period <= 30*time.Minute, "rate %+v", r)
		}
	}
	check(p.Panic.Threshold == 0 || p.Panic.Threshold > 1 && p.Panic.Window > 0, "panic %+v", p.Panic)
	check(p.Fallback.Replicas >= 0 && p.Fallback.FailureThreshold >= 0, "fallback %+v", p.Fallback)
	for i, s := range p.Schedules {
		check(!s.Window.NeverFires() && !s.Window.NeverEnds() && s.Window.Location != nil, "schedule %d never fires or ends", i)
		check(s.Min >= 0 || s.Max >= 0, "schedule %d has no effect", i)
		check(s.Min < 0 || s.Max < 0 || s.Min <= s.Max, "schedule %d: %d..%d", i, s.Min, s.Max)
		check(s.Lead >= 0 && s.Lead <= 24*time.Hour, "schedule %d: lead %s", i, s.Lead)
	}
	if p.Formula != nil {
		for _, known := range []bool{true, false} {
			given := make([]scaling.Proposal, len(p.Signals))
			for i := range given {
				given[i] = scaling.Proposal{Value: float64(i), Replicas: float64(i), Known: known}
			}
			v, ok := p.Formula(given, 1, 1)
			check(!ok || v >= 0 && !math.IsInf(v, 0), "formula gives %v", v)
		}
	}
	return faults
}

var wellPlatform = func() string {
	text, err := os.ReadFile("testdata/mistakes/platform.yaml")
	if err != nil {
		panic(err)
	}
	return string(text)
}()

// pick draws one of the values. In 95% of the draws it uses only the first half of the list. The second half contains mostly invalid
// values. Invalid values must be rare, because a policy with one invalid value is invalid.
func pick(t *rapid.T, label string, values ...any) any {
	most := (len(values) - 1) / 2
	if rapid.IntRange(0, 19).Draw(t, label+" wild") == 7 {
		most = len(values) - 1
	}
	return values[rapid.IntRange(0, most).Draw(t, label)]
}

func drawSignal(t *rapid.T, i int) map[string]any {
	s := map[string]any{"name": fmt.Sprintf("s%d", i), "target": pick(t, "target", 10, 70, 2, 5, 100, "80%", "500ms", 0.7, 0, "x", -1)}
	switch s["type"] = pick(t, "type", "vllm", "prometheus", "redis", "external", "dcgm", "kueue", "triton", "keda", "external",
		"nonsense"); s["type"] {
	case "vllm", "triton", "dcgm":
		s["metric"] = pick(t, "metric", map[bool][]any{
			true:  {"activity", "memory", "tensorActivity", "what", nil},
			false: {"requestsWaiting", "kvCacheUsage", "requestsRunning", "timeToFirstToken", "queueTime", "what"},
		}[s["type"] == "dcgm"]...)
	case "prometheus":
		if rapid.Bool().Draw(t, "query") {
			s["queryRef"] = pick(t, "query", "gateway-queue", "nope")
		} else {
			s["metric"] = pick(t, "metric", "http_requests", "vllm:x", "a b", "sum(x)")
			s["matchLabels"] = map[string]string{pick(t, "label", "app", "namespace", "__name__", "a\"b").(string): pick(t, "value", "chat",
				`"} or up{x="`, "\n").(string)}
		}
	case "redis":
		s["source"], s["listName"] = pick(t, "source", "redis-chat", "redis-embed", "prom"), "jobs"
	case "external":
		s["metric"] = "sqs"
	case "kueue":
		s["localQueue"] = "q"
	case "keda":
		s["trigger"] = "sqs"
	}
	options := map[string][]any{
		"metricType": {"Value", "AverageValue", "Utilization"}, "activationTarget": {0, 1, "5%", "1s"}, "optional": {true, false, "yes"},
		"maxAge": {"1m", 90, "-1s"}, "minCoverage": {"50%", 100, 0.5, "200%"}, "quantile": {0.95, 0.5, 1, 95}, "window": {"2m", "1s"},
		"class": {"demand", "latency", "utilization", "fun"}, "aggregate": {"sum", "max", "median"}, "rate": {"1m", "x"},
	}
	for _, field := range slices.Sorted(maps.Keys(options)) {
		if rapid.IntRange(0, 29).Draw(t, field) == 7 {
			s[field] = pick(t, field, options[field]...)
		}
	}
	return s
}

func drawSchedule(t *rapid.T, i int) map[string]any {
	s := map[string]any{"name": fmt.Sprintf("w%d", i),
		"timezone": pick(t, "zone", "Europe/Berlin", "Etc/UTC", "America/St_Johns", "Mars/Olympus")}
	dated := rapid.IntRange(0, 3).Draw(t, "dated") == 0
	if !dated || rapid.Bool().Draw(t, "recurs") {
		s["start"] = pick(t, "start", "0 8 * * 1-5", "30 2 * * *", "0 0 29 2 *", "0 8 30 2 *", "* * *")
		s["end"] = pick(t, "end", "0 20 * * 1-5", "0 6 * * *", "0 0 1 3 *", "0 8 * * 1-5", "x")
	}
	if dated {
		s["from"] = pick(t, "from", "2026-11-27", "2026-11-27T18:00", "soon")
		s["until"] = pick(t, "until", "2026-11-30", "2026-12-01 08:00", "2020-01-01")
	}
	if floor := rapid.Bool().Draw(t, "floor"); floor || rapid.Bool().Draw(t, "both") {
		s["minReplicas"] = rapid.IntRange(0, 7).Draw(t, "min")
	}
	if _, floor := s["minReplicas"]; !floor || rapid.IntRange(0, 3).Draw(t, "ceiling") == 0 {
		s["maxReplicas"] = rapid.IntRange(5, 14).Draw(t, "max")
	}
	return s
}

func drawPolicy(t *rapid.T) map[string]any {
	written := map[string]any{"scaleTargetRef": map[string]any{"name": "llama"}, "maxReplicas": pick(t, "max", 14, 20, 1, 30, 0)}
	if rapid.Bool().Draw(t, "has min") {
		written["minReplicas"] = rapid.IntRange(0, 3).Draw(t, "min")
	}
	var signals, schedules []any
	for i := range rapid.IntRange(0, 4).Draw(t, "signals") {
		signals = append(signals, drawSignal(t, i))
	}
	for i := range rapid.IntRange(0, 3).Draw(t, "schedules") {
		schedules = append(schedules, drawSchedule(t, i))
	}
	written["signals"], written["schedules"] = signals, schedules
	options := map[string][]any{
		"formula":       {"has(s0.value) ? s0.value : replicas", "max(s0.replicas, 2 * ready)", "s1.value", "s9.value", "true"},
		"capacityGroup": {"chat", "batch", "none"}, "mode": {"advisory", "hold", "x"}, "cooldownPeriod": {"0", "15m", "1y"},
		"behavior": {
			map[string]any{"scaleUp": map[string]any{"policies": []any{map[string]any{"type": "Pods", "value": 4, "periodSeconds": 15}}}},
			map[string]any{"scaleDown": map[string]any{"selectPolicy": "Disabled"}, "panic": map[string]any{}},
			map[string]any{"scaleUp": map[string]any{"tolerance": "10%", "stabilizationWindowSeconds": 99999}},
		},
		"fallback": {map[string]any{"replicas": 3}, map[string]any{"behavior": "currentReplicas"}, map[string]any{"failureThreshold": -1}},
	}
	for _, field := range slices.Sorted(maps.Keys(options)) {
		if rapid.IntRange(0, 3).Draw(t, field) == 0 {
			written[field] = pick(t, field, options[field]...)
		}
	}
	return map[string]any{"apiVersion": spec.APIVersion, "kind": spec.KindScalingPolicy,
		"metadata": map[string]any{"name": "llama", "namespace": "team-chat"}, "spec": written}
}

func TestAPolicyIsValidOrRefusedWithAReason(t *testing.T) {
	good := 0
	rapid.Check(t, func(t *rapid.T) {
		text, err := yaml.Marshal(drawPolicy(t))
		if err != nil {
			t.Fatal(err)
		}
		policies := New(Options{})
		report := policies.load([]file{{name: "platform.yaml", text: []byte(wellPlatform)}, {name: "policy.yaml", text: text}})
		all := policies.Compiled()
		switch {
		case len(all) == 0 && policy.Errors(report.Problems) == 0:
			t.Fatalf("refused without a reason:\n%s", text)
		case len(all) == 1 && policy.Errors(report.Problems) > 0:
			t.Fatalf("in force with the problems\n%s\n%s", policy.Render(report.Problems), text)
		case len(all) == 1:
			good++
			if faults := broken(all[0]); len(faults) > 0 {
				t.Fatalf("%s\n%s", strings.Join(faults, "\n"), text)
			}
		}
		for _, p := range report.Problems {
			if p.Line == 0 || p.Message == "" || p.Field == "" {
				t.Fatalf("a problem without its place: %+v\n%s", p, text)
			}
		}
	})
	if t.Logf("%d compiled", good); good < 5 {
		t.Errorf("only %d policies were valid", good)
	}
}

// Two stores that load the same files must report the same problems and have the same number of policies in force.
func TestLoadingIsDeterministic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text, err := yaml.Marshal(drawPolicy(t))
		if err != nil {
			t.Fatal(err)
		}
		files := []file{{name: "platform.yaml", text: []byte(wellPlatform)}, {name: "policy.yaml", text: text}}
		a, b := New(Options{}), New(Options{})
		first, second := policy.Render(a.load(files).Problems), policy.Render(b.load(files).Problems)
		if first != second || len(a.Current()) != len(b.Current()) {
			t.Fatalf("once\n%s\nand once\n%s", first, second)
		}
	})
}

// spec.Marshal must return a document that is decoded to the same policy.
func TestAMarshalledPolicyIsDecodedUnchanged(t *testing.T) {
	checked := 0
	rapid.Check(t, func(t *rapid.T) {
		text, err := yaml.Marshal(drawPolicy(t))
		if err != nil {
			t.Fatal(err)
		}
		d := newDocument("a.yaml", decode.Part{Text: text})
		if !d.read() || d.Failed() {
			return
		}
		again, err := spec.Marshal(d.key, d.policySpec)
		if err != nil {
			t.Fatal(err)
		}
		e := newDocument("a.yaml", decode.Part{Text: again})
		e.read()
		if len(d.policySpec.Signals) == 0 { // Marshal omits an empty list
			d.policySpec.Signals = nil
		}
		if len(d.policySpec.Schedules) == 0 {
			d.policySpec.Schedules = nil
		}
		if e.Failed() || !reflect.DeepEqual(d.policySpec, e.policySpec) {
			t.Fatalf("%s\nbecomes\n%s\n%s", text, again, policy.Render(e.Problems))
		}
		checked++
	})
	if checked < 5 {
		t.Errorf("only %d were marshalled", checked)
	}
}
