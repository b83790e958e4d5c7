package objective

// Tuning contains the constants of the decision. They are the same for every workload. New uses DefaultTuning. If a constant is 0, the part
// of the decision that uses it is disabled.
//
// `make bench-decisions BENCH_DECISIONS_FLAGS=-vary` sets each constant to zero, to half and to twice its default, one at a time, and
// prints the results. Each comment contains the results for an SLO of 99% and 46 cells. A cell is the simulation of one trace with one
// duration of the cold start. The traces are from six families, which are groups of similar traces. Only cells in which the oracle, a plan
// that is computed with the future load, meets the SLO are included. With the defaults, the model meets the SLO in 43 cells. The median of
// its cost is 1.06 of the cost of the oracle. "Half: 43 cells at 1.05" means: with half the constant, the model meets the SLO in 43 cells,
// and the median of the cost is 1.05. A result that is equal to the result of the defaults is "no change".
type Tuning struct {
	// Caution is the number of standard errors that are added to the late work of a rule, so that no rule is chosen that met the objective
	// only by chance. For the standard error, the late work of two blocks of half an hour is treated as independent. Half: 43 cells at 1.05;
	// of 255 cells with SLOs of 95, 99 and 99.9%, 6 fewer meet the SLO. Twice: no change, but the greatest cost of a cell is 3.28 instead of
	// 1.79. Zero: 42 cells at 1.03.
	Caution float64
	// Event is the late work that is added for an event that has not occurred so far, as a multiple of the load during one cold start. A
	// ladder is a sequence of rules of which each is more cautious than the rule before it. The least cautious rule that meets the objective
	// without this addition gets the full amount. Half, twice and zero: no change. Of 255 cells with SLOs of 95, 99 and 99.9%, 1 fewer meets
	// the SLO with twice the constant.
	Event float64
	// Inherit is the factor by which Event is reduced for each more cautious rule of the same ladder. Half and twice: no change. Zero: 43
	// cells at 1.05.
	Inherit float64
	// Smooth is the minimum for the late work of a rule, as a share of the late work of the less cautious rule before it in the same ladder.
	// Half: no change. Twice: no change, but the greatest cost of a cell is 2.22 instead of 1.79. Zero: 43 cells at 1.03.
	Smooth float64
	// Stay is a factor for the cost of the current rule when the rules are compared. A factor below 1 prevents frequent changes between rules
	// that cost almost the same. Half: 45 cells at 1.25.
	Stay float64
	// Feedback determines how much the late budget for the rules is reduced if the workload itself had more late work than the objective
	// permits. 1 means a reduction in proportion. Half, twice and zero: no change.
	Feedback float64
	// Drain is the time within which waiting work is served once the replicas for it are ready, as a multiple of the cold start. Half: no
	// change. Twice: no change, but the greatest cost of a cell is 2.94 instead of 1.79.
	Drain float64
	// Memory is the time constant, in seconds, with which the weight of observed late work and cost decreases. Half and twice: no change.
	Memory float64
	// SafeMargin is the factor by which the safe policy multiplies the greatest need of the last four cold starts. Half and twice: no change.
	SafeMargin float64
	// Repeat is how many times the greatest past surge of the load is assumed to occur now, when a rule is chosen. Half and zero: no change.
	// Twice: no change, but the greatest cost of a cell is 2.08 instead of 1.79.
	Repeat float64
	// Spread is a factor for the index of dispersion of the arrivals, with which late work is approximated if the number of serving slots is
	// not known. In 137 cells with SLOs of 95, 99 and 99.9%, the model meets the SLO in 132, at 1.05. Half: 129 cells at 1.04. Twice: 133
	// cells at 1.09. Zero: 127 cells at 1.03.
	Spread float64
	// Without contains the kinds of rules that are disabled, to measure their effect.
	Without Rules
}

// Rules is a set of kinds of rules.
type Rules uint8

// Kinds of rules. For the figures, see the comment at Tuning.
const (
	// rules that assume that a rise of the load continues; without them, the greatest cost of a cell is 3.01 instead of 1.79 times the cost of
	// the oracle
	TrendRules  Rules = 1 << iota
	SeasonRules       // rules that use the time of the day; without them, the results of these short traces do not change
	PeakRules         // rules that keep replicas for a part of a past peak; without them, only 32 cells meet the SLO
	// rules whose expected load is the mean of the last hour; without them, 44 cells meet the SLO, at the same median cost
	HourRules
)

// DefaultTuning returns the constants that New uses.
func DefaultTuning() Tuning {
	return Tuning{Caution: 1, Event: 0.25, Inherit: 0.3, Smooth: 0.2, Stay: 0.97, Feedback: 1, Drain: 0.25, Memory: 3 * 86400, SafeMargin: 1.2,
		Repeat: 1, Spread: 1}
}
