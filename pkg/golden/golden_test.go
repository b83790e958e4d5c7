package golden

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// recorder stores the errors that Compare reports.
type recorder struct {
	testing.TB
	errors []string
}

func (r *recorder) Helper() {}

func (r *recorder) Errorf(format string, args ...any) {
	r.errors = append(r.errors, fmt.Sprintf(format, args...))
}

func compare(t *testing.T, file, got string) []string {
	t.Helper()
	r := &recorder{TB: t}
	Compare(r, file, got)
	return r.errors
}

func TestCompareReportsTheFirstDifference(t *testing.T) {
	t.Setenv(Variable, "")
	file := filepath.Join(t.TempDir(), "replicas.txt")
	if err := os.WriteFile(file, []byte("head\nnine: 3\nten: 4\neleven: 5\nend\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if found := compare(t, file, "head\nnine: 3\nten: 4\neleven: 5\nend\n"); len(found) > 0 {
		t.Errorf("equal texts: %q", found)
	}
	found := compare(t, file, "head\nnine: 3\nten: 9\neleven: 5\nend\n")
	if len(found) != 1 {
		t.Fatalf("%d errors, want 1: %q", len(found), found)
	}
	if _, lines, _ := strings.Cut(found[0], "\n"); lines != "     1  head\n     2  nine: 3\n-    3  ten: 4\n+    3  ten: 9\n" {
		t.Errorf("difference:\n%s", lines)
	}
	if !strings.HasPrefix(found[0], file+" is not equal") || !strings.Contains(found[0], "UPDATE_GOLDEN=1") {
		t.Errorf("the error names neither the file nor the way to update it: %s", found[0])
	}
}

func TestCompareReportsAMissingFile(t *testing.T) {
	t.Setenv(Variable, "0")
	file := filepath.Join(t.TempDir(), "missing.txt")
	if found := compare(t, file, ""); len(found) != 1 || !strings.Contains(found[0], "missing.txt") {
		t.Errorf("errors: %q", found)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("UPDATE_GOLDEN=0 wrote the file")
	}
}

func TestUpdateWritesTheFile(t *testing.T) {
	t.Setenv(Variable, "1")
	file := filepath.Join(t.TempDir(), "new", "file.txt")
	if found := compare(t, file, "text\n"); len(found) > 0 {
		t.Fatalf("errors: %q", found)
	}
	t.Setenv(Variable, "")
	if found := compare(t, file, "text\n"); len(found) > 0 {
		t.Errorf("after the update: %q", found)
	}
}

func TestDifference(t *testing.T) {
	long := strings.Repeat("line\n", 20)
	for _, c := range []struct{ name, want, got, text string }{
		{"equal", "a\n", "a\n", ""},
		{"added line", "a\nc\n", "a\nb\nc\n", "     1  a\n+    2  b\n"},
		{"removed line", "a\nb\nc\n", "a\nc\n", "     1  a\n-    2  b\n"},
		{"empty file", "", "a", "-    1  \n+    1  a\n"},
		{"white space is visible", "a b\n", "a  b\n", "-    1  \"a b\"\n+    1  \"a  b\"\n"},
		{"no newline at the end", "a\n", "a", "     1  a\n-    2  \"\"\n"},
		{"long", "", long, numbered(12) + "+       and 8 more lines\n"},
	} {
		if text := difference(c.want, c.got); text != c.text {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, text, c.text)
		}
	}
}

func numbered(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "+ %4d  line\n", i+1)
	}
	return b.String()
}
