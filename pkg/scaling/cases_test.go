package scaling

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gpuscaler/gpuscaler/pkg/golden"
	"github.com/gpuscaler/gpuscaler/pkg/scaling/history"
	"github.com/gpuscaler/gpuscaler/pkg/scaling/objective"
)

// The golden file contains the text of at least one decision for each rule. In this decision, the rule must have a Reason.
func TestDecisionOfEachRuleAsText(t *testing.T) {
	var out strings.Builder
	covered := [numRules]bool{RuleNone: true, RulePropose: true} // these rules never have a Reason
	for _, c := range decisionCases(t) {
		p, o, s := c.build()
		d, _ := Decide(p, o, s, nine)
		n := 0
		for _, r := range d.Reasons.All() {
			if r.Rule == c.rule {
				n++
			}
		}
		if n != 1 || d.Replicas != c.want {
			t.Errorf("%v, %s: %d reasons, target %d, want one and %d\n%s", c.rule, c.name, n, d.Replicas, c.want, table(p, &d))
		}
		covered[c.rule] = true
		fmt.Fprintf(&out, "# %s: %s, last target %d\n%s\n", c.rule, c.name, c.replicas, Explain.Decision(&d, p))
		for _, r := range d.Reasons.All() {
			fmt.Fprintf(&out, "    %-20s %3d -> %-3d %s\n", r.Rule, r.From, r.To, Explain.Reason(r, p))
		}
		out.WriteString("\n")
	}
	for rule, ok := range covered {
		if !ok {
			t.Errorf("%v has no case", Rule(rule))
		}
	}
	golden.Compare(t, "testdata/decisions.golden", out.String())
}

// decisionCase is a decision in which the given rule has a Reason. Before the decision, the last target and the number of ready replicas
// are row.replicas.
type decisionCase struct {
	rule Rule
	row
}

