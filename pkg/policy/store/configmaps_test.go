package store_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/store"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// allowing is a PlatformConfig in which the team chat may apply ConfigMaps and the team batch may not.
const allowing = `teams: [{name: chat, namespaces: [team-chat], configMaps: true, bounds: {maxReplicas: 24}},
  {name: batch, namespaces: [team-batch]}]`

// applied is a store with a PlatformConfig and the ConfigMaps of teams.
type applied struct {
	t *testing.T
	folder
	*store.Store
}

func newApplied(t *testing.T, spec string) applied {
	t.Helper()
	a := applied{t, newFolder(t), store.New(store.Options{})}
	a.write("platform.yaml", platform(spec))
	a.load()
	return a
}

func (a applied) load() store.Report { return a.Load(a.path) }

// apply creates or changes a ConfigMap with one key, and publishes the change as the controller does before the next tick.
func (a applied) apply(name, text string) {
	a.applyAll("team-chat", name, map[string]string{"chat.yaml": text})
}

func (a applied) applyAll(namespace, name string, data map[string]string) {
	size := 0
	for k, v := range data {
		size += len(k) + len(v)
	}
	a.SetConfigMap(store.ConfigMap{Namespace: namespace, Name: name, UID: "uid-" + name, Data: data, Bytes: size})
	a.Publish()
}

func (a applied) delete(name string) {
	a.DeleteConfigMap("team-chat", name)
	a.Publish()
}

// status returns the status of a ConfigMap in the namespace team-chat.
func (a applied) status(name string) store.ConfigMapStatus {
	a.t.Helper()
	for _, st := range a.ConfigMapStatuses() {
		if st.Name == name {
			return st
		}
	}
	a.t.Fatalf("no status of ConfigMap %s", name)
	return store.ConfigMapStatus{}
}

// refused checks that the ConfigMap has exactly one problem with the given values.
func (a applied) refused(name string, want policy.Problem) {
	a.t.Helper()
	all := a.status(name).Problems
	if len(all) != 1 || all[0].File != want.File || all[0].Line != want.Line || all[0].Field != want.Field || all[0].Found != want.Found ||
		!strings.Contains(all[0].Message, want.Message) || !strings.Contains(all[0].Allowed, want.Allowed) {
		a.t.Errorf("ConfigMap %s: problems\n%swant\n%s", name, policy.Render(all), want)
	}
}

// A team creates a policy in a ConfigMap, edits it, makes a mistake, corrects the mistake and deletes the ConfigMap. After each step, the
// test checks the policies in force and the status of the ConfigMap.
func TestATeamAppliesAConfigMap(t *testing.T) {
	a := newApplied(t, allowing)
	a.apply("chat", simple("a", 3)+"---\n"+simple("b", 40))
	expect(t, a.Store, "applied, b within the bounds of the team", "a 3, b 24")
	st := a.status("chat")
	if policy.Errors(st.Problems) > 0 || len(st.InForce) != 2 || !strings.HasPrefix(st.InForce[0], "a@") || st.UID != "uid-chat" {
		t.Errorf("status %+v", st)
	}
	good := a.Find(key("a"))

	a.apply("chat", strings.Replace(simple("a", 7), "target: 10", "target: ten", 1)+"---\n"+simple("b", 5))
	expect(t, a.Store, "a has a typo", "a 3, b 5")
	a.refused("chat", policy.Problem{File: "ConfigMap team-chat/chat/chat.yaml", Line: 7, Field: "spec.signals[0].target", Found: `"ten"`,
		Message: "is not"})
	if a.Find(key("a")) != good {
		t.Error("the last valid version changed its pointer, so its readings would be lost")
	}
	if report := a.load(); !strings.Contains(policy.Render(report.Outcomes), "the last valid version ConfigMap chat/chat.yaml@") {
		t.Errorf("the watcher of the files logs\n%s", policy.Render(report.Outcomes))
	}
	if report := a.load(); len(report.Outcomes) > 0 || policy.Errors(report.Problems) != 1 {
		t.Errorf("the next load repeats\n%s", policy.Render(report.Outcomes))
	}

	a.apply("chat", simple("a", 8))
	expect(t, a.Store, "a is corrected, b is removed from the ConfigMap", "a 8")
	a.delete("chat")
	expect(t, a.Store, "the ConfigMap is deleted", "")
	if report := a.load(); len(report.Problems) > 0 {
		t.Errorf("after the deletion:\n%s", policy.Render(report.Problems))
	}
}

