package store_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/store"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// The annotations of an HPA or a ScaledObject can extend a policy in a ConfigMap, as they can extend a policy in a file.
func TestAnAnnotationExtendsAPolicyOfAConfigMap(t *testing.T) {
	a := newApplied(t, allowing)
	a.apply("chat", simple("a", 3))
	problems := setObject(a.Store, store.Object{Kind: "HorizontalPodAutoscaler", Namespace: "team-chat", Name: "a", MinReplicas: 1,
		MaxReplicas: 6, Target: scaling.Target{APIVersion: "apps/v1", Kind: "Deployment", Name: "a"},
		Annotations: map[string]string{"gpuscaler.io/mode": "advisory"}})
	if len(problems) > 0 {
		t.Fatal(policy.Render(problems))
	}
	if c := a.Find(key("a")); c == nil || c.Workload.Mode != scaling.Advisory || c.Workload.Policy.MaxReplicas != 6 {
		t.Errorf("in force is %+v", c)
	}
	a.delete("chat")
	if st := state(a.Store, "HorizontalPodAutoscaler team-chat/a"); policy.Errors(st.Problems) == 0 {
		t.Errorf("without the ConfigMap the annotation alone defines no signals: %+v", st)
	}
}

// A ConfigMap that an informer reports before the first load must have no effect until the PlatformConfig that permits it is loaded.
func TestConfigMapsBeforeTheFirstLoadAreKept(t *testing.T) {
	f := newFolder(t)
	a := applied{t, f, store.New(store.Options{})}
	a.apply("chat", simple("a", 3))
	expect(t, a.Store, "before the first load", "")
	if all := a.ConfigMapStatuses(); len(all) != 1 || len(all[0].Problems) > 0 {
		t.Errorf("statuses %+v", all)
	}
	f.write("platform.yaml", platform(allowing))
	if report := a.load(); !report.Changed || len(report.Problems) > 0 {
		t.Errorf("%+v", report)
	}
	expect(t, a.Store, "loaded", "a 3")
}

// If an informer reports a ConfigMap again with the same content, or if another ConfigMap changes, the policies must not be decoded or
// replaced.
func TestUnchangedConfigMapsKeepTheirPolicies(t *testing.T) {
	a := newApplied(t, allowing)
	a.apply("chat", simple("a", 3))
	a.apply("other", simple("b", 3))
	before, generation := slices.Clone(a.Compiled()), a.load().Generation
	a.apply("chat", simple("a", 3))
	a.load()
	if after := a.load(); !slices.Equal(before, a.Compiled()) || after.Generation != generation || after.Changed {
		t.Errorf("generation %d, then %d", generation, after.Generation)
	}
	a.apply("other", simple("b", 4))
	if a.Compiled()[0] != before[0] || a.Compiled()[1] == before[1] {
		t.Error("the change of one ConfigMap compiled another one")
	}
}

// Publish applies changes of ConfigMaps. The watcher of the files must report these changes at its next poll.
func TestTheWatcherReportsChangesOfConfigMaps(t *testing.T) {
	a := newApplied(t, allowing)
	ctx, cancel := context.WithCancel(t.Context())
	reports, done := make(chan store.Report, 10), make(chan struct{})
	go func() {
		defer close(done)
		a.Watch(ctx, 5*time.Millisecond, func(r store.Report) { reports <- r }, a.path)
	}()
	a.apply("chat", simple("a", 3))
	await(t, reports, func(r store.Report) bool { return r.Changed && len(r.Problems) == 0 })
	expect(t, a.Store, "applied", "a 3")
	a.apply("chat", strings.Replace(simple("a", 3), "target: 10", "target: ten", 1))
	await(t, reports, func(r store.Report) bool { return policy.Errors(r.Problems) == 1 && len(r.Outcomes) == 1 })
	a.delete("chat")
	await(t, reports, func(r store.Report) bool { return r.Changed && len(r.Problems) == 0 })
	expect(t, a.Store, "deleted", "")
	cancel()
	<-done
}

// After any sequence of valid changes of files and ConfigMaps, the current policies must depend only on the files and ConfigMaps that exist
// at the end. A file takes precedence over ConfigMaps, and an older ConfigMap takes precedence over a newer ConfigMap.
func TestPoliciesInForceDependOnlyOnWhatExists(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		f := newFolder(t)
		s := store.New(store.Options{})
		f.write("platform.yaml", platform(allowing))
		s.Load(f.path)
		names := []string{"a", "b", "c"}
		content := map[string]map[string]int{"file": {}, "older": {}, "newer": {}} // maxReplicas of each policy in each source
		for range rapid.IntRange(1, 12).Draw(r, "changes") {
			source := rapid.SampledFrom([]string{"file", "older", "newer"}).Draw(r, "source")
			policies, text := map[string]int{}, ""
			for _, name := range names {
				if n := rapid.IntRange(0, 20).Draw(r, name); n > 10 {
					policies[name] = n
					text += "---\n" + simple(name, n)
				}
			}
			content[source] = policies
			switch {
			case source == "file":
				f.write("policies.yaml", text)
				s.Load(f.path)
			case text == "":
				s.DeleteConfigMap("team-chat", source)
			default:
				s.SetConfigMap(store.ConfigMap{Namespace: "team-chat", Name: source, Data: map[string]string{"p": text},
					Created: map[string]time.Time{"older": time.Unix(1, 0), "newer": time.Unix(2, 0)}[source]})
			}
			s.Publish()
			var want []string
			for _, name := range names {
				for _, source := range []string{"file", "older", "newer"} {
					if n := content[source][name]; n > 0 {
						want = append(want, fmt.Sprintf("%s %d", name, n))
						break
					}
				}
			}
			if got := highest(s); got != strings.Join(want, ", ") {
				r.Fatalf("in force are %q, want %q; files and ConfigMaps: %v", got, want, content)
			}
		}
	})
}

// Many mistakes in one ConfigMap must not fill the log, so only the first problems are listed.
func TestProblemsOfAConfigMapAreLimited(t *testing.T) {
	a := newApplied(t, allowing)
	a.apply("good", simple("a", 3))
	a.apply("chat", strings.Repeat("---\n"+strings.Replace(simple("b", 3), "target: 10", "target: ten", 1), 90))
	all := a.status("chat").Problems
	if len(all) != 21 || !strings.Contains(all[20].Message, "only the first 20 are listed") {
		t.Errorf("%d problems, the last: %s", len(all), all[len(all)-1])
	}
	if report := a.load(); len(report.Problems) != 21 || len(report.Outcomes) > 100 {
		t.Errorf("%d problems and %d outcomes are logged", len(report.Problems), len(report.Outcomes))
	}
	expect(t, a.Store, "the other ConfigMap", "a 3")
}
