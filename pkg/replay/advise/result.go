package advise

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/evaluate"
)

// Result has an answer for each SLO. Times are in seconds, shares are 0..1, money is in $.
type Result struct {
	Policy      string           `json:"policy,omitempty"` // namespace/name
	Traffic     evaluate.Traffic `json:"traffic"`
	MaxReplicas int32            `json:"maxReplicas"`        // maxReplicas of every candidate
	ColdStart   float64          `json:"coldStartSeconds"`   // 0: drawn from the assumptions of the simulator
	Hourly      float64          `json:"hourly"`             // price of a GPU per hour in $
	GPUs        int32            `json:"gpusPerReplica"`     //
	Budget      float64          `json:"budget,omitempty"`   // budget in $ per day
	Answers     []Answer         `json:"objectives"`         // one answer for each SLO of the input, in the order of preference
	Recommended *Candidate       `json:"recommended"`        // null: no SLO is attained within the budget
	SLO         int              `json:"recommendedFor"`     // index in Answers of the SLO that Recommended attains; -1: none
	Warnings    []string         `json:"warnings,omitempty"` //
	Document    string           `json:"document,omitempty"` // the recommended ScalingPolicy

	initial int32
	spot    bool
}

// Answer contains the lower bound of the cost and the replayed candidates for one SLO.
type Answer struct {
	SLO         evaluate.Objective `json:"slo"`
	Certificate Certificate        `json:"certificate"`
	// the cheapest candidate that attains the SLO, even above the budget; null: no candidate attains it
	Cheapest *Candidate `json:"cheapest"`
	// Fleet is the smallest fixed number of replicas that attains the SLO, if it costs less than Cheapest.
	Fleet      *Candidate  `json:"fixedFleet,omitempty"`
	Why        *Reason     `json:"reason,omitempty"` // why the SLO is not attained within the budget
	Candidates []Candidate `json:"candidates"`       // in the order of minReplicas and percentile
}

// Certificate is the lower bound of the cost at which any policy can attain an SLO.
type Certificate struct {
	CostPerDay  float64  `json:"costPerDay"`        // 0 if there is a Problem
	Problem     string   `json:"problem,omitempty"` // why CostPerDay is not known
	Relaxations []string `json:"relaxations,omitempty"`
}

// Candidate is a policy and the result of its replay.
type Candidate struct {
	MinReplicas int32   `json:"minReplicas"`
	Percentile  float64 `json:"percentile"`  // percentile of the candidate's objective
	Wait        float64 `json:"waitSeconds"` // wait of the candidate's objective
	Refused     string  `json:"refused,omitempty"`
	OnTime      float64 `json:"onTime"`          // share of the requests that waited at most Wait
	CostPerDay  float64 `json:"costPerDay"`      // $ per day: the cost of the replay, scaled to 24 hours
	Replicas    float64 `json:"meanReplicas"`    // mean number of replicas that are paid for
	Initial     int32   `json:"initialReplicas"` // replicas that are ready at the start
	P99         float64 `json:"waitP99Seconds"`
	Longest     float64 `json:"longestWaitSeconds"`
	Starts      int64   `json:"replicaStarts"`
	AtZero      float64 `json:"atZero"` // share of the time with a target of zero

	setting  Setting
	floor    float64
	warnings []string
}

// Setting returns the fields of the policy that the candidate changes.
func (c *Candidate) Setting() Setting { return c.setting }

// untested reports whether the effect of zero replicas is unknown, because the candidate permits zero replicas but never had zero in its
// replay.
func (c *Candidate) untested() bool { return c.MinReplicas == 0 && c.AtZero == 0 }

// Values of the field Kind of Reason.
const (
	ReasonRefused     = "refused"     // the controller would refuse the policy of every candidate
	ReasonMaxReplicas = "maxReplicas" // even maxReplicas warm replicas miss the SLO
	ReasonInitial     = "initial"     // even maxReplicas replicas miss the SLO, and the replay begins with fewer
	ReasonSpot        = "spot"        // even maxReplicas replicas miss the SLO, and they are on spot nodes
	ReasonBudget      = "budget"      // the SLO is attained for more than the budget
)

// Reason says why an SLO is not attained.
type Reason struct {
	Kind    string     `json:"kind"`
	Text    string     `json:"text"`              // why the SLO is not attained
	Next    string     `json:"next"`              // what the user can change
	Nearest *Candidate `json:"nearest,omitempty"` // candidate with the most requests on time; for ReasonBudget, only within the budget
}

// choose recommends the cheapest candidate for the first SLO that is attained within the budget. For each SLO that is not attained within
// the budget, it stores the reason.
func (r *Result) choose() {
	r.SLO = -1
	for i := range r.Answers {
		a := &r.Answers[i]
		switch {
		case a.Cheapest == nil:
			a.Why = r.unattained(a)
		case r.Budget > 0 && a.Cheapest.CostPerDay > r.Budget:
			a.Why = r.tooExpensive(a)
		case r.SLO < 0:
			r.SLO, r.Recommended = i, a.Cheapest
		}
	}
	r.Warnings = r.warn()
}

