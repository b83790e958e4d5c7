package evaluate

import (
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator"
)

// Schema names the shape of a Report as JSON. Fields are added under the same name; one that goes or changes its meaning makes a new one.
const Schema = "gpuscaler.io/replay/v1"

// Report is the judgement of one workload, or of several in one world. Durations are seconds, shares are 0..1, money is $.
type Report struct {
	Schema      string                 `json:"schema"`          // gpuscaler.io/replay/v1
	Words       string                 `json:"words,omitempty"` // what a scenario says of itself
	Subject                            // of several: their names, sums of requests, of replicas and of bounds
	Workloads   []Subject              `json:"workloads,omitempty"`            // each of them, where there are several
	ColdStart   float64                `json:"coldStartSeconds"`               // 0: by phases, see assumptions
	Seed        uint64                 `json:"seed"`                           // of everything drawn
	Cheapest    string                 `json:"cheapest"`                       // the run that costs least of those that meet the SLO, the clairvoyant aside; empty: none does
	Saved       *float64               `json:"savedOverStaticFleet,omitempty"` // share of what replicas that stand all the time would cost; absent where the case names none, or the run misses the SLO
	Runs        []Run                  `json:"runs"`                           // gpuscaler first
	Gates       []GateResult           `json:"gates,omitempty"`
	Assumptions []simulator.Assumption `json:"assumptions"`
}

// Subject is what is judged: a policy on its traffic, and what of it is no run's.
type Subject struct {
	Policy    string     `json:"policy"` // namespace/name
	Traffic   Traffic    `json:"traffic"`
	SLO       Objective  `json:"slo,omitzero"`
	Initial   int32      `json:"initialReplicas"` // replicas ready at the start, in every run and for the bound
	Bounds    []Bound    `json:"bounds,omitempty"`
	Admission *Admission `json:"admission,omitempty"`
	Warnings  []string   `json:"warnings,omitempty"` // what the admission check says
}

// Traffic is what was replayed.
type Traffic struct {
	Name     string    `json:"name"`            // file, profile, or how many traces
	Kind     string    `json:"kind,omitempty"`  // what it is read from
	Start    time.Time `json:"start,omitzero"`  // instant of its first moment
	Duration float64   `json:"durationSeconds"` // from the start to the end of the replay
	Requests int64     `json:"requests"`        // in all
	Spot     string    `json:"spot,omitempty"`  // name of the spot trace
}

// Objective is the SLO: a share of requests that wait at most so long.
type Objective struct {
	Share float64 `json:"share"`       // share of requests
	Wait  float64 `json:"waitSeconds"` // the longest that these may wait
}

// Variants of a run.
const (
	Ours        = "policy"
	Default     = "default"
	Tuned       = "tuned"
	Clairvoyant = "clairvoyant"
)

// StaticFleet is the run of the replicas that stand all the time where nobody scales.
const StaticFleet = "static fleet"

// Run is one way to move the replicas, and what came of it.
type Run struct {
	Name    string `json:"name"`    // gpuscaler, a baseline, static fleet or clairvoyant
	Variant string `json:"variant"` // policy, default, tuned or clairvoyant
	Words   string `json:"words"`   // how it decides
	Load           // of several workloads: counts are sums; onTime, waits and meetsSLO are the worst workload's

	Cost             float64            `json:"cost"`                                // $
	CostBy           map[string]float64 `json:"costByCapacityType"`                  // $ by capacity type: on-demand, spot, reserved
	CostOverRequest  *float64           `json:"costOverRequestLevelBound,omitempty"` // absent where the SLO is missed, and without a bound
	CostOverFluid    *float64           `json:"costOverFluidBound,omitempty"`        // likewise
	GPUHours         float64            `json:"gpuHours"`                            // GPU time paid for, in hours
	Productive       float64            `json:"productive"`                          // share of the paid GPU time that served requests
	NodeStarts       int64              `json:"nodeStarts"`                          // nodes started, without those that stood there
	SpotLosses       int64              `json:"spotLosses"`                          // nodes that the spot market took
	CapacityRefusals int64              `json:"capacityRefusals"`                    // launches refused for insufficient capacity
	Ledger           simulator.Ledger   `json:"ledgerGPUSeconds"`                    // the parts sum to gpuHours

	Workloads []WorkloadRun `json:"workloads,omitempty"` // each of them, where there are several, as in Report.Workloads

	Series *simulator.Series `json:"-"`
}

// WorkloadRun is one workload's part of a run. Nodes are shared, so the whole run has a cost, and a workload has GPU hours.
type WorkloadRun struct {
	Policy   string  `json:"policy"`   // namespace/name
	GPUHours float64 `json:"gpuHours"` // of the GPUs that its replicas held
	Load
}

