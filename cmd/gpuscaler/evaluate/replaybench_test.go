package evaluate

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/evaluate"
)

// The guide about replays has a table of recorded traces. Its column "gpuscaler", and the sentence about cold starts of five minutes, must
// show the results of `make bench-replay`. The other columns are the results of a slow search, so no test checks them. Computing the lower
// bound of a trace of 24 hours takes a minute of CPU time, so the two long traces run only in `make test-long`.
func TestGuideShowsTheResultsOnRecordedTraces(t *testing.T) {
	guide, err := os.ReadFile("../../../config/guides/replay.md")
	if err != nil {
		t.Fatal(err)
	}
	shipped, err := openShipped("../../../config/examples/scenarios/rate.yaml", "../../../config/examples/scenarios/rate-slow-start.yaml")
	if err != nil {
		t.Fatal(err)
	}
	const slowStarts = "the shipped policy meets the SLO on the two traces of 24 hours, at 1.57 and 1.56."
	if !strings.Contains(string(guide), slowStarts) {
		t.Errorf("config/guides/replay.md does not say %q", slowStarts)
	}
	for i, row := range []struct{ title, slowStart string }{
		{"Azure conversations, one hour", "missed"}, {"ServeGen deepseek-r1, 24 h", "1.57"}, {"ServeGen m-large, 24 h", "1.56"},
	} {
		t.Run(row.title, func(t *testing.T) {
			t.Parallel()
			data := filepath.Join("..", "..", "..", "..", "shared", "data")
			if _, err := os.Stat(filepath.Join(data, "requests", benchTraces[i].file)); err != nil {
				t.Skipf("skipped: the recorded traces are not beside the project: %v", err)
			}
			if i > 0 && os.Getenv("REPLAY_ALL") == "" {
				t.Skip("skipped: takes a minute of CPU time; set REPLAY_ALL=1")
			}
			c, err := benchTraces[i].open(data)
			if err != nil {
				t.Fatal(err)
			}
			c.Bound = true
			ratio := func(cold time.Duration) string { // cost over the lower bound; "missed" if the SLO is not met
				c.ColdStart, c.Policy = cold, shipped.suited(cold)
				r, err := evaluate.Workload(t.Context(), c, nil)
				switch {
				case err != nil:
					t.Fatal(err)
				case !r.Runs[0].MeetsSLO || r.Runs[0].CostOverRequest == nil:
					return "missed"
				}
				return fmt.Sprintf("%.2f", *r.Runs[0].CostOverRequest)
			}
			if row := "| " + row.title + " | " + ratio(time.Minute) + " |"; !strings.Contains(string(guide), row) {
				t.Errorf("config/guides/replay.md has no row %s", row)
			}
			if got := ratio(5 * time.Minute); got != row.slowStart {
				t.Errorf("with cold starts of five minutes: %s; config/guides/replay.md says %s", got, row.slowStart)
			}
		})
	}
}
