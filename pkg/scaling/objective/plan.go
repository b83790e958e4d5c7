package objective

import (
	"strconv"
	"time"
)

// Term is one part of the number of replicas in a plan. All terms add up to Plan.Replicas.
type Term uint8

// Values of Term, in the order in which they are added up.
const (
	TermLevel   Term = iota // for the load that is expected when a replica that starts now becomes ready
	TermMargin              // for variations of the load around the expected load
	TermRecent              // for a recent load that can return before a new replica would be ready
	TermBacklog             // for work that will still wait when a replica that starts now becomes ready
	TermWarm                // for replicas that are kept without load; no rule adds any
	TermSafe                // added by the safe policy, which is used while too little is known
	TermLimits              // added by Limits.Min, or removed by Limits.Max (a negative number)
	Terms                   // the number of terms
)

func (t Term) String() string {
	return [...]string{"expected load", "variation", "recent load", "backlog", "warm", "safe policy", "limits", "unknown"}[min(t, Terms)]
}

// SafeReason is the reason why the safe policy, and not the learned rule, determines the number of replicas.
type SafeReason uint8

// Possible values of SafeReason.
const (
	NotSafe         SafeReason = iota // the learned rule determines the plan
	TooLittleData                     // too little load was measured so far
	CapacityUnknown                   // the capacity of a replica is unknown
	EvidenceMissing                   // neither arrivals nor queue were measured in this tick
	FeedbackFails                     // no rule meets the objective in the simulation, and the workload clearly misses it
)

func (r SafeReason) String() string {
	return [...]string{"", "too little load was observed to remove a replica",
		"the capacity of a replica is not known (replicas are kept, and doubled while work waits)", "arrivals and queue are missing",
		"the SLO is missed with the greatest margin", "unknown"}[min(r, FeedbackFails+1)]
}

// Plan is the number of replicas that an objective needs in one tick, its terms, and the values from which they were computed.
type Plan struct {
	Replicas int32
	Added    [Terms]int32 // the replicas that each term adds; their sum is Replicas

	Load     float64 // load that is expected when a replica that starts now becomes ready, in work per second
	Queued   float64 // work that waits in this tick
	Capacity float64 // work per second that one replica is assumed to serve; 0: unknown
	// ColdStart is the cold start that the plan assumes: the time from the decision to a ready replica.
	ColdStart time.Duration
	// Quantile is the share of the observed work, 0..1, that would have been served within the limit if the rule of this plan had always been
	// used.
	Quantile float64
	// Price is the cost, in replica-seconds, that the plan accepts to avoid one unit of late work. It is the difference in cost, per unit of
	// late work, to the rules that are cheaper and have more late work.
	Price float64
	Rule  uint8 // index of the rule that the plan uses; RuleText describes it
	Safe  SafeReason
	// EarliestScaleDown is the earliest time at which the number of replicas can decrease if the load ends now. The zero time means that it
	// can decrease at any time.
	EarliestScaleDown time.Time
}

// AppendText appends one sentence to dst, without the total number of replicas, which precedes the sentence in all outputs. If the safe
// policy determined the plan (see SafeReason), the sentence contains the reason. Otherwise, or if the safe policy did not add all replicas,
// the sentence contains the replicas of each term.
func (p Plan) AppendText(dst []byte) []byte {
	separator := ""
	if p.Safe != NotSafe {
		dst = append(append(dst, "safe policy, because "...), p.Safe.String()...)
		separator = ": "
	}
	switch p.Replicas {
	case 0:
		dst = append(append(dst, separator...), "no replica is needed"...)
	case p.Added[TermSafe]:
	default:
		dst = p.appendTerms(append(dst, separator...))
	}
	if p.Capacity > 0 {
		dst = strconv.AppendFloat(append(dst, "; expected load "...), p.Load, 'g', 3, 64)
		dst = strconv.AppendFloat(append(dst, "/s, queued "...), p.Queued, 'g', 3, 64)
		dst = append(strconv.AppendFloat(append(dst, ", capacity per replica "...), p.Capacity, 'g', 3, 64), "/s"...)
	}
	return dst
}

// appendTerms appends a sum, such as "4 (expected load) + 2 (variation)".
func (p Plan) appendTerms(dst []byte) []byte {
	separator := ""
	for t := range Terms {
		n := p.Added[t]
		if n == 0 {
			continue
		}
		if n < 0 && separator != "" {
			separator, n = " - ", -n
		}
		dst = strconv.AppendInt(append(dst, separator...), int64(n), 10)
		dst = append(append(append(dst, " ("...), t.String()...), ')')
		separator = " + "
	}
	return dst
}

// Text returns the sentence of AppendText as a string.
func (p Plan) Text() string { return string(p.AppendText(nil)) }

// RuleText describes the rule that the plan uses.
func (p Plan) RuleText() string { return string(rules[p.Rule%numRules].appendText(nil)) }