func TestAConfigMapCannotLeaveItsNamespace(t *testing.T) {
	a := newApplied(t, allowing)
	a.write("batch.yaml", strings.ReplaceAll(simple("embed", 9), "team-chat", "team-batch"))
	a.load()
	for name, c := range map[string]struct {
		text string
		want policy.Problem
	}{
		"a policy of another namespace": {strings.ReplaceAll(simple("embed", 1), "team-chat", "team-batch"), policy.Problem{Line: 3,
			Field: "metadata.namespace", Found: `"team-batch"`, Allowed: "team-chat",
			Message: "not accepted from a ConfigMap of namespace team-chat"}},
		"a PlatformConfig": {platform("mode: hold"), policy.Problem{Line: 2, Field: "kind", Found: `"PlatformConfig"`,
			Message: "is not accepted from a ConfigMap of namespace team-chat", Allowed: "ScalingPolicy"}},
		"a PlatformConfig that is not YAML": {"kind: PlatformConfig\nspec: {mode: hold\n", policy.Problem{Line: 3}},
		"another kind": {head + "Secret\n", policy.Problem{Line: 2, Field: "kind", Found: `"Secret"`, Message: "is not a supported kind",
			Allowed: "ScalingPolicy"}},
	} {
		a.apply("evil", c.text)
		if c.want.File = "ConfigMap team-chat/evil/chat.yaml"; c.want.Field != "" {
			a.refused("evil", c.want)
		} else if len(a.status("evil").Problems) == 0 {
			t.Errorf("%s: no problem", name)
		}
		embed := a.Find(scaling.Key{Namespace: "team-batch", Name: "embed"})
		if embed == nil || embed.Workload.Policy.MaxReplicas != 9 || embed.Workload.Mode != scaling.Auto || len(a.Current()) != 1 {
			t.Errorf("%s: in force are %s, embed %+v", name, highest(a.Store), embed)
		}
		if p := a.Platform(); p.Name != "prod" || p.Mode != scaling.Auto {
			t.Errorf("%s: the platform is %q in mode %s", name, p.Name, p.Mode)
		}
	}
}

// The PlatformConfig first does not permit ConfigMaps in a namespace, then permits them, and later forbids them again. The current
// PlatformConfig must always determine whether they are accepted.
func TestConfigMapsAreAcceptedOnlyWithPermission(t *testing.T) {
	a := newApplied(t, "teams: [{name: chat, namespaces: [team-chat]}]")
	a.apply("chat", simple("a", 3))
	denied := policy.Problem{File: "ConfigMap team-chat/chat", Message: "policies in ConfigMaps of namespace team-chat are not accepted",
		Allowed: "configMaps: true"}
	a.refused("chat", denied)
	expect(t, a.Store, "without permission", "")

	a.write("platform.yaml", platform(allowing))
	a.load()
	expect(t, a.Store, "with permission", "a 3")
	a.applyAll("team-batch", "batch", map[string]string{"b": strings.ReplaceAll(simple("b", 2), "team-chat", "team-batch")})
	a.applyAll("no-team", "none", map[string]string{"c": strings.ReplaceAll(simple("c", 2), "team-chat", "no-team")})
	expect(t, a.Store, "other namespaces have none", "a 3")

	a.write("platform.yaml", platform(allowing+", mode: nonsense"))
	a.load()
	expect(t, a.Store, "the PlatformConfig has an error: its last version stays in force", "a 3")

	a.write("platform.yaml", platform("teams: [{name: chat, namespaces: [team-chat]}]"))
	a.load()
	expect(t, a.Store, "the permission is withdrawn", "")
	a.refused("chat", denied)
}