// Load is what came of one workload.
type Load struct {
	Settings []Setting `json:"settings,omitempty"`
	Tried    int       `json:"settingsTried,omitempty"` // runs that the tuning took

	MeetsSLO       bool     `json:"meetsSLO"`                 // onTime is at least the SLO's share
	OnTime         float64  `json:"onTime"`                   // share of requests that waited at most the SLO's wait
	Wait           Waits    `json:"waitSeconds"`              // until its service begins, of a request
	Utilization    float64  `json:"gpuUtilization"`           // of the ready replicas' slots
	ReplicaStarts  int64    `json:"replicaStarts"`            // replicas started
	ScaleUps       int64    `json:"scaleUps"`                 // rises of spec.replicas
	ScaleDowns     int64    `json:"scaleDowns"`               // falls of spec.replicas
	AtZero         float64  `json:"atZeroSeconds"`            // time with no replica wanted
	ReplicasLost   int64    `json:"replicasLost"`             // replicas that ended because their node did
	Arrived        int64    `json:"arrived"`                  // requests
	Served         int64    `json:"served"`                   // requests that were served to their end
	Requeued       int64    `json:"requeued"`                 // requests that lost their replica and waited again
	Reasons        []Reason `json:"reasons,omitempty"`        // changes of gpuscaler's number, in a report with charts
	ReasonsLeftOut int      `json:"reasonsLeftOut,omitempty"` // changes beyond those listed
}

// Waits are quantiles of the time that requests waited for their service.
type Waits struct {
	Mean float64 `json:"mean"` // mean wait
	P50  float64 `json:"p50"`  // half of the requests waited at most this
	P95  float64 `json:"p95"`  // 95% did
	P99  float64 `json:"p99"`  // 99% did
	Max  float64 `json:"max"`  // longest wait
}

// Setting is the value of a rival's knob.
type Setting struct {
	Name  string  `json:"name"`  // of the knob, with its unit
	Value float64 `json:"value"` // what it was set to
}

// Reason is one change of gpuscaler's number.
type Reason struct {
	At    float64 `json:"atSeconds"` // since the start
	From  int32   `json:"from"`      // replicas before
	To    int32   `json:"to"`        // replicas after
	Ready int32   `json:"ready"`     // replicas ready
	Rule  string  `json:"rule"`      // the rule that decided
	Text  string  `json:"text"`      // its reason
}

// Kinds of Bound.
const (
	FluidBound   = "fluid"
	RequestBound = "requestLevel"
)

// Bound is an interval on the least cost that meets the SLO.
type Bound struct {
	Kind        string   `json:"kind"`              // fluid or requestLevel
	Lower       float64  `json:"lower"`             // $: no schedule that meets the SLO costs less
	Upper       float64  `json:"upper"`             // of the fluid model: its schedule costs this there
	Gap         float64  `json:"gap"`               // upper / lower
	Exact       bool     `json:"exact"`             // lower and upper are one
	Late        int64    `json:"late"`              // requests late in the schedule behind upper
	Allowed     int64    `json:"allowed"`           // requests that may be late
	Slot        float64  `json:"slotSeconds"`       // length of a slot
	Relaxations []string `json:"relaxations"`       // what makes it a lower bound: each only lowers it
	Problem     string   `json:"problem,omitempty"` // why there is no bound

	nothing bool // there is none because nothing need be served
}

// Loads are the parts of a run by workload, as many as the report has subjects.
func (r *Run) Loads() []*Load {
	if len(r.Workloads) == 0 {
		return []*Load{&r.Load}
	}
	out := make([]*Load, len(r.Workloads))
	for i := range r.Workloads {
		out[i] = &r.Workloads[i].Load
	}
	return out
}

// Missed is how many workloads miss their SLO in a run.
func (r *Run) Missed() (n int) {
	for _, l := range r.Loads() {
		if !l.MeetsSLO {
			n++
		}
	}
	return n
}

// Subjects are all that is judged, one at least.
func (r *Report) Subjects() []*Subject {
	if len(r.Workloads) == 0 {
		return []*Subject{&r.Subject}
	}
	out := make([]*Subject, len(r.Workloads))
	for i := range r.Workloads {
		out[i] = &r.Workloads[i]
	}
	return out
}

// Run finds a run by name and variant, nil where there is none.
func (r *Report) Run(name, variant string) *Run {
	for i := range r.Runs {
		if r.Runs[i].Name == name && r.Runs[i].Variant == variant {
			return &r.Runs[i]
		}
	}
	return nil
}

// Bound finds a bound by kind; nil where it was not asked for or could not be found.
func (r *Subject) Bound(kind string) *Bound {
	for i := range r.Bounds {
		if r.Bounds[i].Kind == kind && r.Bounds[i].Problem == "" {
			return &r.Bounds[i]
		}
	}
	return nil
}

// Events is how often the number of replicas was changed.
func (r *Load) Events() int64 { return r.ScaleUps + r.ScaleDowns }

// Title is a run's name with its variant where that tells something.
func (r *Run) Title() string {
	if r.Variant == Tuned {
		return r.Name + " (tuned)"
	}
	return r.Name
}
