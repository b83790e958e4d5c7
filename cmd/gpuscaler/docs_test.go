package main

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

var commandLine = regexp.MustCompile(`(?m)(?:^|[|&(` + "`" + `] ?)gpuscaler ([a-z]+)(?:[ ` + "`" + `\n])`)

// Who follows a page at 3 a.m. must not find that the command is called otherwise by now.
func TestThePagesNameCommandsThatThereAre(t *testing.T) {
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
				t.Errorf("%s: there is no `gpuscaler %s`", page, m[1])
			}
		}
	}
	if named < 20 {
		t.Errorf("%d commands found: the pages are not read as they are written", named)
	}
}
