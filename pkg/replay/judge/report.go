package judge

import (
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/world"
)

// Schema names the shape of a Report as JSON. Fields are added under the same name; one that goes or changes its meaning makes a new one.
const Schema = "gpuscaler.io/replay/v1"

// Report is the judgement of one workload, or of several in one world. Durations are seconds, shares are 0..1, money is $.
type Report struct {
	Schema      string             `json:"schema"`
	Words       string             `json:"words,omitempty"` // what a scenario says of itself
	Subject                        // of several: their names, sums of requests, of replicas and of bounds
	Workloads   []Subject          `json:"workloads,omitempty"` // each of them, where there are several
	ColdStart   float64            `json:"coldStartSeconds"`    // 0: by phases, see assumptions
	Seed        uint64             `json:"seed"`
	Cheapest    string             `json:"cheapest"`                       // the run that costs least of those that meet the SLO, the clairvoyant aside; empty: none does
	Saved       *float64           `json:"savedOverStaticFleet,omitempty"` // share of what replicas that stand all the time would cost; absent where the case names none
	Runs        []Run              `json:"runs"`                           // gpuscaler first
	Gates       []GateResult       `json:"gates,omitempty"`
	Assumptions []world.Assumption `json:"assumptions"`
}

// Subject is what is judged: a policy on its traffic, and what of it is no run's.
type Subject struct {
	Policy    string     `json:"policy"` // namespace/name
	Traffic   Traffic    `json:"traffic"`
	SLO       Objective  `json:"slo,omitzero"`
	Initial   int32      `json:"initialReplicas"`
	Bounds    []Bound    `json:"bounds,omitempty"`
	Admission *Admission `json:"admission,omitempty"`
	Warnings  []string   `json:"warnings,omitempty"`
}

// Traffic is what was replayed.
type Traffic struct {
	Name     string    `json:"name"`
	Kind     string    `json:"kind,omitempty"`
	Start    time.Time `json:"start,omitzero"`
	Duration float64   `json:"durationSeconds"`
	Requests int64     `json:"requests"`
	Spot     string    `json:"spot,omitempty"` // name of the spot trace
}

// Objective is the SLO: a share of requests that wait at most so long.
type Objective struct {
	Share float64 `json:"share"`
	Wait  float64 `json:"waitSeconds"`
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
	Name    string `json:"name"`
	Variant string `json:"variant"` // policy, default, tuned or clairvoyant
	Words   string `json:"words"`
	Load           // of several workloads: counts are sums; onTime, waits and meetsSLO are the worst workload's

	Cost             float64            `json:"cost"`
	CostBy           map[string]float64 `json:"costByCapacityType"`
	CostOverRequest  *float64           `json:"costOverRequestLevelBound,omitempty"` // absent where the SLO is missed, and without a bound
	CostOverFluid    *float64           `json:"costOverFluidBound,omitempty"`
	GPUHours         float64            `json:"gpuHours"`
	Productive       float64            `json:"productive"` // share of the paid GPU time that served requests
	NodeStarts       int64              `json:"nodeStarts"`
	SpotLosses       int64              `json:"spotLosses"`
	CapacityRefusals int64              `json:"capacityRefusals"`
	Ledger           world.Ledger       `json:"ledgerGPUSeconds"` // the parts sum to gpuHours

	Workloads []WorkloadRun `json:"workloads,omitempty"` // each of them, where there are several, as in Report.Workloads

	Series *world.Series `json:"-"`
}

// WorkloadRun is one workload's part of a run. Nodes are shared, so the whole run has a cost, and a workload has GPU hours.
type WorkloadRun struct {
	Policy   string  `json:"policy"`
	GPUHours float64 `json:"gpuHours"` // of the GPUs that its replicas held
	Load
}

// Load is what came of one workload.
type Load struct {
	Settings []Setting `json:"settings,omitempty"`
	Tried    int       `json:"settingsTried,omitempty"` // runs that the tuning took

	MeetsSLO       bool     `json:"meetsSLO"`
	OnTime         float64  `json:"onTime"`
	Wait           Waits    `json:"waitSeconds"`
	Utilization    float64  `json:"gpuUtilization"` // of the ready replicas' slots
	ReplicaStarts  int64    `json:"replicaStarts"`
	ScaleUps       int64    `json:"scaleUps"`
	ScaleDowns     int64    `json:"scaleDowns"`
	AtZero         float64  `json:"atZeroSeconds"`
	ReplicasLost   int64    `json:"replicasLost"`
	Arrived        int64    `json:"arrived"`
	Served         int64    `json:"served"`
	Requeued       int64    `json:"requeued"`
	Reasons        []Reason `json:"reasons,omitempty"`
	ReasonsLeftOut int      `json:"reasonsLeftOut,omitempty"`
}

// Waits are quantiles of the time that requests waited for their service.
type Waits struct {
	Mean float64 `json:"mean"`
	P50  float64 `json:"p50"`
	P95  float64 `json:"p95"`
	P99  float64 `json:"p99"`
	Max  float64 `json:"max"`
}

// Setting is the value of a rival's knob.
type Setting struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
}

// Reason is one change of gpuscaler's number.
type Reason struct {
	At    float64 `json:"atSeconds"`
	From  int32   `json:"from"`
	To    int32   `json:"to"`
	Ready int32   `json:"ready"`
	Rule  string  `json:"rule"`
	Text  string  `json:"text"`
}

// Kinds of Bound.
const (
	FluidBound   = "fluid"
	RequestBound = "requestLevel"
)

// Bound is an interval on the least cost that meets the SLO.
type Bound struct {
	Kind        string   `json:"kind"` // fluid or requestLevel
	Lower       float64  `json:"lower"`
	Upper       float64  `json:"upper"` // of the fluid model: its schedule costs this there
	Gap         float64  `json:"gap"`   // upper / lower
	Exact       bool     `json:"exact"`
	Late        int64    `json:"late"`
	Allowed     int64    `json:"allowed"`
	Slot        float64  `json:"slotSeconds"`
	Relaxations []string `json:"relaxations"`
	Problem     string   `json:"problem,omitempty"` // why there is no bound
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