// If the PlatformConfig is invalid when the process starts, it is unknown which teams may apply ConfigMaps. No ConfigMap may be accepted.
func TestConfigMapsNeedAPlatformConfigThatCanBeRead(t *testing.T) {
	a := newApplied(t, allowing+", mode: nonsense")
	a.apply("chat", simple("a", 3))
	expect(t, a.Store, "the PlatformConfig was never valid", "")
	a.refused("chat", policy.Problem{File: "ConfigMap team-chat/chat", Message: "before the PlatformConfig can be read",
		Allowed: "a valid PlatformConfig"})
	a.write("platform.yaml", platform(allowing))
	a.load()
	expect(t, a.Store, "it is corrected", "a 3")
}

// A ConfigMap that exceeds a limit must not be decoded. Its previous policies must continue to apply.
func TestOversizedConfigMapsAreRefused(t *testing.T) {
	var many strings.Builder
	for i := range 101 {
		many.WriteString("---\n" + simple(fmt.Sprint("m", i), 2))
	}
	a := newApplied(t, allowing)
	a.apply("chat", simple("a", 3))

	a.SetConfigMap(store.ConfigMap{Namespace: "team-chat", Name: "chat", Bytes: store.MaxConfigMapBytes + 1})
	a.Publish()
	expect(t, a.Store, "too many bytes", "a 3")
	a.refused("chat", policy.Problem{File: "ConfigMap team-chat/chat", Field: "data", Found: "131073 bytes", Message: "is too large",
		Allowed: "131072 bytes"})

	a.apply("chat", many.String())
	expect(t, a.Store, "too many documents", "a 3")
	a.refused("chat", policy.Problem{File: "ConfigMap team-chat/chat", Field: "data", Found: "101 documents",
		Message: "has too many documents", Allowed: "100"})

	a.SetConfigMap(store.ConfigMap{Namespace: "team-chat", Name: "chat", Binary: []string{"chat.yaml"}, Bytes: 20})
	a.Publish()
	expect(t, a.Store, "binary content", "a 3")
	a.refused("chat", policy.Problem{File: "ConfigMap team-chat/chat", Field: "binaryData[chat.yaml]", Message: "is not text",
		Allowed: "data"})

	a.apply("chat", "# later\n")
	expect(t, a.Store, "no documents", "")
	a.refused("chat", policy.Problem{File: "ConfigMap team-chat/chat", Message: "contains no documents", Allowed: "ScalingPolicy"})
}

// The hundred oldest ConfigMaps of a namespace must be accepted, and the order in which the informer reports the ConfigMaps must have no
// effect.
func TestTheOldestConfigMapsOfANamespaceAreAccepted(t *testing.T) {
	a := newApplied(t, allowing)
	for i := range 102 {
		n := (i*37 + 5) % 102
		a.SetConfigMap(store.ConfigMap{Namespace: "team-chat", Name: fmt.Sprint("m", n), Created: time.Unix(int64(n), 0),
			Data: map[string]string{"p": simple(fmt.Sprint("m", n), 2)}})
	}
	a.Publish()
	if n := len(a.Current()); n != 100 {
		t.Errorf("%d policies in force", n)
	}
	for _, name := range []string{"m100", "m101"} {
		a.refused(name, policy.Problem{File: "ConfigMap team-chat/" + name, Message: "the namespace has too many", Found: "102 ConfigMaps",
			Allowed: "100"})
	}
	a.DeleteConfigMap("team-chat", "m7")
	a.Publish()
	if a.Find(key("m100")) == nil || a.Find(key("m7")) != nil {
		t.Error("the next one is not accepted after a deletion")
	}
}

