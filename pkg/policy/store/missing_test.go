package store_test

import (
	"strings"
	"testing"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/store"
)

const everything = `teams: [{name: chat, namespaces: [team-chat], capacityGroups: [g], bounds: {maxReplicas: 5}}], ` +
	`capacityGroups: [{name: g, resource: nvidia.com/gpu, nodePools: {spot: s}}]`

// If the file with the PlatformConfig becomes empty or is removed, the last valid version must stay in force. Otherwise all bounds and
// capacity groups would be removed if, for example, a template produces no output or a ConfigMap lacks a key.
func TestAnEmptyOrMissingPlatformConfigKeepsItsLastVersion(t *testing.T) {
	const head = "apiVersion: gpuscaler.io/v1alpha1\nkind: PlatformConfig\nmetadata: {name: prod}\n"
	for name, c := range map[string]struct {
		end  func(f folder)
		want string // text in the problem
	}{
		"an empty file":    {func(f folder) { f.write("p.yaml", "") }, "the file no longer contains a PlatformConfig"},
		"a comment":        {func(f folder) { f.write("p.yaml", "# moved\n---\n") }, "the file no longer contains a PlatformConfig"},
		"a vanished file":  {func(f folder) { f.remove("p.yaml") }, "the file no longer contains a PlatformConfig"},
		"another document": {func(f folder) { f.write("p.yaml", simple("b", 3)) }, "the file no longer contains a PlatformConfig"},
		"an empty spec":    {func(f folder) { f.write("p.yaml", head+"spec: {}\n") }, "is empty, and the version in force is not"},
		"a null spec":      {func(f folder) { f.write("p.yaml", head+"spec:\n") }, "is empty, and the version in force is not"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFolder(t)
			policies := store.New(store.Options{})
			f.write("a.yaml", simple("a", 30))
			f.write("p.yaml", platform(everything))
			policies.Load(f.path)
			expect(t, policies, "within the team's bounds", "a 5")
			before := policies.Platform()
			c.end(f)
			for round := range 3 {
				r := policies.Load(f.path)
				if policies.Platform() != before || len(policies.Groups()) != 1 || policies.Find(key("a")).Workload.Policy.MaxReplicas != 5 {
					t.Fatalf("load %d: platform %q with %d groups, a of at most %d replicas", round, policies.Platform().Name, len(policies.Groups()),
						policies.Find(key("a")).Workload.Policy.MaxReplicas)
				}
				if text := policy.Render(r.Problems); policy.Errors(r.Problems) != 1 || !strings.Contains(text, c.want) ||
					!strings.Contains(text, "p.yaml@") {
					t.Errorf("load %d reports\n%s", round, text)
				}
				if st := state(policies, "PlatformConfig prod"); st.State != store.LastValid || st.InForce == "" {
					t.Errorf("load %d: the PlatformConfig is %+v", round, st)
				}
			}
			f.write("p.yaml", platform("mode: auto"))
			if r := policies.Load(f.path); policy.Errors(r.Problems) > 0 || len(policies.Groups()) != 0 {
				t.Errorf("mode: auto alone leaves %d groups\n%s", len(policies.Groups()), policy.Render(r.Problems))
			}
			f.write("p.yaml", platform(everything))
			if r := policies.Load(f.path); policy.Errors(r.Problems) > 0 || len(policies.Groups()) != 1 {
				t.Errorf("written again: %d groups\n%s", len(policies.Groups()), policy.Render(r.Problems))
			}
		})
	}
}

func TestAPlatformConfigMayBeEmptyFromTheStart(t *testing.T) {
	f := newFolder(t)
	f.write("a.yaml", simple("a", 30))
	f.write("p.yaml", "apiVersion: gpuscaler.io/v1alpha1\nkind: PlatformConfig\nmetadata: {name: prod}\nspec: {}\n")
	policies := store.New(store.Options{})
	for range 2 {
		if r := policies.Load(f.path); len(r.Problems) > 0 {
			t.Fatal(policy.Render(r.Problems))
		}
	}
	expect(t, policies, "no bounds", "a 30")
	f.remove("p.yaml")
	if r := policies.Load(f.path); len(r.Problems) > 0 || policies.Platform().Name != "" {
		t.Errorf("an empty PlatformConfig removes nothing: platform %q\n%s", policies.Platform().Name, policy.Render(r.Problems))
	}
}

// If the PlatformConfig is moved to a file with another name, it must stay in force, and no problem may be reported.
func TestAPlatformConfigCanMoveToAnotherFile(t *testing.T) {
	f := newFolder(t)
	policies := store.New(store.Options{})
	f.write("p.yaml", platform(everything))
	policies.Load(f.path)
	f.remove("p.yaml")
	f.write("platform.yaml", platform(everything))
	if r := policies.Load(f.path); len(r.Problems) > 0 || len(policies.Groups()) != 1 {
		t.Errorf("%d groups\n%s", len(policies.Groups()), policy.Render(r.Problems))
	}
}

// An empty file removes the policy and also its last valid version. If the file then contains the policy again with a mistake, the policy
// must be refused, and no version of it may be in force.
func TestAPolicyThatIsRefusedAfterItWasEmptyIsReported(t *testing.T) {
	f := newFolder(t)
	policies := store.New(store.Options{})
	bad := strings.Replace(simple("a", 30), "target: 10", "target: 0", 1)
	f.write("a.yaml", simple("a", 30))
	policies.Load(f.path)
	f.write("a.yaml", bad)
	if got := outcomes(policies.Load(f.path)); got != "refused: the last valid version a.yaml@c25d stays in force" {
		t.Errorf("a mistake: %q", got)
	}
	f.write("a.yaml", "")
	policies.Load(f.path)
	expect(t, policies, "deleted", "")
	f.write("a.yaml", bad)
	if got := outcomes(policies.Load(f.path)); got != "refused: no version of it is in force" {
		t.Errorf("after it was empty: %q", got)
	}
	if st := state(policies, "ScalingPolicy team-chat/a"); st.State != store.Refused || st.InForce != "" {
		t.Errorf("a is %+v", st)
	}
	if got := outcomes(policies.Load(f.path)); got != "" {
		t.Errorf("reported again: %q", got)
	}
	f.write("a.yaml", simple("a", 30))
	if got := outcomes(policies.Load(f.path)); got != "" {
		t.Errorf("fixed: %q", got)
	}
	f.write("a.yaml", bad+"# and more\n")
	policies.Load(f.path)
	f.write("a.yaml", bad+"# and other things\n")
	if got := outcomes(policies.Load(f.path)); got != "refused: the last valid version a.yaml@c25d stays in force" {
		t.Errorf("another mistake: %q", got)
	}
}

func outcomes(r store.Report) string {
	var out []string
	for _, n := range r.Outcomes {
		out = append(out, n.Message)
	}
	return strings.Join(out, "; ")
}
