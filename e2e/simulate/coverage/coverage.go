// Package coverage counts how often each kind of fault happened in each state of the controller, over many runs of the simulation.
package coverage

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/gpuscaler/gpuscaler/e2e/simulate/schedule"
)

// Enough is the number of times that each fault must happen in each state.
const Enough = 100

// Table contains the counts of all runs so far. It is stored in a file, so that later runs can extend it.
type Table struct {
	Next uint64 // the seed of the next run
	Runs int
	// Counts contains the number of faults by state and by kind of fault. Both are names, so that a table can still be read after new
	// states and kinds were added.
	Counts map[string]map[string]int
}

// Load reads a table from a file. If the file does not exist, the result is an empty table that begins with the seed first.
func Load(file string, first uint64) (*Table, error) {
	t := &Table{Next: first, Counts: map[string]map[string]int{}}
	text, err := os.ReadFile(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return t, nil
	case err != nil:
		return nil, err
	}
	if err := json.Unmarshal(text, t); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return t, nil
}

// Save writes the table to a file. A concurrent reader never reads a partial table.
func (t *Table) Save(file string) error {
	text, err := json.MarshalIndent(t, "", " ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(file+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

// Count records that a fault happened in the given states.
func (t *Table) Count(states []string, kind schedule.Kind) {
	for _, state := range states {
		if t.Counts[state] == nil {
			t.Counts[state] = map[string]int{}
		}
		t.Counts[state][kind.String()]++
	}
}

// lacks returns how many more faults of a kind are required in a state.
func (t *Table) lacks(state string, kind schedule.Kind) int {
	if reason(state, kind) != "" {
		return 0
	}
	return max(0, Enough-t.Counts[state][kind.String()])
}

// Rare returns the kind of fault that needs the most additional occurrences in the given states to reach Enough. It considers only kinds
// for which possible returns true. ok is false if no additional occurrences are needed.
func (t *Table) Rare(states []string, possible func(schedule.Kind) bool) (rarest schedule.Kind, ok bool) {
	most := 0
	for kind := range schedule.NumKinds {
		n := 0
		for _, state := range states {
			n += t.lacks(state, kind)
		}
		if n > most && possible(kind) {
			most, rarest = n, kind
		}
	}
	return rarest, most > 0
}

// Lacking returns a state in which a kind of fault has occurred fewer than Enough times. Consecutive values of n select all of these
// states, one after the other. ok is false if there is no such state.
func (t *Table) Lacking(n uint64) (state string, ok bool) {
	var all []string
	for _, d := range Dimensions {
		for _, state := range d.States {
			if slices.ContainsFunc(kinds(), func(k schedule.Kind) bool { return t.lacks(state, k) > 0 }) {
				all = append(all, state)
			}
		}
	}
	if len(all) == 0 {
		return "", false
	}
	return all[n%uint64(len(all))], true
}

func kinds() (all []schedule.Kind) {
	for kind := range schedule.NumKinds {
		all = append(all, kind)
	}
	return all
}

// Print writes a table for each dimension, with the faults as rows and the states as columns. It also lists each pair of a fault and a
// state that occurred fewer than Enough times, and the pairs that cannot occur, with the reason.
func (t *Table) Print(out io.Writer) {
	pairs, covered := 0, 0
	var below []string
	why := map[string][]string{}
	for _, d := range Dimensions {
		t.printDimension(out, &d)
		for _, state := range d.States {
			var missing []string
			for kind := range schedule.NumKinds {
				if r := reason(state, kind); r != "" {
					continue
				}
				pairs++
				if t.lacks(state, kind) == 0 {
					covered++
				} else {
					missing = append(missing, fmt.Sprintf("%s (%d)", kind, t.Counts[state][kind.String()]))
				}
			}
			if missing != nil {
				below = append(below, fmt.Sprintf("%s, %s, %d faults: %s", d.Name, state, len(missing), few(missing)))
			}
			addReasons(why, &d, state)
		}
	}
	write := func(format string, args ...any) { _, _ = fmt.Fprintf(out, format, args...) }
	write("%d runs; %d of %d reachable pairs happened at least %d times\n", t.Runs, covered, pairs, Enough)
	if below != nil {
		write("\nBelow %d, because no run was in the state long enough; more runs raise them:\n  %s\n", Enough, strings.Join(below, "\n  "))
	}
	write("\nUnreachable:\n")
	for _, r := range slices.Sorted(maps.Keys(why)) {
		write("  %s: %s\n", strings.Join(why[r], "; "), r)
	}
}

// few returns the first elements of a list, at most eight, as text.
func few(all []string) string {
	const most = 8
	if len(all) > most {
		return strings.Join(all[:most], ", ") + ", ..."
	}
	return strings.Join(all, ", ")
}

// addReasons adds the faults that cannot occur in a state to the map why, whose keys are the reasons.
func addReasons(why map[string][]string, d *Dimension, state string) {
	if r, none := unreachable[state]; none {
		why[r] = append(why[r], fmt.Sprintf("%s %s with each fault", d.Name, state))
		return
	}
	for kind := range schedule.NumKinds {
		if r := reason(state, kind); r != "" {
			why[r] = append(why[r], fmt.Sprintf("%s %s with %s", d.Name, state, kind))
		}
	}
}

// nameWidth is the width, in characters, of the column with the names of the faults.
const nameWidth = 24

func (t *Table) printDimension(out io.Writer, d *Dimension) {
	_, _ = fmt.Fprintf(out, "%-*s", nameWidth, d.Name)
	for _, state := range d.States {
		_, _ = fmt.Fprintf(out, " %*s", width(state), state)
	}
	for kind := range schedule.NumKinds {
		_, _ = fmt.Fprintf(out, "\n%-*s", nameWidth, kind)
		for _, state := range d.States {
			cell := fmt.Sprint(t.Counts[state][kind.String()])
			if reason(state, kind) != "" {
				cell = "-"
			}
			_, _ = fmt.Fprintf(out, " %*s", width(state), cell)
		}
	}
	_, _ = fmt.Fprint(out, "\n\n")
}

func width(state string) int { return max(6, len(state)) }