// If a file of the platform team and a ConfigMap have a policy with the same name or for the same target, the file takes precedence, even
// if the ConfigMap existed first.
func TestTheFileOfThePlatformTeamTakesPrecedence(t *testing.T) {
	for name, c := range map[string]struct {
		policy string // the policy in the file
		want   policy.Problem
	}{
		"the same name": {simple("a", 9), policy.Problem{Line: 3, Field: "metadata.name", Found: `"a"`, Message: "has the same name"}},
		"the same target": {strings.Replace(simple("z", 9), "scaleTargetRef: {name: z}", "scaleTargetRef: {name: a}", 1), policy.Problem{Line: 5,
			Field: "spec.scaleTargetRef.name", Found: `"a"`, Message: "are decided by policy z already"}},
	} {
		t.Run(name, func(t *testing.T) {
			a := newApplied(t, allowing)
			c.want.File = "ConfigMap team-chat/chat/chat.yaml"
			a.apply("chat", simple("a", 3))
			expect(t, a.Store, "the ConfigMap alone", "a 3")
			a.write("file.yaml", c.policy)
			for range 3 {
				a.load()
				if got := a.Current(); len(got) != 1 || got[0].Policy.MaxReplicas != 9 {
					t.Fatalf("in force are %s, want the policy of the file", highest(a.Store))
				}
				a.refused("chat", c.want)
			}
			a.apply("chat", simple("a", 4))
			if got := a.Current(); len(got) != 1 || got[0].Policy.MaxReplicas != 9 {
				t.Errorf("after an edit of the ConfigMap: %s", highest(a.Store))
			}
			a.remove("file.yaml")
			a.load()
			expect(t, a.Store, "the file is removed", "a 4")
		})
	}
}

// If a file is temporarily unreadable, its policy must continue to apply. A ConfigMap must not replace it during this time.
func TestAConfigMapDoesNotReplaceAFileThatCannotBeRead(t *testing.T) {
	a := newApplied(t, allowing)
	a.write("file.yaml", simple("a", 9))
	a.load()
	a.write("file.yaml", "{kind: [\n")
	a.load()
	a.apply("chat", simple("a", 3))
	for range 2 {
		expect(t, a.Store, "the file is not readable", "a 9")
		a.load()
	}
	a.refused("chat", policy.Problem{File: "ConfigMap team-chat/chat/chat.yaml", Line: 3, Field: "metadata.name", Found: `"a"`,
		Message: "currently cannot be read"})
	if st := state(a.Store, "ScalingPolicy team-chat/a"); st.State != store.LastValid || !strings.HasSuffix(st.File, "file.yaml") {
		t.Errorf("the policy of the file: %+v", st)
	}
	if st := state(a.Store, "ConfigMap team-chat/chat/chat.yaml:1"); st.State != store.Refused {
		t.Errorf("the policy of the ConfigMap: %+v", st)
	}
}

// A document in a file has the same name as a policy in a ConfigMap, but was never valid. The policy of the ConfigMap must apply until the
// ConfigMap is deleted.
func TestAnInvalidFileDoesNotKeepADeletedConfigMap(t *testing.T) {
	a := newApplied(t, allowing)
	a.apply("chat", simple("a", 3))
	a.write("file.yaml", strings.Replace(simple("a", 9), "target: 10", "target: ten", 1))
	for range 2 {
		a.load()
		expect(t, a.Store, "the file is not valid", "a 3")
	}
	a.delete("chat")
	a.load()
	expect(t, a.Store, "the ConfigMap is deleted", "")
}

// If two ConfigMaps of a team contain the same policy, the policy of the older ConfigMap must apply.
func TestTheOlderOfTwoConfigMapsApplies(t *testing.T) {
	a := newApplied(t, allowing)
	for i, name := range []string{"z-older", "a-newer"} {
		a.SetConfigMap(store.ConfigMap{Namespace: "team-chat", Name: name, Created: time.Unix(int64(i), 0),
			Data: map[string]string{"p": simple("a", i+1)}})
	}
	a.Publish()
	expect(t, a.Store, "both", "a 1")
	a.refused("a-newer", policy.Problem{File: "ConfigMap team-chat/a-newer/p", Line: 3, Field: "metadata.name", Found: `"a"`,
		Message: "refused: ConfigMap team-chat/z-older/p:1 has the same name and is in force", Allowed: "one document for a name"})
	a.delete("z-older")
	expect(t, a.Store, "the older one is deleted", "a 2")
}
