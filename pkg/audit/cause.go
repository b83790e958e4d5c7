package audit

import (
	"encoding/json"
	"math"
)

// Cause is the use of a paid GPU in one step of the snapshot, for example served, or the reason why it was not used, for example
// cooldown.
type Cause uint8

// Values of Cause. The documentation of package audit describes them.
const (
	Served Cause = iota
	Start
	Headroom
	Floor
	Schedules
	Cooldown
	WrongMetric
	StuckNode
	NodeChange
	NotMeasured
	numCauses
)

var causeNames = [numCauses]string{"served", "start", "headroom", "floor", "schedule", "cooldown", "wrongMetric", "stuckNode", "nodeChange",
	"notMeasured"}

// causeWords contains the names of the causes in text and HTML reports. JSON uses causeNames.
var causeWords = [numCauses]string{"served", "start", "headroom", "floor", "schedule", "cooldown", "wrong metric", "stuck node",
	"node change", "not measured"}

// String returns the name of the cause in text and HTML reports.
func (c Cause) String() string { return causeWords[c] }

// Waste reports whether GPU time of the cause did not serve requests.
func (c Cause) Waste() bool { return c != Served && c != NotMeasured }

// MarshalJSON writes the name of the cause in JSON reports.
func (c Cause) MarshalJSON() ([]byte, error) { return json.Marshal(causeNames[c]) }

// Ledger contains the GPU hours of each cause. Their sum is the GPU time of the steps in which the number of GPUs is known.
type Ledger [numCauses]float64

// Sum returns the GPU hours of all causes.
func (l *Ledger) Sum() (sum float64) {
	for _, v := range l {
		sum += v
	}
	return sum
}

// Waste returns the GPU hours of the causes that did not serve requests.
func (l *Ledger) Waste() (sum float64) {
	for c, v := range l {
		if Cause(c).Waste() {
			sum += v
		}
	}
	return sum
}

func (l *Ledger) add(o *Ledger) {
	for c := range l {
		l[c] += o[c]
	}
}

// scaled returns the ledger with all values multiplied by a factor.
func (l Ledger) scaled(by float64) Ledger {
	for c := range l {
		l[c] *= by
	}
	return l
}

// MarshalJSON writes an object whose keys are the names of the causes, in the order of the constants.
func (l Ledger) MarshalJSON() ([]byte, error) {
	out := []byte{'{'}
	for c, v := range l {
		if c > 0 {
			out = append(out, ',')
		}
		number, err := json.Marshal(round(v))
		if err != nil {
			return nil, err
		}
		out = append(append(append(append(out, '"'), causeNames[c]...), '"', ':'), number...)
	}
	return append(out, '}'), nil
}

// round returns the value with six significant digits, so that results do not depend on the order in which floating-point numbers are
// added.
func round(v float64) float64 {
	if v == 0 || math.IsNaN(v) || math.IsInf(v, 0) {
		return 0
	}
	unit := math.Pow(10, 5-math.Floor(math.Log10(math.Abs(v))))
	return math.Round(v*unit) / unit
}