// unattained explains why no candidate attains an SLO.
func (r *Result) unattained(a *Answer) *Reason {
	nearest := a.nearest(math.Inf(1))
	if nearest == nil {
		last := a.Candidates[len(a.Candidates)-1]
		return &Reason{Kind: ReasonRefused, Text: "the controller would refuse every candidate: " + last.Refused,
			Next: "change the policy, --max-replicas, or the bounds of the PlatformConfig"}
	}
	out := &Reason{Kind: ReasonMaxReplicas, Nearest: nearest,
		Text: fmt.Sprintf("even with maxReplicas %d, at most %s of the requests are on time", r.MaxReplicas, share(nearest.OnTime)),
		Next: "increase --max-replicas, or use an SLO that allows longer waits"}
	if a.Certificate.Problem != "" {
		out.Text += "; no other policy with this maxReplicas attains the SLO either"
	}
	switch {
	case r.initial >= 0 && r.initial < r.MaxReplicas:
		out.Kind = ReasonInitial
		out.Text += fmt.Sprintf("; each replay begins with %s (--initial), and further ones need a cold start",
			counted(int64(r.initial), "replica"))
		out.Next = "omit --initial, or increase --max-replicas"
	case r.spot:
		out.Kind = ReasonSpot
		out.Text += "; replicas on spot nodes can end before their requests"
		out.Next = "compare without --spot, or increase --max-replicas"
	}
	return out
}

// tooExpensive explains why an SLO is not attained within the budget.
func (r *Result) tooExpensive(a *Answer) *Reason {
	out := &Reason{Kind: ReasonBudget, Nearest: a.nearest(r.Budget),
		Text: fmt.Sprintf("it costs %s a day with minReplicas %d, which is above the budget of %s", dollars(a.Cheapest.CostPerDay),
			a.Cheapest.MinReplicas, dollars(r.Budget))}
	if least := a.Certificate.CostPerDay; least > r.Budget {
		out.Text += fmt.Sprintf("; no policy can attain it below %s", dollars(least))
	}
	switch n := out.Nearest; {
	case n == nil:
		out.Text += "; no candidate is within the budget"
	case n.AtZero > 0 && r.ColdStart > n.Wait:
		out.Text += fmt.Sprintf("; within it, %s are on time with minReplicas %d for %s, because the cold start of %s is longer than the wait",
			share(n.OnTime), n.MinReplicas, dollars(n.CostPerDay), span(r.ColdStart))
	default:
		out.Text += fmt.Sprintf("; within it, %s are on time with minReplicas %d, for %s", share(n.OnTime), n.MinReplicas, dollars(n.CostPerDay))
	}
	out.Next = fmt.Sprintf("use a budget of %s or more, or an SLO with a lower percentage or a longer wait",
		dollars(math.Ceil(100*a.Cheapest.CostPerDay)/100))
	return out
}

// nearest returns the candidate with the most requests on time that costs at most the given $ per day, or nil.
func (a *Answer) nearest(most float64) (best *Candidate) {
	for i := range a.Candidates {
		c := &a.Candidates[i]
		if c.Refused != "" || c.CostPerDay > most {
			continue
		}
		if best == nil || c.OnTime > best.OnTime || c.OnTime == best.OnTime && c.CostPerDay < best.CostPerDay {
			best = c
		}
	}
	return best
}

// Fewest returns the candidate with the smallest minReplicas that attains the SLO, or nil.
func (a *Answer) Fewest() *Candidate {
	for i := range a.Candidates {
		if c := &a.Candidates[i]; a.attains(c) {
			return c
		}
	}
	return nil
}

func (a *Answer) attains(c *Candidate) bool { return c.Refused == "" && c.OnTime >= a.SLO.Share }

// warn returns the warnings of the result, each about something that makes the result less certain.
func (r *Result) warn() (out []string) {
	if r.Traffic.Duration < 0.99*(24*time.Hour).Seconds() {
		out = append(out, fmt.Sprintf("the traffic covers %s: costs are scaled to a day, and the load of other hours is not known",
			span(r.Traffic.Duration)))
	}
	for i := range r.Answers {
		if late := 1 - r.Answers[i].SLO.Share; late > 0 && late*float64(r.Traffic.Requests) < 1 {
			out = append(out, fmt.Sprintf("with %s, one late request already misses %s: use longer traffic",
				counted(r.Traffic.Requests, "request"), percent(100*r.Answers[i].SLO.Share)))
		}
	}
	if r.Recommended != nil {
		out = append(out, r.Recommended.warnings...)
	}
	return out
}

// MaxReplicasFor returns a value for maxReplicas: 1.5 times the replicas that the busiest minute of the case's traffic needs, and at least
// 2.
func MaxReplicasFor(c *evaluate.Case) int32 {
	busy := map[time.Duration]time.Duration{}
	most := time.Duration(0)
	for r := range c.Traffic.All() {
		at := r.At.Truncate(time.Minute)
		busy[at] += c.Service.Takes(r)
		most = max(most, busy[at])
	}
	needed := float64(most) / float64(time.Minute) / float64(max(1, c.Service.Slots))
	return int32(min(max(2, math.Ceil(1.5*needed)), 1<<20))
}

func counted(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.FormatInt(n, 10) + " " + what + "s"
}

func percent(p float64) string { return strconv.FormatFloat(math.Round(1e4*p)/1e4, 'f', -1, 64) + "%" }

// share formats a share of requests as a percentage. It rounds down to two digits, because a missed SLO must not look attained.
func share(s float64) string {
	return strconv.FormatFloat(math.Floor(1e4*s+1e-6)/100, 'f', -1, 64) + "%"
}

func dollars(v float64) string {
	if v >= 1e9 {
		return "$" + strconv.FormatFloat(v, 'g', 3, 64)
	}
	return "$" + strconv.FormatFloat(v, 'f', 2, 64)
}

// span formats seconds as a duration and leaves out units that are zero: 1m instead of 1m0s.
func span(s float64) string {
	d := time.Duration(s * float64(time.Second)).Round(time.Millisecond)
	if d >= time.Minute {
		d = d.Round(time.Second)
	}
	return short(d)
}

func short(d time.Duration) string {
	text := d.String()
	if cut, is := strings.CutSuffix(text, "m0s"); is {
		text = cut + "m"
	}
	if cut, is := strings.CutSuffix(text, "h0m"); is {
		text = cut + "h"
	}
	return text
}
