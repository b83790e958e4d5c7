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
)

// removal takes a defence out of the code. A defence in several layers has several edits.
type removal struct {
	what  string   // the defence, as the table names it
	in    []string // the ways in whose rows are tried
	edits []edit
}

// edit replaces a text that occurs once in a file, named from the root of the repository.
type edit struct{ file, old, new string }

// TestEachRowFailsWithoutItsDefence removes each defence of removals in turn, in a copy that only the compiler sees, and runs the rows of
// its ways in. A removal that no row notices fails, and so does a row that no removal turns red, unless heldElsewhere says why.
// DEFENCES=REGEXP chooses removals by what they say; then the rows that are left are not judged.
func TestEachRowFailsWithoutItsDefence(t *testing.T) {
	chosen := regexp.MustCompile(os.Getenv("DEFENCES"))
	rows := runRows(t, removal{what: "nothing"})
	for row, red := range rows {
		if red {
			t.Fatalf("row %q fails with every defence in place", row)
		}
	}
	by := map[string][]string{} // row -> removals
	for _, r := range removals {
		if !chosen.MatchString(r.what) {
			continue
		}
		began := time.Now()
		var red []string
		for row, fails := range runRows(t, r) {
			if fails {
				red = append(red, row)
				by[row] = append(by[row], r.what)
			}
		}
		slices.Sort(red)
		fmt.Printf("without %s: %d rows fail (%.0fs)\n", r.what, len(red), time.Since(began).Seconds())
		for _, row := range red {
			fmt.Printf("    %s\n", row)
		}
		if len(red) == 0 {
			t.Errorf("no row fails without %s", r.what)
		}
	}
	if os.Getenv("DEFENCES") != "" {
		return
	}
	fmt.Print("\n| row | fails without |\n|---|---|\n")
	for _, row := range slices.Sorted(maps.Keys(rows)) {
		why, elsewhere := heldElsewhere[row]
		switch {
		case len(by[row]) == 0 && !elsewhere:
			t.Errorf("row %q fails without no defence: add its removal, or say in heldElsewhere who holds it", row)
		case len(by[row]) > 0 && elsewhere:
			t.Errorf("row %q fails without %s: take it out of heldElsewhere", row, strings.Join(by[row], " and "))
		}
		fmt.Printf("| %s | %s |\n", row, strings.Join(append(by[row], why), ", "))
	}
	for row := range heldElsewhere {
		if _, ok := rows[row]; !ok {
			t.Errorf("heldElsewhere names %q, which is no row", row)
		}
	}
}

// runRows builds the tests of this package without a defence and reports which rows ran and which failed. A row that ends the process
// failed; the others run again without it.
func runRows(t *testing.T, r removal) map[string]bool {
	t.Helper()
	dir := t.TempDir()
	binary := filepath.Join(dir, "pkg.test")
	if out, err := exec.Command("go", "test", "-c", "-ldflags=-s -w", "-overlay", overlay(t, dir, r), "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("without %s the code does not compile: %v\n%s", r.what, err, out)
	}
	rows, log, skip := map[string]bool{}, filepath.Join(dir, "rows"), ""
	for range 20 {
		// A reply that makes the process allocate as much as it says ends at this limit, and not at the machine's.
		c := exec.Command("sh", "-c", `ulimit -v 8000000; exec "$0" "$@"`, binary, "-test.timeout", "5m", "-test.run", "^TestWhatTheHostileGet$/"+waysIn(r.in))
		c.Env = append(os.Environ(), "HOSTILE_ROWS="+log, "HOSTILE_SKIP="+skip, "UPDATE_GOLDEN=")
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

func waysIn(names []string) string {
	var all []string
	for _, name := range names {
		all = append(all, regexp.QuoteMeta(strings.ReplaceAll(name, " ", "_")))
	}
	if len(all) == 0 {
		return ""
	}
	return "^(" + strings.Join(all, "|") + ")$"
}

// overlay writes the files without the defence and returns the list that the compiler reads.
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
