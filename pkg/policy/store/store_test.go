package store_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/store"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// folder is a directory of policies that a test changes step by step.
type folder struct {
	t    *testing.T
	path string
}

func newFolder(t *testing.T) folder { return folder{t, t.TempDir()} }

func (f folder) write(name, text string) {
	f.t.Helper()
	if err := os.WriteFile(filepath.Join(f.path, name), []byte(text), 0o600); err != nil {
		f.t.Fatal(err)
	}
}

func (f folder) remove(name string) {
	f.t.Helper()
	if err := os.Remove(filepath.Join(f.path, name)); err != nil {
		f.t.Fatal(err)
	}
}

const head = "apiVersion: gpuscaler.io/v1alpha1\nkind: "

// simple returns a policy with one vLLM signal.
func simple(name string, maxReplicas int) string {
	return fmt.Sprintf(head+`ScalingPolicy
metadata: {name: %s, namespace: team-chat}
spec:
  scaleTargetRef: {name: %s}
  maxReplicas: %d
  signals: [{name: queue, type: vllm, target: 10}]
`, name, name, maxReplicas)
}

func platform(written string) string {
	return head + "PlatformConfig\nmetadata: {name: prod}\nspec: {" + written + "}\n"
}

func key(name string) scaling.Key { return scaling.Key{Namespace: "team-chat", Name: name} }

// highest returns the policies in force with their maxReplicas, such as "a 3, b 5".
func highest(s *store.Store) string {
	var out []string
	for _, w := range s.Current() {
		out = append(out, fmt.Sprintf("%s %d", w.Key.Name, w.Policy.MaxReplicas))
	}
	return strings.Join(out, ", ")
}

func expect(t *testing.T, s *store.Store, what, want string) {
	t.Helper()
	if got := highest(s); got != want {
		t.Errorf("%s: in force are %q, want %q", what, got, want)
	}
}

func state(s *store.Store, document string) store.Status {
	for _, st := range s.Statuses() {
		if st.Document == document {
			return st
		}
	}
	return store.Status{}
}

func TestAnInvalidDocumentAtTheStartAffectsOnlyItself(t *testing.T) {
	f := newFolder(t)
	f.write("a.yaml", simple("a", 3)+"---\n"+strings.Replace(simple("b", 4), "maxReplicas", "maxReplica",
		1)+"---\n{not yaml\n---\n"+simple("c", 5))
	f.write("b.yaml", simple("d", 6))
	policies := store.New(store.Options{})
	report := policies.Load(f.path)
	expect(t, policies, "at first start", "a 3, c 5, d 6")
	if policy.Errors(report.Problems) < 2 {
		t.Errorf("problems:\n%s", policy.Render(report.Problems))
	}
	if st := state(policies, "ScalingPolicy team-chat/b"); st.State != store.Refused {
		t.Errorf("b is %+v", st)
	}
}

func TestATypoKeepsTheLastValidVersionUntilItIsFixed(t *testing.T) {
	f := newFolder(t)
	clock := time.Unix(1000, 0)
	policies := store.New(store.Options{Clock: func() time.Time { return clock }})
	f.write("a.yaml", simple("a", 3)+"---\n"+simple("b", 4))
	policies.Load(f.path)
	good := policies.Find(key("a"))

	clock = clock.Add(time.Hour)
	f.write("a.yaml", strings.Replace(simple("a", 7), "target: 10", "target: ten", 1)+"---\n"+simple("b", 5))
	report := policies.Load(f.path)
	expect(t, policies, "after the typo", "a 3, b 5")
	if policies.Find(key("a")) != good {
		t.Error("the last valid version changed its pointer, so its readings would be lost")
	}
	if st := state(policies, "ScalingPolicy team-chat/a"); st.State != store.LastValid || st.InForce != good.Workload.Origin ||
		len(st.Problems) != 1 || st.Problems[0].Line != 7 || !st.Since.Equal(clock) {
		t.Errorf("a is %+v after\n%s", st, policy.Render(report.Problems))
	}
	if again := policies.Load(f.path); again.Changed || policy.Render(again.Problems) != policy.Render(report.Problems) {
		t.Errorf("loading the same files again: changed %v, reports\n%s", again.Changed, policy.Render(again.Problems))
	}

	f.write("a.yaml", simple("a", 7)+"---\n"+simple("b", 5))
	if report := policies.Load(f.path); len(report.Problems) > 0 {
		t.Errorf("fixed, and reports\n%s", policy.Render(report.Problems))
	}
	expect(t, policies, "fixed", "a 7, b 5")
	if st := state(policies, "ScalingPolicy team-chat/a"); st.State != store.InForce {
		t.Errorf("a is %+v", st)
	}
}

