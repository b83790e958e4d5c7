package pkg_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var arrow = regexp.MustCompile(`(?m)^  (\w+) --> (\w+)$`)

// TestDiagramShowsTheImports checks that the diagram in README.md has an arrow for each import between the packages of this directory, and
// no other arrows.
func TestDiagramShowsTheImports(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	var drawn, imported []string
	for _, found := range arrow.FindAllStringSubmatch(string(text), -1) {
		drawn = append(drawn, found[1]+" --> "+found[2])
	}
	for _, p := range packages(t) {
		from, _, _ := strings.Cut(strings.TrimPrefix(p.ImportPath, module), "/")
		for _, path := range p.Imports {
			ours, is := strings.CutPrefix(path, module)
			if to, _, _ := strings.Cut(ours, "/"); is && to != from {
				imported = append(imported, from+" --> "+to)
			}
		}
	}
	slices.Sort(imported)
	imported = slices.Compact(imported)
	slices.Sort(drawn)
	if !slices.Equal(drawn, imported) {
		for _, edge := range imported {
			if !slices.Contains(drawn, edge) {
				t.Errorf("README.md lacks %q", edge)
			}
		}
		for _, edge := range drawn {
			if !slices.Contains(imported, edge) {
				t.Errorf("README.md draws %q, which no package imports", edge)
			}
		}
	}
}