func decisionCases(t *testing.T) []decisionCase {
	missing := func(o *Observation) { o.Readings[0] = Reading{Cause: CauseUnreachable, Failures: 3} }
	mean := func(p *Policy) { p.Signals = []Signal{busy(0.5)} }
	perMinute := func(p *Policy) { p.ScaleDown.Rates = []RatePolicy{{Pods, 1, time.Minute}} }
	schedule := func(low, high int32) func(*Policy) {
		return func(p *Policy) {
			p.Schedules = []Schedule{{Window: hours("office", berlin(t), 8, 20), Min: low, Max: high}}
		}
	}
	advice := func(a Advice) func(*Observation) { return func(o *Observation) { o.Advice = a } }
	override := func(low, high int32) func(*Observation) {
		return func(o *Observation) { o.Operator = Operator{Min: low, Max: high, Until: nine.Add(time.Hour)} }
	}
	team := func(p *Policy) { p.Team = &Team{Name: "chat", Limits: []ResourceLimit{{"nvidia.com/gpu", 16}}} }
	return []decisionCase{
		{RuleCombine, row{name: "a queue grows", replicas: 6, values: []float64{87}, want: 9}},
		{RuleObjective, row{name: "too little is known about a workload", replicas: 6, values: []float64{3}, policy: func(p *Policy) {
			p.Objective, p.Signals = &objective.Objective{Limit: 10 * time.Second, Percentile: 99}, []Signal{evidence(MeasureArrivals)}
		}, want: 6}},
		{RuleMissing, row{name: "a source does not answer", replicas: 6, values: []float64{0, 0.2}, policy: twoSignals, see: missing, want: 6}},
		{RuleFallback, row{name: "three polls failed", replicas: 6, values: []float64{0}, policy: func(p *Policy) {
			p.Fallback = Fallback{FailureThreshold: 3, Behavior: FallbackStatic, Replicas: 9}
		}, see: missing, want: 9}},
		{RuleGrowingDemand, row{name: "the queue grows while the GPUs are idle", replicas: 6, values: []float64{20, 0.1},
			policy: func(p *Policy) { p.Signals = []Signal{queue(10), busy(0.7)} },
			recall: func(s *State) { s.trends[0] = history.Trend{Known: true, Fast: 20, Slow: 12} }, want: 6}},
		{RuleLoading, row{name: "four of six replicas are loading", replicas: 6, values: []float64{0.5}, policy: mean,
			see: func(o *Observation) { o.Ready, o.Loading = 2, 4 }, want: 6}},
		{RuleTolerance, row{name: "a change of 4%", replicas: 10, values: []float64{104},
			policy: func(p *Policy) { p.ScaleUp.Tolerance = 0.1 }, want: 10}},
		{RulePanic, row{name: "twice the ready replicas", replicas: 4, values: []float64{80},
			policy: func(p *Policy) { p.Panic = Panic{2, time.Minute} }, want: 8}},
		{RuleStabilize, row{name: "a decrease to the highest recommendation", replicas: 9, values: []float64{20},
			policy: func(p *Policy) { p.ScaleDown.StabilizationWindow = 5 * time.Minute },
			recall: func(s *State) { s.down.Push(history.Stamp(nine)-60_000, 6, 9) }, want: 6}},
		{RuleIdle, row{name: "the cooldown is over", replicas: 1, values: []float64{3},
			policy: func(p *Policy) { p.Signals[0].Activation, p.CooldownPeriod = 5, 15*time.Minute }, want: 0}},
		{RuleIdle, row{name: "during the cooldown", replicas: 1, values: []float64{0},
			policy: func(p *Policy) { p.CooldownPeriod = 2 * time.Hour }, want: 1}},
		{RuleRate, row{name: "one pod a minute", replicas: 4, values: []float64{10}, policy: perMinute, want: 3}},
		{RuleForecast, row{name: "a forecast above the demand", replicas: 6, values: []float64{30},
			see: func(o *Observation) { o.Forecast = 5 }, want: 5}},
		{RuleScheduleFloor, row{name: "office hours", replicas: 6, values: []float64{5}, policy: schedule(4, -1), want: 4}},
		{RuleScheduleCeiling, row{name: "a maximum during office hours", replicas: 4, values: []float64{95}, policy: schedule(-1, 5), want: 5}},
		{RuleAtRisk, row{name: "two nodes are about to be interrupted", replicas: 6, values: []float64{60}, see: advice(Advice{Cap: -1,
			AtRisk: 2}), want: 8}},
		{RuleSurge, row{name: "a replica moves to spot", replicas: 6, values: []float64{60}, see: advice(Advice{Cap: -1, Surge: 1}), want: 7}},
		{RuleSurge, row{name: "beside replacements", replicas: 6, values: []float64{60}, see: advice(Advice{Cap: -1, AtRisk: 2,
			Surge: 1}), want: 9}},
		{RuleSurge, row{name: "the move is over while a change is within the tolerance", replicas: 11, values: []float64{104},
			policy: func(p *Policy) { p.ScaleUp.Tolerance = 0.1 }, see: advice(Advice{Cap: -1}),
			recall: func(s *State) { s.lastTarget, s.extra = 10, 1 }, want: 10}},
		{RuleCapacity, row{name: "no node can be launched", replicas: 6, values: []float64{120}, see: advice(Advice{Cap: 9}), want: 9}},
		{RuleOverride, row{name: "a minimum", replicas: 6, values: []float64{30}, see: override(8, -1), want: 8}},
		{RulePaused, row{name: "paused", replicas: 6, values: []float64{120}, see: func(o *Observation) { o.Operator.Paused = true }, want: 6}},
		{RuleBounds, row{name: "more than maxReplicas", replicas: 12, values: []float64{893},
			policy: func(p *Policy) { p.Signals[0].Target, p.MaxReplicas = 6, 12 }, want: 12}},
		{RuleBounds, row{name: "no replacement beyond maxReplicas", replicas: 12, values: []float64{120},
			policy: func(p *Policy) { p.MaxReplicas = 12 }, see: advice(Advice{Cap: -1, AtRisk: 1}), want: 12}},
		{RuleBounds, row{name: "one of two replacements within maxReplicas", replicas: 11, values: []float64{110},
			policy: func(p *Policy) { p.MaxReplicas = 12 }, see: advice(Advice{Cap: -1, AtRisk: 2}), want: 12}},
		{RuleBounds, row{name: "an HPA with a smaller maximum", replicas: 8, values: []float64{150},
			see: func(o *Observation) { o.HPAMaxReplicas = 10 }, want: 10}},
		{RuleTeamLimit, row{name: "other workloads use the limit", replicas: 2, values: []float64{60}, policy: team,
			see: func(o *Observation) { o.Limit = TeamLimit{Limited: true, Max: 4, Others: 12} }, want: 4}},
		{RuleTeamLimit, row{name: "an amount per replica that is not known", replicas: 2, values: []float64{60}, policy: team,
			see: func(o *Observation) { o.Limit = TeamLimit{Limited: true, Max: 2, Others: -1} }, want: 2}},
	}
}

// The text of a decision that lowers the target must not say that a scale-down was prevented.
func TestADecreaseDoesNotReadAsIfItWasHeld(t *testing.T) {
	held := regexp.MustCompile(`no scale-down( by| until|$)|no scale-up|within`)
	lowered := 0
	rapid.Check(t, func(t *rapid.T) {
		drive(t, false, func(p *Policy, o Observation, s State, now time.Time) {
			before := s.lastTarget + s.extra
			d, _ := Decide(p, o, s, now)
			if d.Replicas >= before {
				return
			}
			lowered++
			parts := strings.Split(Explain.Cause(&d, p), "; ")
			if text := parts[len(parts)-1]; held.MatchString(text) {
				t.Fatalf("%d -> %d, %q\n%s", before, d.Replicas, text, table(p, &d))
			}
		})
	})
	if lowered < 20 {
		t.Errorf("only %d decreases", lowered)
	}
}

// The package documentation must list the rules of the code in the same order.
func TestDocumentationListsTheRulesInOrder(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	var documented []string
	for _, m := range regexp.MustCompile(`(?m)^//\t([a-z][a-z -]*[a-z])  `).FindAllStringSubmatch(string(doc), -1) {
		documented = append(documented, m[1])
	}
	if want := ruleNames[RulePropose:]; !slices.Equal(documented, want) {
		t.Errorf("documented %q, want %q", documented, want)
	}
}