func TestAnUnreadableDocumentIsNotDeleted(t *testing.T) {
	f := newFolder(t)
	policies := store.New(store.Options{})
	f.write("a.yaml", simple("a", 3)+"---\n"+simple("b", 4)+"---\n"+simple("c", 5))
	policies.Load(f.path)
	f.write("a.yaml", simple("a", 3)+"---\n{kind: [\n---\n"+simple("c", 6))
	policies.Load(f.path)
	expect(t, policies, "b is not YAML", "a 3, b 4, c 6")
	if st := state(policies, "ScalingPolicy team-chat/b"); st.State != store.LastValid {
		t.Errorf("b is %+v", st)
	}
	f.write("a.yaml", simple("a", 3)+"---\n"+simple("c", 6))
	policies.Load(f.path)
	expect(t, policies, "b is deleted", "a 3, c 6")
}

func TestAMissingDirectoryIsNotAnEmptyOne(t *testing.T) {
	f := newFolder(t)
	dir := filepath.Join(f.path, "policies")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	f.write("policies/a.yaml", simple("a", 3))
	f.write("policies/p.yaml", platform("bounds: {maxReplicas: 2}"))
	policies := store.New(store.Options{})
	policies.Load(dir)
	expect(t, policies, "at first", "a 2")
	if err := os.Rename(dir, dir+".gone"); err != nil {
		t.Fatal(err)
	}
	if report := policies.Load(dir); policy.Errors(report.Problems) != 1 {
		t.Errorf("problems:\n%s", policy.Render(report.Problems))
	}
	expect(t, policies, "the volume is not mounted", "a 2")
	if err := os.Rename(dir+".gone", dir); err != nil {
		t.Fatal(err)
	}
	f.remove("policies/a.yaml")
	policies.Load(dir)
	expect(t, policies, "mounted again without a.yaml", "")
}

func TestUnchangedPoliciesKeepTheirValue(t *testing.T) {
	f := newFolder(t)
	policies := store.New(store.Options{})
	f.write("a.yaml", simple("a", 3)+"---\n"+simple("b", 4))
	if report := policies.Load(f.path); !report.Changed || report.Generation != 1 {
		t.Errorf("first load: %+v", report)
	}
	_, next := policies.Changed()
	a, b := policies.Find(key("a")), policies.Find(key("b"))
	f.write("a.yaml", "# a comment\n---\n"+simple("b", 9)+"---\n"+simple("a", 3))
	if report := policies.Load(f.path); !report.Changed || report.Generation != 2 {
		t.Errorf("second load: %+v", report)
	}
	select {
	case <-next:
	default:
		t.Error("the channel is not closed")
	}
	if policies.Find(key("a")).Workload.Policy != a.Workload.Policy || policies.Find(key("b")) == b {
		t.Error("only b changed: want the same pointer of a and a new one of b")
	}
	if report := policies.Load(f.path); report.Changed || report.Generation != 2 {
		t.Errorf("third load: %+v", report)
	}
}

// The field Source of a signal is the key under which the state of the signal is stored. An edit of the name, the target or other fields of
// a policy must not change Source. If the signal reads other data, Source must change.
func TestTheSourceOfASignalIsTheSameThroughOtherEdits(t *testing.T) {
	f := newFolder(t)
	s := store.New(store.Options{})
	source := func(signal string, maxReplicas int) uint64 {
		t.Helper()
		f.write("a.yaml", strings.Replace(simple("a", maxReplicas), "{name: queue, type: vllm, target: 10}", signal, 1))
		s.Load(f.path)
		c := s.Find(key("a"))
		if c == nil || c.Workload.Policy.MaxReplicas != int32(maxReplicas) {
			t.Fatalf("%s is not in force", signal)
		}
		return c.Workload.Policy.Signals[0].Source
	}
	first := source("{name: queue, type: vllm, target: 10}", 3)
	for _, same := range []string{"{name: queue, type: vllm, target: 20, optional: true}",
		"{name: other, type: vllm, metric: requestsWaiting, target: 10}"} {
		if got := source(same, 4); got != first {
			t.Errorf("%s has another Source", same)
		}
	}
	for _, other := range []string{"{name: queue, type: vllm, metric: requestsRunning, target: 10}",
		"{name: queue, type: sglang, target: 10}"} {
		if got := source(other, 5); got == first {
			t.Errorf("%s has the same Source", other)
		}
	}
}

