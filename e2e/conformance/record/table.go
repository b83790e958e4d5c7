package record

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

// Table returns the results as a markdown table, with one row for each fault and four columns for each target.
func (s Results) Table(faults []Fault) string {
	var b strings.Builder
	head, rule := "| fault |", "|---|"
	for _, t := range s.targets() {
		head += fmt.Sprintf(" %s: wrong decreases | recovery | refused | runs |", s.title(t))
		rule += "---|---|---|---|"
	}
	fmt.Fprintf(&b, "%s\n%s\n", head, rule)
	for _, f := range faults {
		row := "| " + f.Name + " |"
		for _, t := range s.targets() {
			row += cells(s.Of(t, f), Required(t))
		}
		fmt.Fprintln(&b, row)
	}
	return b.String()
}

// targets returns the names of the targets: gpuscaler and KEDA, and every other target that has results.
func (s Results) targets() []string {
	found := map[string]bool{}
	for name := range required {
		found[name] = true
	}
	for _, r := range s.All {
		found[r.Target] = true
	}
	return slices.Sorted(maps.Keys(found))
}

// title returns the name of a target. If only the runs of one version of the target count, title adds this version.
func (s Results) title(target string) string {
	return strings.TrimSpace(target + " " + s.versions[target])
}

// cells returns the four columns of one target in the row of one fault, as markdown.
func cells(runs []Result, required int) string {
	if n := len(runs); n > 0 && runs[n-1].Outcome == Inapplicable {
		return fmt.Sprintf(" not applicable: %s | | | |", runs[n-1].Note)
	}
	number := fmt.Sprintf("%d", len(runs))
	if len(runs) < required {
		number += fmt.Sprintf(" of %d", required)
	}
	if len(runs) == 0 {
		return fmt.Sprintf(" | | | %s |", number)
	}
	t := sum(runs)
	decreases := fmt.Sprintf("%d / %d", t.served, t.replicas)
	if t.served+t.replicas > 0 {
		decreases = "**" + decreases + "**"
	}
	recovery := ""
	if n := len(t.recoveries); n > 0 {
		recovery = fmt.Sprintf("%.1f (%.1f) s", t.recoveries[n/2], t.recoveries[n-1])
	}
	if t.lost > 0 {
		recovery = strings.TrimSpace(fmt.Sprintf("%s **not in %d**", recovery, t.lost))
	}
	return fmt.Sprintf(" %s | %s | %d of %d | %s |", decreases, recovery, t.refused, t.reads, number)
}

// totals are sums over runs.
type totals struct {
	served, replicas, refused, reads int
	decreased                        int       // runs with a wrong decrease
	lost                             int       // runs without recovery
	recoveries                       []float64 // recovery times in seconds of the runs with a recovery, sorted
	loads                            []float64 // load of the machine in the runs in which it is known, sorted
}

func sum(runs []Result) (t totals) {
	for _, r := range runs {
		t.served += r.Served
		t.replicas += r.Replicas
		t.refused += r.Refused
		t.reads += r.Reads
		if r.Served+r.Replicas > 0 {
			t.decreased++
		}
		if r.Outcome == Lost {
			t.lost++
		} else {
			t.recoveries = append(t.recoveries, r.Recovery)
		}
		if r.Load > 0 {
			t.loads = append(t.loads, r.Load)
		}
	}
	slices.Sort(t.recoveries)
	slices.Sort(t.loads)
	return t
}

// Summary returns the totals of each target as a markdown list.
func (s Results) Summary(faults []Fault) string {
	var b strings.Builder
	for _, target := range s.targets() {
		var counted []Result
		applicable, complete := 0, 0
		for _, f := range faults {
			runs := s.Of(target, f)
			if n := len(runs); n > 0 && runs[n-1].Outcome == Inapplicable {
				continue
			}
			applicable++
			if len(runs) >= Required(target) {
				complete++
			}
			counted = append(counted, runs...)
		}
		t := sum(counted)
		fmt.Fprintf(&b, "- %s: %d runs, %d of %d faults have %d. Runs with a wrong decrease: %d, without recovery: %d.", s.title(target),
			len(counted), complete, applicable, Required(target), t.decreased, t.lost)
		if n := len(t.loads); n > 0 {
			fmt.Fprintf(&b, " Load of the machine: median %.0f (%.0f to %.0f).", t.loads[n/2], t.loads[0], t.loads[n-1])
		}
		b.WriteString("\n")
	}
	return b.String()
}

// WithResults and UpdatePage write the results between these two lines of e2e/README.md.
const (
	beginning = "<!-- make conformance writes the results from here -->\n"
	ending    = "<!-- to here -->\n"
)

// WithResults returns a copy of the page's text in which s replaces the results.
func (s Results) WithResults(page string, faults []Fault) (string, error) {
	before, rest, found := strings.Cut(page, beginning)
	_, after, ended := strings.Cut(rest, ending)
	if !found || !ended {
		return "", fmt.Errorf("no lines %q and %q", beginning, ending)
	}
	return before + beginning + "\n" + s.Summary(faults) + "\n" + s.Table(faults) + "\n" + ending + after, nil
}

// UpdatePage replaces the results in the page with the given path by s.
func (s Results) UpdatePage(path string, faults []Fault) error {
	old, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	page, err := s.WithResults(string(old), faults)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if page == string(old) {
		return nil
	}
	return os.WriteFile(path, []byte(page), 0o644)
}
