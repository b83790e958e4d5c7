package main

import (
	"fmt"
	"path/filepath"
	"strings"
)

// An equivalent is a mutant that does not change the behavior of the product, with the reason.
type equivalent struct {
	identity
	reason string
}

// equivalents contains mutants of earlier samples that no test can detect, because they do not change the behavior.
var equivalents = []equivalent{
	{identity{"pkg/calendar/calendar.go", "Window.NeverEnds", "constant", "0", "(-1)", 0},
		everyYear},
	{identity{"pkg/calendar/calendar.go", "Window.NeverEnds", "constant", "0", "1", 0},
		everyYear},
	{identity{"pkg/calendar/calendar.go", "Window.NeverFires", "constant", "0", "(-1)", 0},
		everyYear},
	{identity{"pkg/calendar/calendar.go", "Window.recurrenceAfter", "result", "from", "0", 2},
		"the span has begun before every time that callers compare with its start"},
	{identity{"pkg/calendar/cron.go", "moments.firstOn", "boundary", "hour < 24", "hour <= 24", 0},
		hour24},
	{identity{"pkg/calendar/cron.go", "moments.firstOn", "constant", "24", "25", 0},
		hour24},
	{identity{"pkg/calendar/cron.go", "moments.atOrBefore", "constant", "24", "25", 0},
		hour24},
	{identity{"pkg/calendar/cron.go", "moments.atOrBefore", "constant", "1", "0", 5},
		hour24},
	{identity{"pkg/calendar/cron.go", "moments.lastOn", "constant", "1", "0", 1},
		"only expressions without exceptions are searched backward"},
	{identity{"pkg/calendar/cron.go", "moments.lastOn", "constant", "0", "1", 3},
		"the value is not used if the result is false"},
	{identity{"pkg/engine/engine.go", "maxKeptChanges", "constant", "256", "255", 0},
		"only determines which memory is reused"},
	{identity{"pkg/engine/groupobservation.go", "groupTick.observe", "boundary",
		"len(o.Workloads) < len(g.workloads)", "len(o.Workloads) <= len(g.workloads)", 0},
		"the next statement cuts the slice to its length"},
	{identity{"pkg/engine/grouptick.go", "adviceOf", "boundary", "a.Cap >= 0", "a.Cap > 0", 0},
		capped},
	{identity{"pkg/engine/grouptick.go", "adviceOf", "constant", "0", "1", 0},
		capped},
	{identity{"pkg/engine/grouptick.go", "nodeTicks.tick", "statement", "n.cancel()", "removed", 0},
		"the context ends by itself after ApplyTimeout"},
	{identity{"pkg/engine/grouptick.go", "nodeTicks.release", "constant", "0", "(-1)", 0},
		"a call of Act without an action writes nothing"},
	{identity{"pkg/engine/grouptick.go", "split", "constant", "1", "2", 0},
		sign},
	{identity{"pkg/engine/grouptick.go", "split", "constant", "1", "2", 1},
		sign},
	{identity{"pkg/engine/grouptick.go", "split", "logic", "y && !x", "y || !x", 0},
		sign},
	{identity{"pkg/engine/saved.go", "Engine.SaveModels", "logic", "m != nil && learned != nil", "m != nil || learned != nil", 0},
		"a tick sets both or none"},
	{identity{"pkg/policy/compile/interner.go", "Interner.canonicalText", "comparison", "len(text) > 64", "len(text) <= 64", 0},
		"only determines which texts share memory"},
	{identity{"pkg/policy/compile/targets.go", "compiler.amount", "boundary", "a.Value < 1", "a.Value <= 1", 0},
		"the condition before it is true for 1"},
	{identity{"pkg/policy/compiled.go", "Source.Fingerprint", "constant", "1", "2", 0},
		sameHash},
	{identity{"pkg/policy/formula/evaluate.go", "expression.signal", "constant", "0", "1", 0},
		ignored},
	{identity{"pkg/policy/schema/schema.go", "addFieldTable", "statement", "addFieldTable(s.AdditionalProperties, t.Elem())", "removed", 0},
		"no field is a map of structs"},
	{identity{"pkg/policy/decode/collector.go", "Collector.writtenBy", "boundary", "len(f.Origins) > 0", "len(f.Origins) >= 0", 0},
		"without entries, the search finds none"},
	{identity{"pkg/policy/spec/scalars.go", "parseDuration", "constant", "0", "1", 1},
		ignored},
	{identity{"pkg/policy/spec/scalars.go", "parseDuration", "constant", "0", "(-1)", 1},
		ignored},
	{identity{"pkg/policy/spec/scalars.go", "parseDuration", "constant", "0", "1", 2},
		ignored},
	{identity{"pkg/policy/spec/scalars.go", "parseDuration", "constant", "0", "(-1)", 2},
		ignored},
	{identity{"pkg/policy/spec/scalars.go", "parseDuration", "constant", "0", "1", 4},
		ignored},
	{identity{"pkg/policy/spec/scalars.go", "parseDuration", "constant", "0", "(-1)", 4},
		ignored},
	{identity{"pkg/policy/spec/scalars.go", "Amount.Parse", "constant", "64", "63", 0},
		size64},
	{identity{"pkg/policy/spec/scalars.go", "Amount.Parse", "constant", "64", "65", 0},
		size64},
	{identity{"pkg/policy/spec/scalars.go", "Percent.Parse", "constant", "64", "63", 0},
		size64},
	{identity{"pkg/policy/spec/scalars.go", "Percent.Parse", "constant", "64", "65", 0},
		size64},
	{identity{"pkg/policy/spec/scalars.go", "Percentile.Parse", "constant", "64", "63", 0},
		size64},
	{identity{"pkg/policy/spec/scalars.go", "Percentile.Parse", "constant", "64", "65", 0},
		size64},
	{identity{"pkg/policy/spec/scalars.go", "Tolerance.Parse", "constant", "64", "63", 0},
		size64},
	{identity{"pkg/policy/spec/scalars.go", "Tolerance.Parse", "constant", "64", "65", 0},
		size64},
	{identity{"pkg/scaling/objective.go", "Policy.Work", "arithmetic", "w[i]+s.identity()", "w[i] - s.identity()", 0},
		sameHash},
	{identity{"pkg/scaling/objective.go", "Policy.Work", "constant", "1", "0", 0},
		sameHash},
	{identity{"pkg/scaling/objective.go", "Policy.Work", "constant", "1", "2", 0},
		sameHash},
	{identity{"pkg/scaling/objective/rules.go", "holdSeconds", "constant", "0", "1", 0},
		"the first element means four cold starts, and no code reads it"},
	{identity{"pkg/scaling/propose.go", "tick.formula", "constant", "0", "1", 1},
		"the text of a formula does not contain the value of a signal"},
	{identity{"pkg/scaling/rate.go", "tick.rate", "boundary", "t.n < t.lastTarget", "t.n <= t.lastTarget", 0},
		"the limit of the rates is at most the last target"},
}

// Reasons that apply to several mutants.
const (
	everyYear = "the search covers 41 years and the expression matches every year, or every 40 years, so its first second does not matter"
	hour24    = "a compiled cron expression has no bit for hour 24"
	capped    = "a cap is at least 1, because it includes one pending replica; -1 means no cap"
	ignored   = "callers ignore the number if there is an error"
	sameHash  = "callers only compare the numbers, and equal inputs still have equal numbers"
	size64    = "strconv treats every size other than 32 as 64"
	sign      = "the sort uses only whether the result is negative"
)

// excuse marks the mutants of the group that are listed as equivalent. It returns an error for an entry that matches no mutant, because the
// entry must be removed after a change of the code.
func (g *group) excuse(list []equivalent) error {
	byIdentity := map[identity]*mutant{}
	for _, m := range g.all {
		byIdentity[m.identity] = m
	}
	for _, e := range list {
		if !strings.HasPrefix(e.File, filepath.ToSlash(g.dir)+"/") {
			continue
		}
		m := byIdentity[e.identity]
		if m == nil {
			return fmt.Errorf("equivalent.go: the code no longer has the mutant %s: remove or correct the entry", e.identity)
		}
		m.equivalent = e.reason
	}
	return nil
}
