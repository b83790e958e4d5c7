package store_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/store"
)

// Two files contain the same policy. A load must report this in one line, with the file and line of the policy in force and the file and
// line of the refused policy. This must also be true if the first file has a mistake.
func TestSamePolicyInTwoFilesIsReportedOnce(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a.yaml"), filepath.Join(dir, "b.yaml")
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := store.New(store.Options{})
	check := func(at, force, want string) {
		t.Helper()
		r := s.Load(a, b)
		expect(t, s, at, force)
		var lines []string
		for _, p := range slices.Concat(r.Problems, r.Notices, r.Outcomes) {
			if p.File == b || strings.Contains(p.Message, b) {
				lines = append(lines, strings.ReplaceAll(p.String(), dir+"/", ""))
			}
		}
		if got := strings.Join(lines, "\n"); got != want {
			t.Errorf("%s:\n%s\nwant:\n%s", at, got, want)
		}
	}
	const end = `; found "a"; allowed: one document for a name [ScalingPolicy team-chat/a]`
	mistake := strings.Replace(simple("a", 9), "maxReplicas: 9", "maxReplicas: nine", 1)
	if policy.Errors(store.New(store.Options{}).Load(a).Problems) == 0 {
		t.Fatal("a missing file has no problem")
	}

	write(a, mistake)
	write(b, simple("a", 2))
	check("the first has a mistake", "",
		"b.yaml:3:18: metadata.name: refused: a.yaml:1 has the same name and is read first, and it is refused too; no version is in force"+end)

	write(a, simple("a", 1))
	check("both are valid", "a 1", "b.yaml:3:18: metadata.name: refused: a.yaml:1 has the same name and is in force"+end)

	write(a, mistake)
	check("a mistake is added to the first", "a 1",
		"b.yaml:3:18: metadata.name: refused: a.yaml:1 has the same name, and its last valid version is in force"+end)
}

// Two files contain policies for the same scale target. The problem of the refused policy must contain the file and line of the other
// policy.
func TestPolicyForTheTargetOfAnotherPolicyIsRefusedWithItsPlace(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a.yaml"), filepath.Join(dir, "b.yaml")
	second := strings.Replace(simple("a", 2), "metadata: {name: a", "metadata: {name: b", 1)
	for path, text := range map[string]string{a: simple("a", 1), b: "# a comment\n" + second} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := store.New(store.Options{})
	r := s.Load(b, a)
	expect(t, s, "two policies for one target", "a 1")
	if len(r.Problems) != 1 || !strings.Contains(r.Problems[0].Message, "decided by policy a already ("+a+":1)") {
		t.Errorf("%s", policy.Render(r.Problems))
	}
}
