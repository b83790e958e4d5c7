//go:build defences

package pkg_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/golden"
)

// TestEachRowFailsWithoutItsDefence applies the removals one after the other. For each removal, it runs the sections of hostileCases that
// contain the rows of the removal, and each of these rows must fail. Other rows that fail are only logged, because rows can share state.
// The files of the repository are not changed: edited copies are passed to the compiler with -overlay, and to the function shipped. The
// environment variable DEFENCES is a regular expression that selects removals by their text.
func TestEachRowFailsWithoutItsDefence(t *testing.T) {
	chosen := regexp.MustCompile(os.Getenv("DEFENCES"))
	var all removal
	for _, r := range removals {
		if chosen.MatchString(r.what) {
			all.rows = append(all.rows, r.rows...)
		}
	}
	all.what = "nothing"
	for row, fails := range runRows(t, all) {
		if fails {
			t.Fatalf("row %q fails with every defence in place", row)
		}
	}
	for _, r := range removals {
		if !chosen.MatchString(r.what) {
			continue
		}
		began := time.Now()
		result := runRows(t, r)
		fmt.Printf("without %s (%.0fs):\n", r.what, time.Since(began).Seconds())
		for _, row := range r.rows {
			fails, ran := result[row]
			if fails {
				fmt.Printf("    fails: %s\n", row)
			} else if result != nil {
				t.Errorf("row %q does not fail without %s (ran: %t)", row, r.what, ran)
			}
		}
		for _, row := range slices.Sorted(maps.Keys(result)) {
			if result[row] && !slices.Contains(r.rows, row) {
				fmt.Printf("    fails too: %s\n", row)
			}
		}
	}
}

// uneditedBinary is the path of the test binary of this package without an edit of Go code. It is "" until the first test that needs the
// binary builds it.
var uneditedBinary string

// runRows builds the tests of this package without one defence, and runs rows of the table in hostileCases. The result is true for each row
// that failed and false for each row that passed. A row that ends the process counts as failed, and runRows repeats the other rows without
// it. The result is nil if the edited code does not compile.
func runRows(t *testing.T, r removal) map[string]bool {
	t.Helper()
	dir := t.TempDir()
	binary, edited := filepath.Join(dir, "pkg.test"), overlay(t, dir, r)
	compiled := slices.ContainsFunc(r.edits, func(e edit) bool { return strings.HasSuffix(e.file, ".go") })
	if !compiled && uneditedBinary != "" {
		binary = uneditedBinary
	} else if out, err := exec.Command("go", "test", "-c", "-ldflags=-s -w", "-overlay", edited, "-o", binary,
		".").CombinedOutput(); err != nil {
		t.Errorf("without %s the code does not compile: %v\n%s", r.what, err, out)
		return nil
	}
	if !compiled {
		uneditedBinary = binary
	}
	rows, log, skip := map[string]bool{}, filepath.Join(dir, "rows"), ""
	for range 20 {
		// The memory is limited with ulimit. Without the defence, a reply may make the process allocate as much memory as the reply
		// announces, which would exhaust the machine.
		c := exec.Command("sh", "-c", `ulimit -v 8000000; exec "$0" "$@"`, binary, "-test.timeout", "5m", "-test.run",
			"^TestHostileCases$/"+entrancesOf(r.rows))
		c.Env = append(os.Environ(), "HOSTILE_ROWS="+log, "HOSTILE_SKIP="+skip, "HOSTILE_OVERLAY="+edited, golden.Variable+"=")
		out, err := c.CombinedOutput()
		text, _ := os.ReadFile(log)
		last := ""
		for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
			what, row, _ := strings.Cut(line, "\t")
			switch what {
			case "begins":
				last = row
			case "fails", "passes":
				rows[row], last = what == "fails", ""
			}
		}
		if last == "" { // every row that began has ended
			if err != nil && !slices.Contains(slices.Collect(maps.Values(rows)), true) {
				t.Fatalf("without %s: %v\n%.4000s", r.what, err, out)
			}
			return rows
		}
		rows[last] = true
		skip += last + "\n"
		_ = os.Remove(log)
	}
	t.Fatalf("without %s the process ended 20 times", r.what)
	return nil
}

// entrancesOf returns a pattern for -test.run that matches the sections of hostileCases that contain the rows.
func entrancesOf(rows []string) string {
	var all []string
	for _, row := range rows {
		entrance, _, _ := strings.Cut(row, ": ")
		if name := regexp.QuoteMeta(strings.ReplaceAll(entrance, " ", "_")); !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return "^(" + strings.Join(all, "|") + ")$"
}

// overlay writes the edited files of a removal to dir, and returns the path of the JSON file for the -overlay flag of `go build`.
func overlay(t *testing.T, dir string, r removal) string {
	t.Helper()
	replaced := map[string]string{}
	for i, e := range r.edits {
		path, err := filepath.Abs(filepath.Join("..", e.file))
		if err != nil {
			t.Fatal(err)
		}
		from := path
		if before, ok := replaced[path]; ok {
			from = before
		}
		text, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(text), e.old); n != 1 {
			t.Fatalf("without %s: %q occurs %d times in %s, want once", r.what, e.old, n, e.file)
		}
		to := filepath.Join(dir, fmt.Sprintf("%d.go", i))
		if err := os.WriteFile(to, []byte(strings.Replace(string(text), e.old, e.new, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		replaced[path] = to
	}
	list, err := json.Marshal(map[string]any{"Replace": replaced})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(file, list, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
