package objective

// Tuning contains the constants of the decision. They are the same for every workload; New uses DefaultTuning. A zero value turns off a
// part of the decision.
//
// `make bench-decisions BENCH_DECISIONS_FLAGS=-vary` prints the results without each part, and with half and twice each constant. The
// figures in the comments below are results for 45 cells (a cell is a trace with a cold start) of six families of traces at 99%, in which
// the oracle meets the SLO. With the defaults, the model meets the SLO in 42 cells. The median of its cost is 0.98 of the cost of the
// reactive baseline that is tuned in hindsight. "Half: 42 cells at 0.97" is the result with half the constant.
type Tuning struct {
	// Caution is the number of standard errors that are added to the late work of a rule. Blocks of half an hour count as independent. It
	// prevents the choice of a rule that met the objective by chance. Half: 42 cells at 0.97. Twice: 42 cells at 1.00. Zero: 40 cells.
	Caution float64
	// Event is the late work that is added for an event that was not observed yet, in units of the load of one cold start. It is added in
	// full to the least cautious rule of a ladder that meets the objective without it. Half: 42 cells at 0.98. Twice: 41 cells at 0.97. Zero:
	// 3 cells fewer of 116 with 95, 99 and 99.9%.
	Event float64
	// Inherit is the factor by which Event is reduced for each more cautious rule of the same ladder. Half: 42 cells at 0.98. Twice: 42 cells
	// at 0.99.
	Inherit float64
	// Smooth is the share of the late work of a rule that the next more cautious rule of the same ladder has at least. Half: 42 cells at
	// 0.98. Zero: 40 cells.
	Smooth float64
	// Stay is the factor on the cost of the present rule. A factor below 1 prevents frequent changes between rules that cost almost the same.
	Stay float64
	// Feedback is how strongly the allowed late work is reduced if the workload itself had more late work than the objective allows; 1: in
	// proportion. Half: 42 cells at 0.98. Twice: 42 cells at 0.99.
	Feedback float64
	// Drain is the time within which waiting work is served once the replicas for it are ready, as a multiple of the cold start. Half: 42
	// cells at 0.99. Twice: 42 cells at 1.00, and the worst cost is 2.45 of the oracle's.
	Drain float64
	// Memory is the time constant, in seconds, with which the weight of observed late work and cost decreases. Half and twice: 42 cells at
	// 0.98.
	Memory float64
	// SafeMargin is the factor on the greatest need of the last four cold starts in the safe policy.
	SafeMargin float64
	// Without turns off the rules of a kind, for the ablation.
	Without Rules
}

// Rules is a set of kinds of rules.
type Rules uint8

// Values of Rules. The figures are results as described at Tuning.
const (
	// rules that continue a rise of the load; without them, the worst cost is 3.15 of the oracle's instead of 1.55
	TrendRules  Rules = 1 << iota
	SeasonRules       // rules that use the time of the day; without them, 42 cells at 0.99
	PeakRules         // rules that keep replicas for a part of a past peak; without them, 30 cells
	HourRules         // rules whose expected load is the mean of the last hour; without them, 43 cells at 0.99
)

// DefaultTuning returns the constants that New uses.
func DefaultTuning() Tuning {
	return Tuning{Caution: 1, Event: 0.5, Inherit: 0.3, Smooth: 0.2, Stay: 0.97, Feedback: 1, Drain: 0.25, Memory: 3 * 86400, SafeMargin: 1.2}
}
