package record

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
	"github.com/gpuscaler/gpuscaler/pkg/scaling/objective"
)

// Version is the version of the format. Verify returns an error for a recording of another version. The last change, version 5, changed the
// encoding of the state at the beginning of a file.
const Version = 5

const (
	kindStart  = "start"
	kindPolicy = "policy"
	kindGroup  = "group"
	kindTick   = "tick"
)

// line is any line of a recording.
type line struct {
	Kind    string    `json:"kind"`
	Version int       `json:"version,omitempty"` // set in a start line
	At      time.Time `json:"at,omitzero"`       // set in a tick line

	Policy *policyLine `json:"policy,omitempty"`
	Group  *groupLine  `json:"group,omitempty"`

	Workloads []entry `json:"w,omitempty"`
	// keys of the workloads that were not decided in this tick, because the cluster cache did not contain them
	Unseen []string `json:"unseen,omitempty"`
	Gone   []string `json:"gone,omitempty"` // keys of the workloads that have no decision any more; the reader deletes their state

	Groups     []groupEntry `json:"g,omitempty"`
	GroupsGone []string     `json:"ggone,omitempty"` // keys of the groups that were not decided in this tick; the reader deletes their state
}

// policyLine is the recorded form of one version of a policy.
type policyLine struct {
	ID      int    `json:"id"`
	Key     string `json:"key"`
	Origin  string `json:"origin,omitempty"`
	Formula bool   `json:"formula,omitempty"` // the policy has a formula, which is not recorded
	Rules   rules  `json:"rules"`
}

// rules is a scaling.Policy for JSON: without its formula, and with its time zones as names.
type rules struct {
	*scaling.Policy
	Formula   *struct{}  `json:",omitempty"` // always nil: it hides the formula, which JSON cannot encode
	Schedules []schedule `json:"Schedules,omitempty"`
}

type schedule struct {
	scaling.Schedule
	Zone string
}

func rulesOf(p *scaling.Policy) rules {
	copied := *p
	copied.Formula, copied.Schedules = nil, nil
	r := rules{Policy: &copied}
	for _, s := range p.Schedules {
		zone := zoneOf(&s.Window)
		s.Window.Location = nil
		r.Schedules = append(r.Schedules, schedule{s, zone})
	}
	return r
}

// compiled returns the policy of a recorded line. It is the inverse of rulesOf: it loads the time zones of the schedules by name, and
// returns an error if a name is unknown.
func (r *rules) compiled() (*scaling.Policy, error) {
	if r.Policy == nil {
		return nil, fmt.Errorf("a policy without rules")
	}
	p := *r.Policy
	for _, s := range r.Schedules {
		zone, err := time.LoadLocation(s.Zone)
		if err != nil {
			return nil, err
		}
		s.Window.Location = zone
		p.Schedules = append(p.Schedules, s.Schedule)
	}
	return &p, nil
}

// entry contains the changes of one workload in a tick. A field that is absent in the JSON has not changed.
type entry struct {
	Key      string          `json:"k"`
	Policy   int             `json:"p,omitempty"`
	View     *engine.View    `json:"view,omitempty"`
	Readings *[]reading      `json:"readings,omitempty"`
	Decision json.RawMessage `json:"d,omitempty"`
	State    []int64         `json:"state,omitempty"` // state before this tick; only if a segment (file) starts or a saved model was used
	Begin    uint8           `json:"begin,omitempty"` // the StateOrigin of the decision, which determines how the state begins
}

// reading is a scaling.Reading for JSON: its value can be NaN or infinite.
type reading struct {
	scaling.Reading
	Value number
}

func readingsOf(from []scaling.Reading) []reading {
	out := make([]reading, len(from))
	for i, r := range from {
		out[i] = reading{Reading: r, Value: number(r.Value)}
		out[i].At = r.At.UTC()
	}
	return out
}

func (e *entry) readings() []scaling.Reading {
	out := make([]scaling.Reading, len(*e.Readings))
	for i, r := range *e.Readings {
		out[i] = r.Reading
		out[i].Value = float64(r.Value)
	}
	return out
}

// decision is a scaling.Decision for JSON, with its reasons as an exported field.
type decision struct {
	scaling.Decision
	Reasons []reason
	Plan    *plan `json:",omitempty"`
}

// plan is an objective.Plan for JSON: its numbers can be NaN or infinite.
type plan struct {
	objective.Plan
	Load, Queued, Capacity, Quantile, Price number
}

func planOf(p *objective.Plan) *plan {
	if p == nil {
		return nil
	}
	return &plan{*p, number(p.Load), number(p.Queued), number(p.Capacity), number(p.Quantile), number(p.Price)}
}

type reason struct {
	scaling.Reason
	A, B number
}

// encode returns the JSON of a decision for the recording. Verify compares the recorded JSON with the JSON of the recomputed decision byte
// for byte.
func encode(d *scaling.Decision) (json.RawMessage, error) {
	out := decision{Decision: *d, Plan: planOf(d.Plan)}
	out.EarliestScaleDown = d.EarliestScaleDown.UTC()
	for _, r := range d.Reasons.All() {
		out.Reasons = append(out.Reasons, reason{r, number(r.A), number(r.B)})
	}
	return json.Marshal(&out)
}

// number is a float64 in JSON, with NaN and the infinities as strings.
type number float64

// MarshalJSON writes the shortest text that decodes to the same value.
func (n number) MarshalJSON() ([]byte, error) {
	v := float64(n)
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return []byte(strconv.Quote(strconv.FormatFloat(v, 'g', -1, 64))), nil
	}
	return json.Marshal(v)
}

// UnmarshalJSON reads numbers and the strings for NaN and the infinities.
func (n *number) UnmarshalJSON(b []byte) error {
	text := string(b)
	if unquoted, err := strconv.Unquote(text); err == nil {
		text = unquoted
	}
	v, err := strconv.ParseFloat(text, 64)
	*n = number(v)
	return err
}
