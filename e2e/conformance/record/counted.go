package record

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/gpuscaler/gpuscaler/e2e/components"
)

// Names of the adapters whose results are in the repository.
const (
	Gpuscaler = "gpuscaler"
	KEDA      = "keda"
)

// required is the number of runs of each fault that the record must have, by adapter. For an adapter without an entry, the number is 1.
var required = map[string]int{Gpuscaler: 5, KEDA: 2}

// Required returns the number of runs of each fault that the record must have for a target.
func Required(target string) int { return max(1, required[target]) }

// InRepository is true for a target whose results are in the repository.
func InRepository(target string) bool { return required[target] > 0 }

// Results contains the runs of one or more CSV files. A run has a target (the adapter under test), a fault and the version of the target.
type Results struct {
	All []Result
	// versions is the only version of a target whose runs count, by target. gpuscaler has no entry: its version changes with every commit, so
	// that there would never be enough runs of one version.
	versions map[string]string
}

// Read reads the CSV files with the given paths. For KEDA, only the runs of the version that this repository builds count.
func Read(records ...string) (Results, error) {
	keda, err := components.Version(KEDA)
	if err != nil {
		return Results{}, err
	}
	s := Results{versions: map[string]string{KEDA: keda}}
	for _, path := range records {
		found, err := readRecord(path)
		if err != nil {
			return s, err
		}
		s.All = append(s.All, found...)
	}
	return s, nil
}

// Of returns the runs of a fault that count, in the order of time. A run with an older definition of the fault does not count. A failed run
// and the runs before it do not count if enough runs of other versions have passed after it.
func (s Results) Of(target string, f Fault) []Result {
	runs := s.present(target, f)
	for i, r := range slices.Backward(runs) {
		if r.Failure() == "" {
			continue
		}
		if later := others(runs[i+1:], r.Version); passed(later) >= Required(target) {
			return later
		}
	}
	return runs
}

// Done returns how many of the required runs of a fault exist for the current version of a target. If another version failed a run, that
// run and all runs before it must be repeated. For a fault that does not apply to the target, Done returns the highest integer, because one
// run is enough.
func (s Results) Done(target, version string, f Fault) int {
	runs := s.present(target, f)
	if n := len(runs); n > 0 && runs[n-1].Outcome == Inapplicable {
		return math.MaxInt
	}
	for i, r := range slices.Backward(runs) {
		if r.Failure() != "" && r.Version != version {
			return len(others(runs[i+1:], r.Version))
		}
	}
	return len(runs)
}

// present returns the runs of a fault with its current definition, in the order of time. It excludes runs of other versions of a target
// whose version is in s.versions.
func (s Results) present(target string, f Fault) (runs []Result) {
	for _, r := range s.All {
		want, fixed := s.versions[target]
		if r.Target == target && r.Fault == f.Name && r.Definition == f.Definition && (!fixed || r.Version == want) {
			runs = append(runs, r)
		}
	}
	slices.SortStableFunc(runs, func(a, b Result) int { return a.At.Compare(b.At) })
	return runs
}

// others returns the runs whose version is not the given version.
func others(runs []Result, version string) []Result {
	return slices.DeleteFunc(slices.Clone(runs), func(r Result) bool { return r.Version == version })
}

func passed(runs []Result) (n int) {
	for _, r := range runs {
		if r.Failure() == "" {
			n++
		}
	}
	return n
}

// Missing returns a line that lists the faults with fewer than the given number of runs. It returns an empty string if there are none.
func (s Results) Missing(t Versioned, faults []Fault, runs int) string {
	var lacking []string
	for _, f := range faults {
		if n := s.Done(t.Target, t.Version, f); n < runs {
			lacking = append(lacking, fmt.Sprintf("%s (%d of %d)", f.Name, n, runs))
		}
	}
	if len(lacking) == 0 {
		return ""
	}
	return fmt.Sprintf("missing runs of %s: %s\n", t.Target, strings.Join(lacking, ", "))
}

// Versioned is a target and its version.
type Versioned struct{ Target, Version string }

// Defects returns an error that names each counted run in which the target had a wrong decrease or did not recover.
func (s Results) Defects(target string, faults []Fault) error {
	var found []string
	for _, f := range faults {
		for _, r := range s.Of(target, f) {
			if what := r.Failure(); what != "" {
				found = append(found, fmt.Sprintf("%s at %s: %s", f.Name, r.At.UTC().Format(time.RFC3339), what))
			}
		}
	}
	if len(found) == 0 {
		return nil
	}
	return fmt.Errorf("%s failed in %d runs:\n%s", target, len(found), strings.Join(found, "\n"))
}
