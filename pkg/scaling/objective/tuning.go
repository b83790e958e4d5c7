package objective

// Tuning are the constants of the decision. They are the same for every workload; New uses DefaultTuning. Zero turns a part off.
//
// `make bench-decisions BENCH_DECISIONS_FLAGS=-vary` prints the results without each part, and with half and twice each constant. The
// figures here are of 45 cells of six families at 99%, in which the oracle meets the SLO. With the defaults, the model meets it in 42 at
// 0.98 (median) of the cost of the reactive baseline that is tuned in hindsight.
type Tuning struct {
	// Caution is the number of standard errors that are added to the late work of a rule. Blocks of half an hour count as independent. It
	// protects against a rule that met the objective by luck. Half: 42 cells at 0.97. Twice: 42 cells at 1.00. Zero: 40 cells.
	Caution float64
	// Event is the late work, in cold starts of load, that is assumed of the least cautious rule of a ladder that was not too late: an
	// event that was not observed yet. Half: 42 cells at 0.98. Twice: 41 cells at 0.97. Zero: 3 cells fewer of 116 with 95, 99 and 99.9%.
	Event float64
	// Inherit is the factor on Event for each more cautious rule of the same ladder. Half: 42 cells at 0.98. Twice: 42 cells at 0.99.
	Inherit float64
	// Smooth is the share of the late work of a rule that is also assumed of the next more cautious rule of the same ladder.
	// Half: 42 cells at 0.98. Zero: 40 cells.
	Smooth float64
	// Stay is the factor on the cost of the present rule. It prevents changes between rules that cost almost the same.
	Stay float64
	// Feedback is how much the allowed late work is reduced if the workload had more late work than allowed: 1 in proportion.
	// Half: 42 cells at 0.98. Twice: 42 cells at 0.99.
	Feedback float64
	// Drain is the time, in cold starts, in which waiting work is served after the replicas for it are ready. Half: 42
	// cells at 0.99. Twice: 42 cells at 1.00, and the worst cost is 2.45 of the oracle's.
	Drain float64
	// Memory is the time, in seconds, after which observed late work and cost count 1/e. Half and twice: 42 cells at 0.98.
	Memory float64
	// SafeMargin is the factor on the greatest need of the last four cold starts in the safe policy.
	SafeMargin float64
	// Without turns off the rules of a kind, for the ablation.
	Without Rules
}

// Rules is a set of kinds of rules.
type Rules uint8

// Values of Rules.
const (
	TrendRules  Rules = 1 << iota // that continue a rise of the load; without them, the worst cost is 3.15 of the oracle's and not 1.55
	SeasonRules                   // that use the time of the day; without them 42 cells at 0.99
	PeakRules                     // that keep replicas for a part of a past peak; without them 30 cells
	HourRules                     // whose expected load is the mean of an hour; without them 43 cells at 0.99
)

// DefaultTuning returns the constants that New uses.
func DefaultTuning() Tuning {
	return Tuning{Caution: 1, Event: 0.5, Inherit: 0.3, Smooth: 0.2, Stay: 0.97, Feedback: 1, Drain: 0.25, Memory: 3 * 86400, SafeMargin: 1.2}
}
