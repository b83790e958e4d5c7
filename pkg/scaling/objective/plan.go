package objective

import (
	"strconv"
	"time"
)

// Term is a part of a plan. The replicas of all terms add up to Plan.Replicas.
type Term uint8

// Values of Term, in the order in which they are added.
const (
	TermLevel   Term = iota // the expected load when a replica that is started now is ready
	TermMargin              // variation of the load around the expected load
	TermRecent              // load of the recent past that may return before a new replica could be ready
	TermBacklog             // work that will still wait when a replica that is started now is ready
	TermWarm                // the replicas that are always kept ready
	TermSafe                // added by the safe policy
	TermLimits              // added (Min) or removed (Max, negative) by the limits
	Terms                   // the number of terms
)

func (t Term) String() string {
	return [...]string{"expected load", "variation", "recent load", "backlog", "warm", "safe policy", "limits", "unknown"}[min(t, Terms)]
}

// SafeReason is the reason why the safe policy decides instead of the learned one.
type SafeReason uint8

// Values of SafeReason.
const (
	NotSafe         SafeReason = iota // the learned policy decides
	TooLittleData                     // too little load was observed
	CapacityUnknown                   // the capacity of a replica is not known
	EvidenceMissing                   // arrivals and queue are unknown in this tick
	FeedbackFails                     // no rule meets the objective, and the workload misses it by far
)

func (r SafeReason) String() string {
	return [...]string{"", "too little load was observed to remove a replica",
		"the capacity of a replica is not known (replicas are kept, and doubled while work waits)", "arrivals and queue are missing",
		"the SLO is missed with the greatest margin", "unknown"}[min(r, FeedbackFails+1)]
}

// Plan is the number of replicas that an objective needs, with its terms and the values from which they were computed.
type Plan struct {
	Replicas int32
	Added    [Terms]int32 // the replicas that each term adds; their sum is Replicas

	Load     float64 // work per second that is expected when a replica that is started now is ready
	Queued   float64 // work that waits now
	Capacity float64 // work per second that one replica serves, as the plan assumes; 0: not known
	// ColdStart is the lead time that the plan uses.
	ColdStart time.Duration
	// Quantile is the share of the work, 0..1, that the rule of this plan would have served on time in the observed past.
	Quantile float64
	// Price is the cost, in replica-seconds, that the plan pays to avoid one unit of late work, compared with cheaper rules.
	Price float64
	Rule  uint8 // index of the rule that the plan uses; RuleText returns it in words
	Safe  SafeReason
	// EarliestScaleDown is the first time at which the number of replicas can decrease if the load ends now; zero: at any time.
	EarliestScaleDown time.Time
}

// AppendText appends one sentence to dst: the cause first, then the number of replicas of each term.
func (p Plan) AppendText(dst []byte) []byte {
	if p.Safe != NotSafe {
		dst = append(append(append(dst, "safe policy, because "...), p.Safe.String()...), ": "...)
	}
	dst = append(strconv.AppendInt(dst, int64(p.Replicas), 10), " replicas"...)
	separator := " = "
	for t := range Terms {
		if n := p.Added[t]; n != 0 {
			dst = append(append(append(strconv.AppendInt(append(dst, separator...), int64(n), 10), " ("...), t.String()...), ')')
			separator = " + "
		}
	}
	if p.Capacity > 0 {
		dst = strconv.AppendFloat(append(dst, "; expected load "...), p.Load, 'g', 3, 64)
		dst = strconv.AppendFloat(append(dst, "/s, queued "...), p.Queued, 'g', 3, 64)
		dst = append(strconv.AppendFloat(append(dst, ", capacity per replica "...), p.Capacity, 'g', 3, 64), "/s"...)
	}
	return dst
}

// Text returns the sentence of AppendText as a string.
func (p Plan) Text() string { return string(p.AppendText(nil)) }

// RuleText returns the rule that the plan uses, in words.
func (p Plan) RuleText() string { return string(rules[p.Rule%numRules].appendText(nil)) }
