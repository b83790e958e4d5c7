package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/gpuscaler/gpuscaler/e2e/components"
)

// required is the number of runs of each fault that the record must have, by target. For a target that is not listed it is 1.
var required = map[string]int{gpuscalerName: 5, kedaName: 2}

func requiredOf(target string) int { return max(1, required[target]) }

// results are the runs in one or more records. A run has a target, a fault and the version of the target.
type results struct {
	all []result
	// versions limits the runs that count, by target: only runs of this version of the target count. gpuscaler has no entry, because its
	// version changes with every commit, and the record could never grow.
	versions map[string]string
}

// readResults reads records. For KEDA, only the runs of the version in this repository count.
func readResults(records ...string) (results, error) {
	keda, err := components.Version(kedaName)
	if err != nil {
		return results{}, err
	}
	s := results{versions: map[string]string{kedaName: keda}}
	for _, path := range records {
		found, err := readRecord(path)
		if err != nil {
			return s, err
		}
		s.all = append(s.all, found...)
	}
	return s, nil
}

// of returns the runs of a fault that count, in the order of time. A run with an older definition of the fault does not count. After a
// failed run, the runs up to and including it stop counting when enough runs of other versions have passed.
func (s results) of(target string, f fault) []result {
	runs := s.present(target, f)
	for i, r := range slices.Backward(runs) {
		if r.failure() == "" {
			continue
		}
		if later := others(runs[i+1:], r.Version); passed(later) >= requiredOf(target) {
			return later
		}
	}
	return runs
}

// done returns how many of the required runs of a fault exist for a version of a target. If another version failed, its failed run and all
// runs before it must be repeated. A fault that does not apply to the target needs no second run.
func (s results) done(target, version string, f fault) int {
	runs := s.present(target, f)
	if n := len(runs); n > 0 && runs[n-1].Outcome == inapplicable {
		return math.MaxInt
	}
	for i, r := range slices.Backward(runs) {
		if r.failure() != "" && r.Version != version {
			return len(others(runs[i+1:], r.Version))
		}
	}
	return len(runs)
}

// present returns the runs of a fault with its current definition.
func (s results) present(target string, f fault) (runs []result) {
	for _, r := range s.all {
		want, fixed := s.versions[target]
		if r.Target == target && r.Fault == f.name && r.Definition == f.definition() && (!fixed || r.Version == want) {
			runs = append(runs, r)
		}
	}
	slices.SortStableFunc(runs, func(a, b result) int { return a.At.Compare(b.At) })
	return runs
}

// others returns the runs whose version is not the given one.
func others(runs []result, version string) []result {
	return slices.DeleteFunc(slices.Clone(runs), func(r result) bool { return r.Version == version })
}

func passed(runs []result) (n int) {
	for _, r := range runs {
		if r.failure() == "" {
			n++
		}
	}
	return n
}

// missing returns a line about the runs of a target that the results lack.
func (s results) missing(t versioned, faults []fault, runs int) string {
	var lacking []string
	for _, f := range faults {
		if n := s.done(t.target, t.version, f); n < runs {
			lacking = append(lacking, fmt.Sprintf("%s (%d of %d)", f.name, n, runs))
		}
	}
	if len(lacking) == 0 {
		return ""
	}
	return fmt.Sprintf("missing runs of %s: %s\n", t.target, strings.Join(lacking, ", "))
}

// versioned is a target and its version.
type versioned struct{ target, version string }

// defects returns an error that names each counted run in which the target had a wrong decrease or did not recover.
func (s results) defects(target string, faults []fault) error {
	var found []string
	for _, f := range faults {
		for _, r := range s.of(target, f) {
			if what := r.failure(); what != "" {
				found = append(found, fmt.Sprintf("%s at %s: %s", f.name, r.At.UTC().Format(time.RFC3339), what))
			}
		}
	}
	if len(found) == 0 {
		return nil
	}
	return fmt.Errorf("%s failed in %d runs:\n%s", target, len(found), strings.Join(found, "\n"))
}
