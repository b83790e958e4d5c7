package main

import (
	"os"
	"path/filepath"
	"testing"
)

// A changed comment or line break must not change the digest, because the results of the mutants stay valid. A change that a test can
// observe must change the digest.
func TestDigestIgnoresCommentsAndLayout(t *testing.T) {
	base := map[string]string{
		"p/a.go":                 "//go:build linux\n\n// Package a is small.\npackage a\n\nfunc add(x, y int) int { return x + y }\n",
		"p/a_test.go":            "package a\n\nfunc Example() {\n\tprintln(1)\n\t// Output:\n\t// 1\n}\n",
		"p/testdata/code.go":     "package data // a file that a test reads\n",
		"p/testdata/golden.text": "3\n",
	}
	want := digestOf(t, base)
	for name, c := range map[string]struct {
		file, text string
		same       bool
	}{
		"unchanged": {"p/a.go", base["p/a.go"], true},
		"another comment": {"p/a.go", "//go:build linux\n\n// Package a is\n// very small.\npackage a\n\n" +
			"// add adds.\nfunc add(x, y int) int {\n\t/* a sum */\n\treturn x + y // both\n}\n", true},
		"a wrapped line":    {"p/a.go", "//go:build linux\n\npackage a\n\nfunc add(\n\tx, y int,\n) int {\n\treturn x +\n\t\ty\n}\n", true},
		"another operator":  {"p/a.go", "//go:build linux\n\npackage a\n\nfunc add(x, y int) int { return x - y }\n", false},
		"another directive": {"p/a.go", "//go:build !linux\n\npackage a\n\nfunc add(x, y int) int { return x + y }\n", false},
		"a comment in a string": {"p/a.go", "//go:build linux\n\npackage a\n\nfunc add(x, y int) int { return x + y + len(\"// a\") }\n",
			false},
		"another output":       {"p/a_test.go", "package a\n\nfunc Example() {\n\tprintln(1)\n\t// Output:\n\t// 2\n}\n", false},
		"a comment of a test":  {"p/a_test.go", "package a\n\n// Example prints.\n" + base["p/a_test.go"][len("package a\n\n"):], true},
		"comments in testdata": {"p/testdata/code.go", "package data\n", false},
		"another golden file":  {"p/testdata/golden.text", "4\n", false},
		"another file":         {"p/b.go", "package a\n", false},
	} {
		files := map[string]string{}
		for file, text := range base {
			files[file] = text
		}
		files[c.file] = c.text
		if got := digestOf(t, files); (got == want) != c.same {
			t.Errorf("%s: digests %s and %s, want equal ones: %t", name, want, got, c.same)
		}
	}
}

// digestOf writes the files into a new directory and returns their digest.
func digestOf(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for file, text := range files {
		path := filepath.Join(root, filepath.FromSlash(file))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	sum, err := digest(root, "p")
	if err != nil {
		t.Fatal(err)
	}
	return sum
}
