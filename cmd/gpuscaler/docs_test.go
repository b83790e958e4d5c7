package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
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
	for _, c := range rootCommand().Commands() {
		known[c.Name()] = true
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range commandLine.FindAllStringSubmatch(string(text), -1) {
			if named++; !known[m[1]] {
				t.Errorf("%s: the command `gpuscaler %s` does not exist", page, m[1])
			}
		}
	}
	if named < 20 {
		t.Errorf("found only %d commands: the pattern of this test does not match the pages", named)
	}
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
	markdownLink = regexp.MustCompile(`\]\(([^)#]+)`)
	testName     = regexp.MustCompile("`(Test[A-Za-z0-9]+)`")
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
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), m[1])); err != nil {
				t.Errorf("%s: the link %s does not resolve", page, m[1])
			}
		}
		for _, m := range testName.FindAllStringSubmatch(string(text), -1) {
			if !strings.Contains(tests, "func "+m[1]+"(") {
				t.Errorf("%s: the test %s does not exist", page, m[1])
			}
		}
	}
}

// testSources returns the text of all test files below e2e and pkg.
func testSources(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, root := range []string{"../../e2e", "../../pkg"} {
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
