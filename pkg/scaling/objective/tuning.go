package objective

// Tuning contains the constants of the decision. They are the same for every workload, and New uses DefaultTuning. If a constant is zero,
// the part of the decision that uses it is disabled.
//
// `make bench-decisions BENCH_DECISIONS_FLAGS=-vary` sets each constant to zero, to half and to twice its default, one at a time, and
// prints the results. The comments below contain such results, for an SLO of 99% and 45 cells from six families of traces. A cell is the
// replay of one trace with one duration of the cold start. A cell is included only if the oracle, which knows the future load, meets the
// SLO in it. With the defaults, the model meets the SLO in 42 cells, and the median of its cost is 0.98 of the cost of the reactive
// baseline, whose settings are searched in hindsight. "Half: 42 cells at 0.97" means: with half the constant, 42 cells meet the SLO, and
// the median of the cost is 0.97.
type Tuning struct {
	// Caution is the number of standard errors that are added to the late work of a rule. It prevents the choice of a rule that has met the
	// objective only by chance. To compute the standard error, blocks of half an hour are treated as independent. Half: 42 cells at 0.97.
	// Twice: 42 cells at 1.00. Zero: 40 cells.
	Caution float64
	// Event is the late work that is added for an event that has not occurred yet, as a multiple of the load during one cold start. The
	// least cautious rule of a ladder that meets the objective without this addition gets the full amount. Half: 42 cells at 0.98. Twice:
	// 41 cells at 0.97. Zero: of 116 cells with SLOs of 95, 99 and 99.9%, 3 fewer meet the SLO.
	Event float64
	// Inherit is the factor by which Event is reduced for each more cautious rule of the same ladder. Half: 42 cells at 0.98. Twice: 42 cells
	// at 0.99.
	Inherit float64
	// Smooth is a minimum for the late work of a rule: this share of the late work of the previous, less cautious rule of the same ladder.
	// Half: 42 cells at 0.98. Zero: 40 cells.
	Smooth float64
	// Stay is a factor that is applied to the cost of the current rule. A factor below 1 prevents frequent changes between rules that cost
	// almost the same.
	Stay float64
	// Feedback determines how strongly the allowed late work is reduced if the workload itself had more late work than the objective permits.
	// 1 means in proportion. Half: 42 cells at 0.98. Twice: 42 cells at 0.99.
	Feedback float64
	// Drain is the time within which waiting work is served once the replicas for it are ready, as a multiple of the cold start. Half: 42
	// cells at 0.99. Twice: 42 cells at 1.00, and the worst cost is 2.45 of the oracle's.
	Drain float64
	// Memory is the time constant, in seconds, with which the weight of observed late work and cost decreases. Half and twice: 42 cells at
	// 0.98.
	Memory float64
	// SafeMargin is the factor by which the safe policy multiplies the greatest need of the last four cold starts.
	SafeMargin float64
	// Repeat is how often the greatest past surge of the load is assumed to occur once more now, when a rule is chosen. In 65 other cells, of
	// the family bursty with SLOs of 95, 99 and 99.9%: 64 cells meet the SLO. Half: 64 cells. Twice: 65 cells, but the family flash costs 2%
	// more. Zero: 59 cells.
	Repeat float64
	// Without contains the kinds of rules that are disabled, to measure their effect.
	Without Rules
}

// Rules is a set of kinds of rules.
type Rules uint8

// Kinds of rules. For the figures, see the comment at Tuning.
const (
	// rules that assume that a rise of the load continues; without them, the worst cost of a cell is 3.15 instead of 1.55 times the cost of
	// the oracle
	TrendRules  Rules = 1 << iota
	SeasonRules       // rules that use the time of the day; without them, 42 cells meet the SLO, at a median cost of 0.99
	PeakRules         // rules that keep replicas for a part of a past peak; without them, only 30 cells meet the SLO
	// rules whose expected load is the mean of the last hour; without them, 43 cells meet the SLO, at a median cost of 0.99
	HourRules
)

// DefaultTuning returns the constants that New uses.
func DefaultTuning() Tuning {
	return Tuning{Caution: 1, Event: 0.5, Inherit: 0.3, Smooth: 0.2, Stay: 0.97, Feedback: 1, Drain: 0.25, Memory: 3 * 86400, SafeMargin: 1.2,
		Repeat: 1}
}
