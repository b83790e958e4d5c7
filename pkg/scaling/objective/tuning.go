package objective

// Tuning contains the constants of the decision. They are the same for every workload. New uses DefaultTuning. If a constant is 0, the part
// of the decision that uses it is disabled.
//
// `make bench-decisions BENCH_DECISIONS_FLAGS=-vary` sets each constant to zero, to half and to twice its default, one at a time, and
// prints the results. Each comment contains the results for an SLO of 99% and 45 cells. A cell is the simulation of one trace with one
// duration of the cold start. The traces are from six families, which are groups of similar traces. Only cells in which the oracle, a plan
// that is computed with the future load, meets the SLO are included. With the defaults, the model meets the SLO in 42 cells. The median of
// its cost is 0.98 of the cost of the reactive baseline with the best settings for the trace. "Half: 42 cells at 0.97" means: with half the
// constant, the model meets the SLO in 42 cells, and the median of the cost is 0.97.
type Tuning struct {
	// Caution is the number of standard errors that are added to the late work of a rule, so that no rule is chosen that met the objective
	// only by chance. For the standard error, the late work of two blocks of half an hour is treated as independent. Half: 42 cells at 0.97.
	// Twice: 42 cells at 1.00. Zero: 40 cells.
	Caution float64
	// Event is the late work that is added for an event that has not occurred so far, as a multiple of the load during one cold start. A
	// ladder is a sequence of rules of which each is more cautious than the rule before it. The least cautious rule that meets the objective
	// without this addition gets the full amount. Half: 42 cells at 0.98. Twice: 41 cells at 0.97. Zero: of 116 cells with SLOs of 95, 99 and
	// 99.9%, 3 fewer meet the SLO.
	Event float64
	// Inherit is the factor by which Event is reduced for each more cautious rule of the same ladder. Half: 42 cells at 0.98. Twice: 42 cells
	// at 0.99.
	Inherit float64
	// Smooth is the minimum for the late work of a rule, as a share of the late work of the less cautious rule before it in the same ladder.
	// Half: 42 cells at 0.98. Zero: 40 cells.
	Smooth float64
	// Stay is a factor for the cost of the current rule when the rules are compared. A factor below 1 prevents frequent changes between rules
	// that cost almost the same.
	Stay float64
	// Feedback determines how much the late budget for the rules is reduced if the workload itself had more late work than the objective
	// permits. 1 means a reduction in proportion. Half: 42 cells at 0.98. Twice: 42 cells at 0.99.
	Feedback float64
	// Drain is the time within which waiting work is served once the replicas for it are ready, as a multiple of the cold start. Half: 42
	// cells at 0.99. Twice: 42 cells at 1.00, and the greatest cost of a cell is 2.45 times the cost of the oracle.
	Drain float64
	// Memory is the time constant, in seconds, with which the weight of observed late work and cost decreases. Half and twice: 42 cells at
	// 0.98.
	Memory float64
	// SafeMargin is the factor by which the safe policy multiplies the greatest need of the last four cold starts.
	SafeMargin float64
	// Repeat is how many times the greatest past surge of the load is assumed to occur now, when a rule is chosen. In 65 other cells, of the
	// family bursty with SLOs of 95, 99 and 99.9%, the model meets the SLO in 64. Half: 64 cells. Twice: 65 cells, but the family flash costs
	// 2% more. Zero: 59 cells.
	Repeat float64
	// Spread is a factor for the index of dispersion of the arrivals, with which late work is approximated if the number of serving slots is
	// not known.
	Spread float64
	// Without contains the kinds of rules that are disabled, to measure their effect.
	Without Rules
}

// Rules is a set of kinds of rules.
type Rules uint8

// Kinds of rules. For the figures, see the comment at Tuning.
const (
	// rules that assume that a rise of the load continues; without them, the greatest cost of a cell is 3.15 instead of 1.55 times the cost of
	// the oracle
	TrendRules  Rules = 1 << iota
	SeasonRules       // rules that use the time of the day; without them, 42 cells meet the SLO, at a median cost of 0.99
	PeakRules         // rules that keep replicas for a part of a past peak; without them, only 30 cells meet the SLO
	// rules whose expected load is the mean of the last hour; without them, 43 cells meet the SLO, at a median cost of 0.99
	HourRules
)

// DefaultTuning returns the constants that New uses.
func DefaultTuning() Tuning {
	return Tuning{Caution: 1, Event: 0.25, Inherit: 0.3, Smooth: 0.2, Stay: 0.97, Feedback: 1, Drain: 0.25, Memory: 3 * 86400, SafeMargin: 1.2,
		Repeat: 1, Spread: 1}
}