// Policies with equal signals share one list of signals in memory. If the PlatformConfig forbids one of these policies to read the source,
// the other policies must not change.
func TestPoliciesOfOneTemplateShareOnlyTheirLists(t *testing.T) {
	f := newFolder(t)
	s := store.New(store.Options{})
	allowed := `dataSources: [{name: jobs, type: redis, address: "redis:6379"%s}]`
	of := func(name, namespace string, target int) string {
		text := strings.Replace(simple(name, 3), "namespace: team-chat", "namespace: "+namespace, 1)
		return strings.Replace(text, "{name: queue, type: vllm, target: 10}",
			fmt.Sprintf("{name: queue, type: redis, listName: jobs, target: %d}", target), 1)
	}
	f.write("p.yaml", platform(fmt.Sprintf(allowed, "")))
	f.write("a.yaml", of("a", "team-chat", 10)+"---\n"+of("b", "team-code", 10)+"---\n"+of("c", "team-chat", 20))
	if r := s.Load(f.path); len(r.Problems) > 0 {
		t.Fatal(policy.Render(r.Problems))
	}
	all := s.Compiled()
	a, c, b := all[0], all[1], all[2]
	signal := func(c *policy.Compiled) *scaling.Signal { return &c.Workload.Policy.Signals[0] }
	if signal(a) != signal(b) || &a.Sources[0] != &b.Sources[0] || signal(a) == signal(c) || signal(c).Target != 20 {
		t.Errorf("a and b share their signals: %t, a and c: %t", signal(a) == signal(b), signal(a) == signal(c))
	}
	f.write("p.yaml", platform(fmt.Sprintf(allowed, ", namespaces: [team-code]")))
	s.Load(f.path)
	a, b = s.Compiled()[0], s.Compiled()[2]
	if a.Sources[0].Denied == "" || b.Sources[0].Denied != "" {
		t.Errorf("the source is denied to %q and %q", a.Sources[0].Denied, b.Sources[0].Denied)
	}
}

func TestTheBoundsAndModeOfThePlatformAlwaysApply(t *testing.T) {
	f := newFolder(t)
	policies := store.New(store.Options{})
	f.write("a.yaml", simple("a", 30))
	f.write("p.yaml", platform("bounds: {maxReplicas: 20}, teams: [{name: chat, namespaces: [team-chat], bounds: {maxReplicas: 10}}]"))
	report := policies.Load(f.path)
	expect(t, policies, "two bounds", "a 10")
	if len(report.Problems) != 1 || !report.Problems[0].Warning {
		t.Errorf("want one warning, got\n%s", policy.Render(report.Problems))
	}
	before := policies.Find(key("a"))

	f.write("p.yaml", platform("mode: hold, bounds: {maxReplicas: 20}, teams: [{name: chat, namespaces: [team-chat], "+
		"bounds: {maxReplicas: 10}}]"))
	policies.Load(f.path)
	if w := policies.Current()[0]; w.Mode != scaling.Hold || w.Policy != before.Workload.Policy {
		t.Errorf("after hold the mode is %s, and the policy the same value: %v", w.Mode, w.Policy == before.Workload.Policy)
	}

	f.write("p.yaml", platform("mode: auto, bounds: {maxReplicas: 5}"))
	f.write("a.yaml", strings.Replace(simple("a", 30), "target: 10", "target: 0", 1))
	policies.Load(f.path)
	expect(t, policies, "lower bounds with a last valid version", "a 5")
	if m := policies.Current()[0].Mode; m != scaling.Auto {
		t.Errorf("mode %s", m)
	}
}

