package record

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/e2e/conformance/judge"
)

var (
	firstFault  = Fault{Name: "first", Definition: "d1"}
	secondFault = Fault{Name: "second", Definition: "d2"}
	thirdFault  = Fault{Name: "third", Definition: "d3"}
)

// history writes a CSV file with runs of gpuscaler, one a minute, and reads it. In the string runs, "A+" is a run of version A that passed,
// "A-" is a run with a wrong decrease, and "A?" is a run after which version A did not recover.
func history(t *testing.T, f Fault, runs string) Results {
	t.Helper()
	path := filepath.Join(t.TempDir(), "record.csv")
	for i, word := range strings.Fields(runs) {
		r := Result{Target: Gpuscaler, Fault: f.Name, Definition: f.Definition, Version: word[:1],
			At: time.Date(2026, 11, 28, 9, i, 0, 0, time.UTC)}
		v := judge.Verdict{Recovered: word[1:] != "?", Recovery: 1, Reads: 10}
		if word[1:] == "-" {
			v.Decreases = []judge.Decrease{{Workload: "queue", Field: judge.Replicas, From: 6, To: 1}}
		}
		r.Judged(v)
		if err := Append(path, r); err != nil {
			t.Fatal(err)
		}
	}
	s, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// The runs of all versions of gpuscaler count together until one version fails a run.
func TestRunsThatCount(t *testing.T) {
	for _, c := range []struct {
		runs                string
		version             string
		done, count, failed int
	}{
		{"", "A", 0, 0, 0},
		{"A+ A+ B+", "C", 3, 3, 0},
		{"A+ A-", "A", 2, 2, 1},                   // the failure of the current version is part of the result
		{"A+ A- A+", "B", 0, 3, 1},                // another version, which may contain the fix, must repeat all runs
		{"A+ A- B+ B+", "B", 2, 4, 1},             // the failure counts until the other version has passed often enough
		{"A+ A? B+ C+ C+ C+ C+", "C", 5, 5, 0},    // five runs of other versions passed, so the failure of A does not count
		{"A- A+ A+ A+ A+ A+", "A", 6, 6, 1},       // further runs of the same version do not remove its failure
		{"A- B+ B+ B- B+ C+ C+", "C", 2, 6, 1},    // five other runs passed after the failure of A, so only the failure of B counts
		{"A- B+ B+ B- B+ C+", "C", 1, 6, 2},       // only four other runs passed after the failure of A, so both failures count
		{"A- B+ B+ B+ B+ B+ B-", "B", 6, 6, 1},    // five runs of B passed after the failure of A, so only the later failure of B counts
		{"A? B+ B+ B+ B+ B+ A+", "B", 5, 5, 0},    // a later run of the failed version A does not count for its fix in version B
		{"A+ A+ A+ A+ A+ A+ A+ A+", "B", 8, 8, 0}, // runs beyond the five required runs also count
	} {
		s := history(t, firstFault, c.runs)
		failed := 0
		for _, r := range s.Of(Gpuscaler, firstFault) {
			if r.Failure() != "" {
				failed++
			}
		}
		done, count := s.Done(Gpuscaler, c.version, firstFault), len(s.Of(Gpuscaler, firstFault))
		if done != c.done || count != c.count || failed != c.failed {
			t.Errorf("%q at version %s: %d done, %d count, %d of them failed; want %d, %d, %d", c.runs, c.version, done, count, failed,
				c.done, c.count, c.failed)
		}
		if err := s.Defects(Gpuscaler, []Fault{firstFault}); (err != nil) != (c.failed > 0) {
			t.Errorf("%q: defects: %v", c.runs, err)
		}
	}
}

// Runs with another definition of the fault, or with another version of KEDA, do not count.
func TestRunsOfOtherDefinitionsDoNotCount(t *testing.T) {
	s := history(t, firstFault, "A+ A+")
	changed := firstFault
	changed.Definition = "d9"
	if n := s.Done(Gpuscaler, "A", changed); n != 0 {
		t.Errorf("%d runs of another definition count", n)
	}
	for i := range s.All {
		s.All[i].Target, s.All[i].Version = KEDA, s.versions[KEDA]
	}
	s.All[0].Version = "v2.0.0"
	if n := s.Done(KEDA, s.versions[KEDA], firstFault); n != 1 {
		t.Errorf("%d runs of KEDA count, want the run of the present version", n)
	}
}

func TestTableOfRecords(t *testing.T) {
	path := filepath.Join(t.TempDir(), "record.csv")
	verdict := func(recovery float64, refused int) judge.Verdict {
		return judge.Verdict{Recovered: true, Recovery: recovery, Reads: 10, Refused: refused}
	}
	lostOne := judge.Verdict{Reads: 10, Decreases: []judge.Decrease{
		{Workload: "queue", Field: judge.Served, From: 57, To: 0}, {Workload: "queue", Field: judge.Replicas, From: 6, To: 1}}}
	add := func(r Result, f Fault, v *judge.Verdict) {
		r.Fault, r.Definition = f.Name, f.Definition
		if v != nil {
			r.Judged(*v)
		}
		if err := Append(path, r); err != nil {
			t.Fatal(err)
		}
	}
	one, two := verdict(1, 0), verdict(3.25, 4)
	add(Result{Target: "a", Load: 4, Version: "1"}, firstFault, &one)
	add(Result{Target: "a", Load: 8, Version: "1"}, firstFault, &two)
	add(Result{Target: "a", Outcome: Inapplicable, Note: "it has no disk, and no \"tape\""}, secondFault, nil)
	add(Result{Target: "b"}, firstFault, &lostOne)
	s, err := Read(path, filepath.Join(t.TempDir(), "absent.csv"))
	if err != nil {
		t.Fatal(err)
	}
	faults := []Fault{firstFault, secondFault, thirdFault}
	text := s.Table(faults) + s.Summary(faults)
	for _, part := range []string{
		"| first | 0 / 0 | 3.2 (3.2) s | 4 of 20 | 2 | **1 / 1** | **not in 1** | 0 of 10 | 1 | | | | 0 of 5 | | | | 0 of 2 |\n",
		"| second | not applicable: it has no disk, and no \"tape\" | | | | | | | 0 of 1 |",
		"| third | | | | 0 of 1 |",
		"- a: 2 runs, 1 of 2 faults have 1. Runs with a wrong decrease: 0, without recovery: 0. Load of the machine: median 8 (4 to 8).\n",
		"- b: 1 runs, 1 of 3 faults have 1. Runs with a wrong decrease: 1, without recovery: 1.\n",
		"- keda v",
	} {
		if !strings.Contains(text, part) {
			t.Errorf("no %q in\n%s", part, text)
		}
	}
	if got := s.Missing(Versioned{"a", "1"}, faults, 3); got != "missing runs of a: first (2 of 3), third (0 of 3)\n" {
		t.Errorf("missing: %q", got)
	}
	if n := s.Done("a", "1", secondFault); n != math.MaxInt {
		t.Errorf("a fault that is not applicable has %d runs", n)
	}
	if err := s.Defects("b", faults); err == nil || !strings.Contains(err.Error(), "served value of queue from 57 to 0") {
		t.Errorf("target b: %v", err)
	}
}

func TestDamagedRecords(t *testing.T) {
	path := filepath.Join(t.TempDir(), "record.csv")
	good := strings.Join(Result{Outcome: Recovered}.line(), ",")
	for text, want := range map[string]string{
		columns + "\n" + good + "\n" + good[:5]:                             "record.csv:3: ",
		columns + "\n" + strings.ReplaceAll(good, Recovered, "well") + "\n": `record.csv:2: outcome "well"`,
		columns + "\n" + strings.ReplaceAll(good, "0.0", "0s") + "\n":       "record.csv:2: ",
		"a" + columns + "\n" + good + "\n":                                  "record.csv:1: ",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
