package store_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/store"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

const (
	platformText = "apiVersion: gpuscaler.io/v1alpha1\nkind: PlatformConfig\nmetadata: {name: prod}\nspec: {bounds: {maxReplicas: 50}}\n"
	freezing     = "apiVersion: gpuscaler.io/v1alpha1\nkind: PlatformConfig\nmetadata: {name: prod}\nspec: {mode: hold}\n"
)

// policyText returns the text of a policy in the given namespace.
func policyText(namespace, name string, most string) string {
	return "apiVersion: gpuscaler.io/v1alpha1\nkind: ScalingPolicy\nmetadata:\n  name: " + name + "\n  namespace: " + namespace +
		"\nspec: {scaleTargetRef: {name: " + name + "}, minReplicas: 1, maxReplicas: " + most +
		", schedules: [{name: s, timezone: UTC, from: 2020-01-01, until: 2099-12-31, minReplicas: 1}]}\n"
}

// tree is a directory with a PlatformConfig and the files of two tenants. The path of each tenant accepts only policies of the tenant's own
// namespaces.
type tree struct {
	t     *testing.T
	dir   string
	store *store.Store
}

func newTree(t *testing.T) tree {
	t.Helper()
	x := tree{t, t.TempDir(), store.New(store.Options{})}
	x.write("platform/platform.yaml", platformText)
	x.write("chat/chat.yaml", policyText("team-chat", "llama", "12"))
	x.write("code/code.yaml", policyText("team-code", "codestral", "8"))
	return x
}

func (x tree) write(name, text string) {
	x.t.Helper()
	path := filepath.Join(x.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		x.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		x.t.Fatal(err)
	}
}

func (x tree) load() []policy.Problem {
	return x.store.LoadPaths(
		store.Path{Name: filepath.Join(x.dir, "platform"), Platform: true, Namespaces: []string{store.AnyNamespace}},
		store.Path{Name: filepath.Join(x.dir, "chat"), Namespaces: []string{"team-chat"}},
		store.Path{Name: filepath.Join(x.dir, "code"), Namespaces: []string{"team-code", "team-code-staging"}},
	).Problems
}

// intact checks that the PlatformConfig and the policies of both tenants are in force as they were written.
func (x tree) intact() {
	x.t.Helper()
	if p := x.store.Platform(); p.Mode != scaling.Auto || p.Bounds.Max != 50 {
		x.t.Errorf("the platform in force has mode %v and at most %d replicas", p.Mode, p.Bounds.Max)
	}
	for key, most := range map[scaling.Key]int32{{Namespace: "team-chat", Name: "llama"}: 12, {Namespace: "team-code", Name: "codestral"}: 8} {
		if c := x.store.Find(key); c == nil || c.Workload.Policy.MaxReplicas != most || c.Workload.Mode != scaling.Auto {
			x.t.Errorf("%s in force: %+v, want mode auto and at most %d replicas", key, c, most)
		}
	}
}

func (x tree) refused(problems []policy.Problem, want policy.Problem) {
	x.t.Helper()
	for _, p := range problems {
		if strings.HasSuffix(p.File, want.File) && p.Line == want.Line && p.Field == want.Field && p.Found == want.Found &&
			strings.Contains(p.Allowed, want.Allowed) {
			return
		}
	}
	x.t.Errorf("problems:\n%swant one of %s, line %d, field %s, found %s, allowed %s", policy.Render(problems), want.File, want.Line,
		want.Field, want.Found, want.Allowed)
}

