package tune_test

import (
	"fmt"
	"os"

	"github.com/gpuscaler/gpuscaler/pkg/replay/evaluate"
	"github.com/gpuscaler/gpuscaler/pkg/replay/tune"
)

// The example prints a result of Search: the settings met the SLO on the first two parts of the traffic but not on the third. The policy
// must therefore not be changed.
func ExampleResult_WriteText() {
	load := func(onTime float64) evaluate.Load { return evaluate.Load{OnTime: onTime, MeetsSLO: onTime >= 0.99} }
	r := &tune.Result{
		Policy: "team-chat/llama", Tried: 120, Checked: 3, Chosen: true, SLO: 0.99, Wait: 10,
		Changes: []tune.Knob{{Name: "load target", Before: "2", After: "6"}},
		Search: tune.Part{Traffic: "chat.csv, first 4h",
			Before: evaluate.Run{Cost: 40, Load: load(1)}, After: evaluate.Run{Cost: 25, Load: load(0.992)}},
		Choose: tune.Part{Traffic: "2h", Before: evaluate.Run{Cost: 41, Load: load(1)}, After: evaluate.Run{Cost: 26, Load: load(0.991)}},
		Report: tune.Part{Traffic: "2h", Before: evaluate.Run{Cost: 42, Load: load(1)}, After: evaluate.Run{Cost: 27, Load: load(0.97)}},
	}
	if err := r.WriteText(os.Stdout); err != nil {
		fmt.Println(err)
	}
	// Output:
	// team-chat/llama: the chosen settings miss the SLO on the report part, so they are not reliable; the policy is not changed
	// SLO: 99% of requests wait at most 10s; searched on chat.csv, first 4h, chosen on the next 2h, reported on the last 2h
	//
	// PART    POLICY  SLO         ON TIME  COST     P99   MAX WAIT
	// search  before  meets       100.00%  $40.000  0.0s  0.0s
	// search  after   meets       99.20%   $25.000  0.0s  0.0s
	// choice  before  meets       100.00%  $41.000  0.0s  0.0s
	// choice  after   meets       99.10%   $26.000  0.0s  0.0s
	// report  before  meets       100.00%  $42.000  0.0s  0.0s
	// report  after   misses SLO  97.00%   $27.000  0.0s  0.0s
}
