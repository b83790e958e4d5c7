package coverage

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuscaler/gpuscaler/e2e/simulate/schedule"
)

// TestATableIsExtendedByLaterRuns fills a table except for one pair of a fault and a state, stores the table, and reads it again. The table
// that was read must request only this pair.
func TestATableIsExtendedByLaterRuns(t *testing.T) {
	file := filepath.Join(t.TempDir(), "coverage.json")
	table, err := Load(file, 7)
	if err != nil {
		t.Fatal(err)
	}
	if state, lacks := table.Lacking(0); !lacks || state != NoLeader {
		t.Errorf("an empty table lacks faults in state %q, want %q", state, NoLeader)
	}
	for _, d := range Dimensions {
		for _, state := range d.States {
			for kind := range schedule.NumKinds {
				for range Enough {
					if state != Capped || kind != schedule.NodeTaken {
						table.Count([]string{state}, kind)
					}
				}
			}
		}
	}
	table.Next, table.Runs = 9, 2
	if err := table.Save(file); err != nil {
		t.Fatal(err)
	}
	if table, err = Load(file, 7); err != nil || table.Next != 9 {
		t.Fatalf("the next seed is %d, error %v, want 9", table.Next, err)
	}
	state, lacks := table.Lacking(5)
	kind, rare := table.Rare([]string{state}, func(schedule.Kind) bool { return true })
	if !lacks || !rare || state != Capped || kind != schedule.NodeTaken {
		t.Errorf("the table lacks %s in state %q, want %s in state %q", kind, state, schedule.NodeTaken, Capped)
	}
	var out strings.Builder
	table.Print(&out)
	for _, part := range []string{"2 runs; ", "workload, target capped, 1 faults: spot interruption (0)",
		"no group with group removed: both groups"} {
		if !strings.Contains(out.String(), part) {
			t.Errorf("the printed table lacks %q:\n%s", part, out.String())
		}
	}
}

// TestEachKindHasAName fails if a kind of fault has no name, because its row in the table would be missing.
func TestEachKindHasAName(t *testing.T) {
	for kind := range schedule.NumKinds {
		if kind.String() == "" {
			t.Errorf("kind %d has no name", kind)
		}
	}
}
