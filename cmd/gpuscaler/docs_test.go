package main

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/installation"
)

var commandLine = regexp.MustCompile(`(?m)(?:^|[|&(` + "`" + `] ?)gpuscaler ([a-z]+)(?:[ ` + "`" + `\n])`)

// A runbook must not name a command that was renamed or removed.
func TestPagesNameExistingCommands(t *testing.T) {
	pages, err := filepath.Glob("../../config/runbooks/*.md")
	if err != nil || len(pages) < 10 {
		t.Fatalf("%d runbooks (%v)", len(pages), err)
	}
	pages = append(pages, guides(t)...)
	pages = append(pages, "../../charts/gpuscaler/templates/NOTES.txt")
	known, named := map[string]bool{}, 0
	root := rootCommand()
	root.InitDefaultCompletionCmd() // without this call, cobra adds the completion command only when a command is executed
	for _, c := range root.Commands() {
		known[c.Name()] = true
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		commands := string(text)
		if strings.HasSuffix(page, ".md") {
			commands = code(commands)
		}
		for _, m := range commandLine.FindAllStringSubmatch(commands, -1) {
			if named++; !known[m[1]] {
				t.Errorf("%s: the command `gpuscaler %s` does not exist", page, m[1])
			}
		}
	}
	if named < 20 {
		t.Errorf("found only %d commands: the pattern of this test does not match the pages", named)
	}
}

var (
	codeBlock = regexp.MustCompile("(?ms)^```.*?^```")
	inline    = regexp.MustCompile("`[^`\n]+`")
)

// code returns the code blocks and the inline code of a page.
func code(page string) string {
	blocks := codeBlock.FindAllString(page, -1)
	return strings.Join(append(blocks, inline.FindAllString(codeBlock.ReplaceAllString(page, ""), -1)...), "\n")
}

// guides returns the README and the guides that it links to.
func guides(t *testing.T) []string {
	t.Helper()
	pages, err := filepath.Glob("../../config/guides/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("%d guides (%v)", len(pages), err)
	}
	return append(pages, "../../README.md")
}

var (
	markdownLink = regexp.MustCompile(`\]\(([^)#]*)(#[^)]*)?\)`)
	heading      = regexp.MustCompile(`(?m)^#+ (.*)$`)
	notInAnchors = regexp.MustCompile(`[^a-z0-9 _-]`)
	testName     = regexp.MustCompile("`(Test[A-Za-z0-9]+)`")
	// testInPackage matches the path of a package, followed by the name of one of its tests.
	testInPackage = regexp.MustCompile("`((?:pkg|e2e)/[a-z/]+)` `(Test[A-Za-z0-9]+)`")
)

func TestLinksAndTestNamesInGuidesResolve(t *testing.T) {
	tests := testSources(t)
	for _, page := range guides(t) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range markdownLink.FindAllStringSubmatch(string(text), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			target := page
			if m[1] != "" {
				target = filepath.Join(filepath.Dir(page), m[1])
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: the link %s does not resolve", page, m[1])
			} else if m[2] != "" && !anchors(t, target)[m[2]] {
				t.Errorf("%s: %s has no heading %s", page, m[1], m[2])
			}
		}
		for _, m := range testName.FindAllStringSubmatch(string(text), -1) {
			if !strings.Contains(tests, "func "+m[1]+"(") {
				t.Errorf("%s: the test %s does not exist", page, m[1])
			}
		}
		for _, m := range testInPackage.FindAllStringSubmatch(string(text), -1) {
			if !hasTest(t, m[1], m[2]) {
				t.Errorf("%s: the package %s has no test %s", page, m[1], m[2])
			}
		}
	}
}

// anchors returns the anchors of the headings of a page, as GitHub generates them.
func anchors(t *testing.T, page string) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(string(text), -1) {
		all["#"+strings.ReplaceAll(notInAnchors.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-")] = true
	}
	return all
}

// Every guide must exist and be linked from README.md. The only exception is datadog.md, to which migrate.md links.
func TestEveryGuideIsLinkedFromTheReadmeAndExists(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range guides(t) {
		name := filepath.Base(page)
		if name != "README.md" && name != "datadog.md" && !strings.Contains(string(text), "(config/guides/"+name) {
			t.Errorf("README.md does not link to config/guides/%s", name)
		}
	}
}

// hasTest reports whether the package in the directory dir has a test with the given name.
func hasTest(t *testing.T, dir, test string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("../..", dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if text, err := os.ReadFile(file); err != nil {
			t.Fatal(err)
		} else if strings.Contains(string(text), "func "+test+"(") {
			return true
		}
	}
	return false
}

// testSources returns the text of all test files below cmd, e2e and pkg.
func testSources(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, root := range []string{"../../cmd", "../../e2e", "../../pkg"} {
		err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			all.Write(text)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all.String()
}

// Another test runs the code blocks with commands of each guide, but not the workflows. Therefore each gpuscaler command in a workflow must
// also be a line of a code block of the same guide.
func TestWorkflowsInGuidesRunTestedCommands(t *testing.T) {
	run := regexp.MustCompile(`(?m)^ *- run: (gpuscaler .*)$`)
	found := 0
	for _, page := range guides(t) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range run.FindAllStringSubmatch(string(text), -1) {
			if found++; !strings.Contains(string(text), "\n"+m[1]+"\n") {
				t.Errorf("%s: no block of commands has the line %s", page, m[1])
			}
		}
	}
	if found == 0 {
		t.Error("no workflow runs gpuscaler: the pattern of this test does not match the guides")
	}
}

// Each check of `gpuscaler check` refers to a guide, and some refer to a heading in it. The guide and the heading must exist.
func TestGuidesOfChecksExist(t *testing.T) {
	for _, check := range slices.Sorted(maps.Keys(installation.Guides)) {
		path, anchor, has := strings.Cut(installation.Guides[check], "#")
		page := filepath.Join("../..", path)
		if _, err := os.Stat(page); err != nil {
			t.Errorf("%s: %v", check, err)
		} else if has && !anchors(t, page)["#"+anchor] {
			t.Errorf("%s: %s has no heading #%s", check, path, anchor)
		}
	}
}
