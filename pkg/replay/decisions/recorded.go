package decisions

import (
	"math"
	"path/filepath"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/reproducible"
	"github.com/gpuscaler/gpuscaler/pkg/replay/tracefile"
)

// recordedTrace is a family of traffic that replays a shared trace. The part that is known in advance is the mean rate of the ten minutes
// around each slot (two minutes for a trace of one hour). The oracle therefore knows more than a policy can know.
type recordedTrace struct {
	name, file string
	options    tracefile.Options
	around     int // number of slots over which the mean is computed
	held       bool
}

var recordedTraces = []recordedTrace{
	{"azure", "AzureLLMInferenceTrace_conv.csv", tracefile.Options{}, 24, false},
	{"deepseek", "servegen_deepseek-r1_traces.tar.gz", tracefile.Options{Seed: 1}, 120, false},
	{"mlarge", "servegen_m-large_traces.tar.gz", tracefile.Options{Seed: 1, Scale: 0.02, To: 4 * 24 * time.Hour}, 120, true},
}

// recordedFamilies reads the shared traces from a directory. developed contains the traces with which the policy was developed, and held
// contains the other traces.
func recordedFamilies(dir string) (developed, held []family, err error) {
	for _, rec := range recordedTraces {
		tr, err := tracefile.Open(filepath.Join(dir, "requests", rec.file), rec.options)
		if err != nil {
			return nil, nil, err
		}
		bins := tr.Bins(SlotSeconds * time.Second)
		work := make([]float64, len(bins))
		for i, n := range bins {
			work[i] = float64(n)
		}
		f := family{rec.name, func(d *reproducible.Draws) law {
			base := smooth(work, rec.around)
			return law{base: base, cv: variation(work, base), fleet: spread(d, 2, 12), recorded: work}
		}}
		if rec.held {
			held = append(held, f)
		} else {
			developed = append(developed, f)
		}
	}
	return developed, held, nil
}

// smooth returns, for each slot, the mean work per second in the slots around it. The parameter around is the number of these slots.
func smooth(work []float64, around int) []float64 {
	out, sum, from, to := make([]float64, len(work)), 0.0, 0, 0
	for i := range work {
		for ; to < min(i+around/2, len(work)); to++ {
			sum += work[to]
		}
		for ; from < i-around/2; from++ {
			sum -= work[from]
		}
		out[i] = max(sum, 0) / float64(to-from) / SlotSeconds
	}
	return out
}

// variation returns the coefficient of variation of the time between two arrivals with which the work of a minute varies around its mean as
// much as in the recording. It is at least 1, as for independent requests.
func variation(work, base []float64) float64 {
	const minute = 60 / SlotSeconds
	squares, mean := 0.0, 0.0
	for from := 0; from+minute <= len(work); from += minute {
		sum, expected := 0.0, 0.0
		for t := from; t < from+minute; t++ {
			sum, expected = sum+work[t], expected+base[t]*SlotSeconds
		}
		squares, mean = squares+(sum-expected)*(sum-expected), mean+expected
	}
	return math.Sqrt(max(squares/max(mean, 1e-9), 1))
}
