package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/gpuscaler/gpuscaler/e2e/components"
)

// required is the number of runs of each fault that the record is to have, by target; one for any other target.
var required = map[string]int{gpuscalerName: 5, kedaName: 2}

func requiredOf(target string) int { return max(1, required[target]) }

// results are the runs in one or more records.
type results struct {
	all []result
	// versions has the version of each target whose runs count only with this version. The runs of gpuscaler count with any version, because
	// a record of one commit could not grow.
	versions map[string]string
}

// readResults reads records. The runs of KEDA count with the version that this repository has.
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

// of returns the runs of a fault that count, in the order of time. Runs of another definition of the fault do not count. A failed run and
// all runs before it do not count after the required number of runs of other versions passed later.
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

// done returns how many of the required runs of a fault a version of a target has. A failed run of another version and all runs before it
// are repeated. A fault that is not applicable needs no second run.
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

// present returns the runs of the present definition of a fault.
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

// others returns the runs of other versions.
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

// missing returns a line for the runs of a target that the results lack.
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

// versioned is a version of a target.
type versioned struct{ target, version string }

// defects returns an error that names each run that counts and in which the target had a wrong decrease or did not recover.
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
