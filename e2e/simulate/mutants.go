package main

// mutant is a defect that is put into the product to test the invariants. `make simulate-mutants` builds the simulation with each one, by
// an overlay of the compiler, and runs seeds until an invariant is violated.
type mutant struct {
	what  string
	file  string // relative to the root of the repository
	old   string // occurs once in the file
	new   string
	seeds int // within which it must be found; 0: within 100
}

var mutants = []mutant{
	{what: "a failed query counts as the value 0", file: "pkg/telemetry/runner.go",
		old: "*reading = source.Missing(source.CauseOf(err))", new: "*reading = scaling.Reading{Known: true, Coverage: 1, At: received}"},
	{what: "an old sample counts as new", file: "pkg/scaling/propose.go",
		old: "case age > sig.MaxAge || r.At.Sub(t.now) > MaxAhead:", new: "case false:"},
	{what: "a missing signal does not hold the target", file: "pkg/scaling/propose.go",
		old: "t.set(RuleMissing, t.inputs.first, max(t.n, t.lastTarget),", new: "t.set(RuleMissing, t.inputs.first, t.n,"},
	{what: "one of two signals may be missing", file: "pkg/scaling/propose.go",
		old: "if t.inputs.unusable > 0 && !atZero || signals > 0 && usable == 0 {", new: "if !atZero && false || signals > 0 && usable == 0 {"},
	{what: "the last signal counts, not the greatest", file: "pkg/scaling/propose.go",
		old: "if best < 0 || t.proposals[i].Replicas > t.proposals[best].Replicas {", new: "if t.status[i].hasValue() {"},
	{what: "the minimum of an open schedule is ignored", file: "pkg/scaling/schedule.go",
		old: "t.set(RuleScheduleFloor, int8(best), max(t.n, t.floor),", new: "t.set(RuleScheduleFloor, int8(best), t.n,"},
	{what: "an implausible value is accepted", file: "pkg/telemetry/bounds.go",
		old: "if math.IsNaN(r.Value) || r.Value < 0 || r.Value > limit {",
		new: "if r.Value < 0 { r.Value = 0 }; if math.IsNaN(r.Value) || r.Value > limit {"},
	{what: "a target is served outside of new bounds until the next tick", file: "pkg/engine/entry.go",
		old: "	if !s.superseded() {\n		return n", new: "	if true {\n		return n"},
	{what: "the target of a deleted object is served for its successor", file: "pkg/engine/decisions.go",
		old: "		case uid != s.view.UID:\n", new: "		case uid == \"\":\n"},
	{what: "targets are served in mode hold", file: "pkg/engine/entry.go",
		old: "case s.inForce.Mode == scaling.Hold || s.workload.Mode == scaling.Hold:", new: "case s.at.IsZero():"},
	{what: "NodePools of removed groups are not restored", file: "pkg/engine/grouptick.go",
		old: "		if len(g.decision.Actions) > 0 {\n			n.engine.options.Nodes.Act(g.group, g.decision.Actions)\n		}\n	}", new: "	}"},
	{what: "the original values of a previous leader are not read", file: "pkg/capacity/override.go",
		old: "if !t.s.load(i, v.Record, unknown) {", new: "if false {"},
	{what: "an override is written without its record", file: "pkg/cluster/nodepoolwriter/patch.go",
		old: "	if p.Record != \"\" {", new: "	if p.Record != \"\" && len(p.Overrides) == 0 {"},
	{what: "the ownership of a restored field is not returned", file: "pkg/cluster/nodepoolwriter/patch.go",
		old: "	if !changed {\n		return current, nil\n	}", new: "	if true || !changed {\n		return current, nil\n	}"},
	{what: "a patch overwrites a newer edit", file: "pkg/cluster/nodepoolwriter/patch.go",
		old: "	desired.SetResourceVersion(current.GetResourceVersion())\n", new: ""},
	{what: "a write is sent without the Lease", file: "pkg/cluster/nodepoolwriter/patch.go",
		old: "	if !w.options.Leading() {", new: "	if false {"},
	{what: "demand does not remove a zero limit", file: "pkg/capacity/statemachine/zerolimit.go",
		old: "	case in.Lift != explain.NotLifted:\n		return demandExists",
		new: "	case in.Lift != explain.NotLifted && !in.InForce:\n		return demandExists"},
	{what: "an edit of the owner counts as an override", file: "pkg/capacity/override.go",
		old: "		*o, p.Stale = o.overwritten(t.at), true\n	}", new: "		o.Seen = true\n	}"},
	{what: "an edit of the owner is overwritten", file: "pkg/capacity/override.go",
		old: "	case t.isBehind(pool, f):\n", new: "	case t.isBehind(pool, f), !o.Releasing && o.Seen:\n"},
	{what: "a new scale target continues the targets of the deleted one", file: "pkg/engine/origin.go",
		old: "case v.UID != s.view.UID, now.Sub(s.at) > DefaultMaxAge", new: "case now.Sub(s.at) > DefaultMaxAge"},
	{what: "a restore overwrites a newer edit", file: "pkg/cluster/nodepoolwriter/patch.go",
		old: "encode(append([]operation{version}, operations...))", new: "encode(append([]operation{version}[1:], operations...))"},
	{what: "an annotation of a pod is written without the Lease", file: "pkg/cluster/nodepoolwriter/annotations.go",
		old: "	if !w.options.Leading() {", new: "	if false {"},
	{what: "the wait after an edit to the original value is not recorded", file: "pkg/capacity/override.go", seeds: 120,
		old: "return o.On || o.Overwrites > 0 || o.Retry > 0", new: "return o.On || o.Overwrites > 0"},
	{what: "a withdrawn consent is ignored", file: "pkg/capacity/override.go",
		old: "return a.o.Pools[pool].Consent&f.Consent() != 0", new: "return true"},
}