// A tenant writes a PlatformConfig, or a policy of another namespace, into its own file. The document must be refused and must have no
// other effect, even after a restart and after the file is removed.
func TestAFileOfATenantAffectsOnlyItsNamespaces(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want policy.Problem
	}{
		"the platform with mode hold": {freezing,
			policy.Problem{Line: 2, Field: "kind", Found: `"PlatformConfig"`, Allowed: "ScalingPolicy"}},
		"the platform with mode hold and a mistake": {strings.Replace(freezing, "mode: hold", "mode: hold, bogus: 1", 1),
			policy.Problem{Line: 2, Field: "kind", Found: `"PlatformConfig"`, Allowed: "ScalingPolicy"}},
		"a second platform": {strings.Replace(platformText, "50", "5000", 1),
			policy.Problem{Line: 2, Field: "kind", Found: `"PlatformConfig"`, Allowed: "--config"}},
		"another namespace": {policyText("kube-system", "dns", "3"),
			policy.Problem{Line: 5, Field: "metadata.namespace", Found: `"kube-system"`, Allowed: "team-chat"}},
		"another tenant's policy": {policyText("team-code", "codestral", "1"),
			policy.Problem{Line: 5, Field: "metadata.namespace", Found: `"team-code"`, Allowed: "team-chat"}},
		"another tenant's policy with a mistake": {strings.Replace(policyText("team-code", "codestral", "1"), "minReplicas: 1", "minReplicas: x",
			1), policy.Problem{Line: 5, Field: "metadata.namespace", Found: `"team-code"`, Allowed: "team-chat"}},
	} {
		t.Run(name, func(t *testing.T) {
			x := newTree(t)
			if problems := x.load(); len(problems) > 0 {
				t.Fatal(policy.Render(problems))
			}
			c.want.File = "chat/more.yaml"
			x.write("chat/more.yaml", c.text)
			x.refused(x.load(), c.want)
			x.intact()
			if x.store.Find(scaling.Key{Namespace: "kube-system", Name: "dns"}) != nil {
				t.Error("a policy of kube-system is in force")
			}
			if s := state(x.store, filepath.Join(x.dir, "chat/more.yaml")+":1"); s.State != store.Refused || len(s.Problems) == 0 {
				t.Errorf("status %+v", s)
			}

			x.store = store.New(store.Options{})
			x.refused(x.load(), c.want)
			x.intact()

			if err := os.Remove(filepath.Join(x.dir, "chat/more.yaml")); err != nil {
				t.Fatal(err)
			}
			if problems := x.load(); len(problems) > 0 {
				t.Error(policy.Render(problems))
			}
			x.intact()
		})
	}
}

// The cluster has no PlatformConfig. An unreadable file of a tenant must not set all policies to mode hold, because the tenant's path does
// not permit a PlatformConfig.
func TestAnUnreadableFileOfATenantIsNoMissingPlatform(t *testing.T) {
	for name, text := range map[string]string{"not YAML, with the kind": "kind: PlatformConfig\n  broken: [\n",
		"too large": strings.Repeat("#", 16<<20+1)} {
		t.Run(name, func(t *testing.T) {
			x := newTree(t)
			if err := os.Remove(filepath.Join(x.dir, "platform/platform.yaml")); err != nil {
				t.Fatal(err)
			}
			x.write("chat/more.yaml", text)
			if problems := x.load(); len(problems) == 0 {
				t.Error("nothing is reported")
			}
			if c := x.store.Find(scaling.Key{Namespace: "team-code", Name: "codestral"}); c == nil || c.Workload.Mode != scaling.Auto {
				t.Errorf("in force: %+v", c)
			}
		})
	}
}

func TestAPathMayNameSeveralNamespacesOrAll(t *testing.T) {
	x := newTree(t)
	x.write("code/staging.yaml", policyText("team-code-staging", "codestral", "2"))
	if problems := x.load(); len(problems) > 0 || x.store.Find(scaling.Key{Namespace: "team-code-staging", Name: "codestral"}) == nil {
		t.Errorf("the second namespace is not accepted: %s", policy.Render(problems))
	}
	any := store.Path{Name: filepath.Join(x.dir, "chat"), Namespaces: []string{store.AnyNamespace}}
	x.write("chat/more.yaml", policyText("team-x", "any", "2"))
	if problems, _ := store.ValidateWith(nil, any); len(problems) > 0 {
		t.Error(policy.Render(problems))
	}
	x.write("chat/more.yaml", freezing)
	if problems, _ := store.ValidateWith(nil, any); policy.Errors(problems) != 1 || problems[0].Field != "kind" {
		t.Errorf("a PlatformConfig where every namespace is accepted: %s", policy.Render(problems))
	}
}

func TestParsePath(t *testing.T) {
	p, err := store.ParsePath("team-chat, team-code=/etc/a=b")
	if err != nil || p.Name != "/etc/a=b" || strings.Join(p.Namespaces, " ") != "team-chat team-code" || p.Platform {
		t.Errorf("%+v, %v", p, err)
	}
	for _, wrong := range []string{"", "/etc/policies", "=/etc/policies", "team-chat=", "Team=/x", "team-chat,=/x", "team_chat=/x", "**=/x",
		"../x=/x"} {
		if p, err := store.ParsePath(wrong); err == nil {
			t.Errorf("%q is accepted as %+v", wrong, p)
		}
	}
	for _, c := range []struct {
		names string
		fails bool
	}{{"a b a-b", false}, {"a a", true}, {"a a/b", true}, {"a/b/c a", true}, {"./a a/", true}} {
		if err := store.CheckPaths(store.Trusted(strings.Fields(c.names)...)); (err != nil) != c.fails {
			t.Errorf("%s: %v", c.names, err)
		}
	}
}