func TestHoldAppliesFromADocumentWithAnotherProblem(t *testing.T) {
	f := newFolder(t)
	policies := store.New(store.Options{})
	f.write("a.yaml", simple("a", 3))
	f.write("p.yaml", platform("bounds: {maxReplicas: 2}"))
	policies.Load(f.path)
	f.write("p.yaml", platform("mode: hold, bound: {maxReplicas: 1}"))
	policies.Load(f.path)
	if w := policies.Current()[0]; w.Mode != scaling.Hold || w.Policy.MaxReplicas != 2 {
		t.Errorf("mode %s, at most %d", w.Mode, w.Policy.MaxReplicas)
	}
	f.write("q.yaml", platform("mode: auto"))
	if r := policies.Load(f.path); len(r.Notices) > 0 {
		t.Errorf("two PlatformConfigs, one with mode hold: %s", policy.Render(r.Notices))
	}
	f.remove("q.yaml")
	f.write("p.yaml", platform("bound: {maxReplicas: 1}"))
	if r := policies.Load(f.path); len(r.Notices) != 1 || !strings.HasSuffix(r.Notices[0].File, "/p.yaml") {
		t.Errorf("the end of the hold is reported as %s", policy.Render(r.Notices))
	}
	if w := policies.Current()[0]; w.Mode != scaling.Auto || w.Policy.MaxReplicas != 2 {
		t.Errorf("after the hold: mode %s, at most %d", w.Mode, w.Policy.MaxReplicas)
	}
}

// The end of a hold (mode hold of all policies) must be reported once, with the name of the file. Removing the file with mode: hold must
// not end the hold.
func TestTheEndOfAHoldIsReportedOnceWithItsCause(t *testing.T) {
	const hold, auto, broken = "mode: hold", "mode: auto", "bounds: {maxReplicas: two}"
	for _, c := range []struct {
		name, first string
		end         func(f folder)
		want        string // part of the notice; empty: nothing must be reported
	}{
		{"deleted: the hold continues", hold, func(f folder) { f.remove("stop.yaml") }, ""},
		{"removed", hold, func(f folder) { f.write("stop.yaml", platform(auto)) },
			"the hold has ended because mode: hold was removed (now auto); targets are served for 1 of 2 policies"},
		{"changed to advisory", hold, func(f folder) { f.write("stop.yaml", platform("mode: advisory")) },
			"the hold has ended because mode: hold was removed (now advisory); targets are served for 0 of 2 policies"},
		{"with a mistake, then deleted", hold + ", " + broken, func(f folder) { f.remove("stop.yaml") },
			"the hold has ended because the PlatformConfig can be read again; targets are served for 1 of 2 policies"},
		{"never valid, then fixed", broken, func(f folder) { f.write("stop.yaml", platform(auto)) },
			"the hold has ended because the PlatformConfig can be read again; targets are served for 1 of 2 policies"},
		{"still set", hold, func(f folder) { f.write("stop.yaml", platform(hold+", bounds: {maxReplicas: 2}")) }, ""},
		{"still set beside a mistake", hold, func(f folder) { f.write("stop.yaml", platform(broken)) }, ""},
		{"no hold", auto, func(f folder) { f.remove("stop.yaml") }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFolder(t)
			policies := store.New(store.Options{})
			f.write("a.yaml", simple("a", 3))
			f.write("b.yaml", strings.Replace(simple("b", 3), "spec:", "spec:\n  mode: advisory", 1))
			f.write("stop.yaml", platform(c.first))
			if r := policies.Load(f.path); len(r.Notices) > 0 {
				t.Errorf("at the start it reports %s", policy.Render(r.Notices))
			}
			c.end(f)
			r := policies.Load(f.path)
			if got := len(r.Notices); c.want == "" && got == 0 {
				if onHold := policies.Current()[0].Mode == scaling.Hold; onHold != strings.Contains(c.first, hold) {
					t.Errorf("mode hold: %v", onHold)
				}
				return
			} else if got != 1 || r.Notices[0].Message != c.want || !r.Notices[0].Warning || !r.Changed {
				t.Fatalf("reports %q, changed %t, want %q", policy.Render(r.Notices), r.Changed, c.want)
			}
			if n := r.Notices[0]; !strings.HasSuffix(n.File, "/stop.yaml") {
				t.Errorf("file %q", n.File)
			}
			if r := policies.Load(f.path); len(r.Notices) > 0 {
				t.Errorf("reports it again: %s", policy.Render(r.Notices))
			}
		})
	}
}

