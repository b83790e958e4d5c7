package main

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

var commandLine = regexp.MustCompile(`(?m)(?:^|[|&(` + "`" + `] ?)gpuscaler ([a-z]+)(?:[ ` + "`" + `\n])`)

// A runbook must not name a command that was renamed or removed.
func TestPagesNameExistingCommands(t *testing.T) {
	pages, err := filepath.Glob("../../config/runbooks/*.md")
	if err != nil || len(pages) < 10 {
		t.Fatalf("%d runbooks (%v)", len(pages), err)
	}
	pages = append(pages, "../../README.md", "../../charts/gpuscaler/templates/NOTES.txt")
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
