package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const report = `github.com/gpuscaler/gpuscaler/e2e/karpenter.TestDay: 2 runs, 1 failures
github.com/gpuscaler/gpuscaler/e2e/line.TestFollow/rollout: 2 runs, 1 failures
`

func TestUnlistedReturnsRepeatedTestsThatAreNotKnown(t *testing.T) {
	if got, want := unlisted(report, nil), []string{"karpenter.TestDay", "line.TestFollow/rollout"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := unlisted(report, []string{"line.TestFollow"}), []string{"karpenter.TestDay"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestListNeedsAnIssueForEachTest(t *testing.T) {
	known, problems := parseList("# a comment\n\nkarpenter.TestDay #12 two tests use one NodePool\nline.TestFollow slow\n")
	if !slices.Equal(known, []string{"karpenter.TestDay"}) || len(problems) != 1 ||
		!strings.HasPrefix(problems[0], "line 4: line.TestFollow") {
		t.Errorf("known %q, problems %q", known, problems)
	}
}

func TestShippedListIsValid(t *testing.T) {
	text, err := os.ReadFile("../flaky.txt")
	if err != nil {
		t.Fatal(err)
	}
	if _, problems := parseList(string(text)); len(problems) > 0 {
		t.Errorf("%q", problems)
	}
}

// Without STRICT_RETRIES, the command must only print the repeated tests, because a developer's machine may be busy. With STRICT_RETRIES,
// which the CI workflow sets, it must fail.
func TestRetryFailsIfRetriesAreStrict(t *testing.T) {
	dir := t.TempDir()
	binary := filepath.Join(dir, "retries")
	if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	repeated, empty := write("report", report), write("empty", "")
	for name, c := range map[string]struct {
		report, list, strict string
		code                 int
	}{
		"a developer's machine":    {repeated, "", "", 0},
		"strict":                   {repeated, "", "true", 1},
		"strict, with known tests": {repeated, "karpenter.TestDay #12 race\nline.TestFollow #13 race\n", "true", 0},
		"strict, no test repeated": {empty, "", "true", 0},
		"strict, no report":        {filepath.Join(dir, "none"), "", "true", 0},
		"a test without an issue":  {repeated, "karpenter.TestDay race\n", "", 1},
	} {
		command := exec.Command(binary, c.report, write("list", c.list))
		command.Env = append(os.Environ(), "STRICT_RETRIES="+c.strict)
		out, _ := command.CombinedOutput()
		if code := command.ProcessState.ExitCode(); code != c.code {
			t.Errorf("%s: exit code %d, want %d\n%s", name, code, c.code, out)
		}
	}
}
