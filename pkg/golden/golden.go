// Package golden compares generated text with a file of the repository. Only tests import it.
//
// A golden file is either the expected output of a test (testdata/report.txt) or a document that is generated from the code
// (config/schema/reference.md). A test passes its text to Compare. `UPDATE_GOLDEN=1 go test ./pkg/x` writes the text to the file instead
// of comparing, and `make generate` does this for every package. The change of the file is then reviewed in `git diff`.
package golden

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Variable is the environment variable that makes Compare write the files if its value is 1.
const Variable = "UPDATE_GOLDEN"

// Update reports whether this run writes the golden files.
func Update() bool { return os.Getenv(Variable) == "1" }

// Compare reports an error with the first difference if the content of the file is not equal to got. The file is relative to the directory
// of the test. If Update is true, Compare writes got to the file and reports only a failed write.
func Compare(tb testing.TB, file, got string) {
	tb.Helper()
	if Update() {
		if err := write(file, got); err != nil {
			tb.Errorf("write golden file: %v", err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		tb.Errorf("read golden file: %v; %s=1 go test writes it", err, Variable)
		return
	}
	if text := difference(string(want), got); text != "" {
		tb.Errorf("%s is not equal to the result of this test (- file, + result). If the change is correct, run the test with %s=1.\n%s",
			file, Variable, text)
	}
}

// write changes the file only if its content differs. Otherwise the modification time of the file would change, and cached test results
// would become invalid.
func write(file, text string) error {
	if old, err := os.ReadFile(file); err == nil && string(old) == text {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, []byte(text), 0o644)
}

const (
	contextLines = 2  // equal lines that are printed before the difference
	shownLines   = 12 // maximum number of lines that are printed of each text
)

// difference returns the lines between the first and the last difference, or "" for equal texts. Each line has its number.
func difference(want, got string) string {
	if want == got {
		return ""
	}
	was, is := strings.Split(want, "\n"), strings.Split(got, "\n")
	first := 0
	for first < min(len(was), len(is)) && was[first] == is[first] {
		first++
	}
	last := 0 // equal lines at the end
	for last < min(len(was), len(is))-first && was[len(was)-1-last] == is[len(is)-1-last] {
		last++
	}
	removed, added := was[first:len(was)-last], is[first:len(is)-last]
	form := "%s %4d  %s\n"
	if strings.Join(strings.Fields(strings.Join(removed, "\n")), " ") == strings.Join(strings.Fields(strings.Join(added, "\n")), " ") {
		form = "%s %4d  %q\n" // only white space differs: make it visible
	}
	var b strings.Builder
	for i := max(0, first-contextLines); i < first; i++ {
		fmt.Fprintf(&b, "%s %4d  %s\n", " ", i+1, was[i])
	}
	for _, side := range []struct {
		sign  string
		lines []string
	}{{"-", removed}, {"+", added}} {
		for i, line := range side.lines[:min(shownLines, len(side.lines))] {
			fmt.Fprintf(&b, form, side.sign, first+i+1, line)
		}
		if more := len(side.lines) - shownLines; more > 0 {
			fmt.Fprintf(&b, "%s       and %d more lines\n", side.sign, more)
		}
	}
	return b.String()
}