func TestAPlatformThatWasNeverValidCausesAHold(t *testing.T) {
	f := newFolder(t)
	policies := store.New(store.Options{})
	f.write("a.yaml", simple("a", 3)+"---\n"+strings.Replace(simple("b", 3), "type: vllm", "type: prometheus, queryRef: q", 1))
	f.write("p.yaml", platform("bounds: {maxReplicas: two}"))
	report := policies.Load(f.path)
	if w := policies.Current(); len(w) != 1 || w[0].Mode != scaling.Hold {
		t.Fatalf("in force: %+v", w)
	}
	if n := policy.Errors(report.Problems); n != 1 {
		t.Errorf("one mistake made %d problems:\n%s", n, policy.Render(report.Problems))
	}
	if st := state(policies, "ScalingPolicy team-chat/b"); st.State != store.Refused || st.Waits == "" {
		t.Errorf("b is %+v", st)
	}
	f.write("p.yaml", platform(`bounds: {maxReplicas: 2}, dataSources: [{name: prom, type: prometheus, address: "http://prom"}], queries: `+
		`[{name: q, query: q, workloadLabel: pool}]`))
	policies.Load(f.path)
	expect(t, policies, "fixed", "a 2, b 2")
}

func TestTwoPlatformConfigsAreRefused(t *testing.T) {
	f := newFolder(t)
	policies := store.New(store.Options{})
	f.write("a.yaml", simple("a", 30))
	f.write("p.yaml", platform("bounds: {maxReplicas: 20}"))
	policies.Load(f.path)
	f.write("q.yaml", strings.Replace(platform("bounds: {maxReplicas: 25}"), "name: prod", "name: other", 1))
	report := policies.Load(f.path)
	expect(t, policies, "two", "a 20")
	if n := policy.Errors(report.Problems); n != 2 {
		t.Errorf("%d problems:\n%s", n, policy.Render(report.Problems))
	}
	f.remove("q.yaml")
	if report := policies.Load(f.path); policy.Errors(report.Problems) > 0 || report.Changed {
		t.Errorf("the second was removed, and reports\n%s", policy.Render(report.Problems))
	}
	f.write("q.yaml", strings.Replace(platform("bounds: {maxReplicas: 25}"), "name: prod", "name: other", 1))
	policies.Load(f.path)
	f.remove("p.yaml")
	policies.Load(f.path)
	expect(t, policies, "the other alone", "a 25")
	f.remove("q.yaml")
	policies.Load(f.path)
	expect(t, policies, "none: the last one stays in force", "a 25")
	f.write("p.yaml", platform("mode: auto"))
	policies.Load(f.path)
	expect(t, policies, "one without bounds", "a 30")
}

func TestRemovedPermissionsApplyToALastValidVersion(t *testing.T) {
	f := newFolder(t)
	policies := store.New(store.Options{})
	good := strings.Replace(simple("a", 3), "type: vllm", "type: redis, source: r, listName: jobs", 1)
	good = strings.Replace(good, "  maxReplicas", "  capacityGroup: g\n  maxReplicas", 1)
	full := `dataSources: [{name: r, type: redis, address: "r:6379"}], capacityGroups: [{name: g, resource: nvidia.com/gpu, ` +
		`nodePools: {spot: s}}]`
	f.write("a.yaml", good)
	f.write("p.yaml", platform(full))
	policies.Load(f.path)
	if c := policies.Find(key("a")); c == nil || c.Workload.Group != "g" || c.Sources[0].Denied != "" {
		t.Fatalf("a = %+v", c)
	}
	f.write("p.yaml", platform(`dataSources: [{name: r, type: redis, address: "r:6379", namespaces: [team-embed]}]`))
	report := policies.Load(f.path)
	if c := policies.Find(key("a")); c == nil || c.Workload.Group != "" || c.Sources[0].Denied == "" {
		t.Errorf("a still uses what was removed: %+v", c)
	}
	if st := state(policies, "ScalingPolicy team-chat/a"); st.State != store.LastValid || len(st.Problems) == 0 {
		t.Errorf("a is %+v after\n%s", st, policy.Render(report.Problems))
	}
	f.write("p.yaml", platform(full))
	policies.Load(f.path)
	if c := policies.Find(key("a")); c == nil || c.Workload.Group != "g" || c.Sources[0].Denied != "" {
		t.Errorf("permitted again: %+v", c)
	}
}

func TestTheFirstOfTwoPoliciesKeepsTheTarget(t *testing.T) {
	f := newFolder(t)
	policies := store.New(store.Options{})
	f.write("b.yaml", simple("b", 3))
	policies.Load(f.path)
	f.write("a.yaml", strings.Replace(simple("a", 9), "scaleTargetRef: {name: a}", "scaleTargetRef: {name: b}", 1))
	report := policies.Load(f.path)
	expect(t, policies, "a was added later", "b 3")
	if len(report.Problems) != 1 || report.Problems[0].Document != "ScalingPolicy team-chat/a" || report.Problems[0].Line != 5 {
		t.Errorf("problems:\n%s", policy.Render(report.Problems))
	}
	f.remove("b.yaml")
	policies.Load(f.path)
	expect(t, policies, "b was deleted", "a 9")
}

func TestTheSecondDocumentWithANameIsRefused(t *testing.T) {
	f := newFolder(t)
	policies := store.New(store.Options{})
	f.write("a.yaml", simple("a", 3))
	f.write("b.yaml", simple("a", 9))
	report := policies.Load(f.path)
	expect(t, policies, "two with one name", "a 3")
	if len(report.Problems) != 1 || !strings.HasSuffix(report.Problems[0].File, "b.yaml") {
		t.Errorf("problems:\n%s", policy.Render(report.Problems))
	}
}

func TestOtherFilesAreIgnored(t *testing.T) {
	f := newFolder(t)
	policies := store.New(store.Options{})
	f.write("a.yaml", "\ufeff# nothing but a comment\n---\n\n---\r\n"+strings.ReplaceAll(simple("a", 3), "\n", "\r\n")+"---\n")
	f.write(".a.yaml.swp", "junk")
	f.write(".hidden.yaml", "junk: [")
	f.write("b.yml", simple("b", 4))
	f.write("c.txt", "junk")
	if err := os.Mkdir(filepath.Join(f.path, "deep.yaml"), 0o700); err != nil {
		t.Fatal(err)
	}
	if report := policies.Load(f.path, f.path, filepath.Join(f.path, "a.yaml")); len(report.Problems) > 0 {
		t.Errorf("problems:\n%s", policy.Render(report.Problems))
	}
	expect(t, policies, "a directory with other files", "a 3, b 4")
	if got := slices.Sorted(slices.Values([]string{policies.Current()[0].Origin[:7]})); got[0] != "a.yaml@" {
		t.Errorf("origin %s", policies.Current()[0].Origin)
	}
}

// The policy has sixteen windows that open and close every other minute. The search for overlaps must stop after MaxSteps, because a search
// over four years would delay the load by minutes.
func TestALargeCalendarIsLoadedInTime(t *testing.T) {
	f := newFolder(t)
	text := simple("a", 30) + "  schedules:\n"
	for i := range 8 {
		text += fmt.Sprintf("  - {name: f%d, timezone: Etc/UTC, start: \"*/2 * * * *\", end: \"1-59/2 * * * *\", minReplicas: %d}\n", i, 20+i)
		text += fmt.Sprintf("  - {name: c%d, timezone: Etc/UTC, start: \"1-59/2 * * * *\", end: \"*/2 * * * *\", maxReplicas: %d}\n", i, 2+i)
	}
	f.write("a.yaml", text)
	policies := store.New(store.Options{})
	if report := policies.Load(f.path); len(report.Problems) > 0 {
		t.Errorf("%s", policy.Render(report.Problems))
	}
	expect(t, policies, "with the calendar", "a 30")
}

// If a policy has no version in force, Refusal must return its problem, so that a user can find out why the policy has no target.
func TestARefusedPolicyNamesItsReason(t *testing.T) {
	f := newFolder(t)
	policies := store.New(store.Options{})
	f.write("a.yaml", strings.Replace(simple("a", 3), "maxReplicas: 3", "maxReplicas: 0", 1)+"---\n"+simple("b", 3))
	policies.Load(f.path)
	object := scaledObject(pageAnnotations)
	object.Name, object.Target.Name = "c", "c"
	object.Annotations["gpuscaler.io/mode"] = "fast"
	setObject(policies, object)
	for name, want := range map[string]string{"a": "a.yaml:6:16: spec.maxReplicas: the workload could never run", "b": "", "other": "",
		"c": "gpuscaler.io/mode]: is not a mode"} {
		if got := policies.Refusal(key(name)); !strings.Contains(got, want) || (want == "") != (got == "") {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	f.write("a.yaml", simple("a", 3))
	policies.Load(f.path)
	f.write("a.yaml", strings.Replace(simple("a", 3), "maxReplicas: 3", "maxReplicas: 0", 1))
	policies.Load(f.path)
	if got := policies.Refusal(key("a")); got != "" {
		t.Errorf("the last valid version is in force, and a is refused: %q", got)
	}
}
