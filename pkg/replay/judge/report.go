package judge

import (
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/world"
)

// Schema names the shape of a Report as JSON. Fields are added under the same name; one that goes or changes its meaning makes a new one.
const Schema = "gpuscaler.io/replay/v1"

// Report is the judgement of a Case. Durations are seconds, shares are 0..1, money is $.
type Report struct {
	Schema      string             `json:"schema"`
	Policy      string             `json:"policy"` // namespace/name
	Traffic     Traffic            `json:"traffic"`
	SLO         Objective          `json:"slo"`
	Initial     int32              `json:"initialReplicas"`
	ColdStart   float64            `json:"coldStartSeconds"` // 0: by phases, see assumptions
	Seed        uint64             `json:"seed"`
	Cheapest    string             `json:"cheapest"` // the run that costs least of those that meet the SLO, the clairvoyant aside; empty: none does
	Runs        []Run              `json:"runs"`     // gpuscaler first
	Bounds      []Bound            `json:"bounds,omitempty"`
	Admission   *Admission         `json:"admission,omitempty"`
	Warnings    []string           `json:"warnings,omitempty"`
	Gates       []GateResult       `json:"gates,omitempty"`
	Assumptions []world.Assumption `json:"assumptions"`
}

// Traffic is what was replayed.
type Traffic struct {
	Name     string    `json:"name"`
	Kind     string    `json:"kind"`
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

// Run is one way to move the replicas, and what came of it.
type Run struct {
	Name     string    `json:"name"`
	Variant  string    `json:"variant"` // policy, default, tuned or clairvoyant
	Words    string    `json:"words"`
	Settings []Setting `json:"settings,omitempty"`
	Tried    int       `json:"settingsTried,omitempty"` // runs that the tuning took

	MeetsSLO         bool               `json:"meetsSLO"`
	Cost             float64            `json:"cost"`
	CostBy           map[string]float64 `json:"costByCapacityType"`
	CostOverRequest  *float64           `json:"costOverRequestLevelBound,omitempty"` // absent where the SLO is missed, and without a bound
	CostOverFluid    *float64           `json:"costOverFluidBound,omitempty"`
	GPUHours         float64            `json:"gpuHours"`
	OnTime           float64            `json:"onTime"`
	Wait             Waits              `json:"waitSeconds"`
	Utilization      float64            `json:"gpuUtilization"` // of the ready replicas' slots
	Productive       float64            `json:"productive"`     // share of the paid GPU time that served requests
	ReplicaStarts    int64              `json:"replicaStarts"`
	NodeStarts       int64              `json:"nodeStarts"`
	ScaleUps         int64              `json:"scaleUps"`
	ScaleDowns       int64              `json:"scaleDowns"`
	AtZero           float64            `json:"atZeroSeconds"`
	SpotLosses       int64              `json:"spotLosses"`
	ReplicasLost     int64              `json:"replicasLost"`
	CapacityRefusals int64              `json:"capacityRefusals"`
	Arrived          int64              `json:"arrived"`
	Served           int64              `json:"served"`
	Requeued         int64              `json:"requeued"`
	Ledger           world.Ledger       `json:"ledgerGPUSeconds"` // the parts sum to gpuHours
	Reasons          []Reason           `json:"reasons,omitempty"`
	ReasonsLeftOut   int                `json:"reasonsLeftOut,omitempty"`

	Series *world.Series `json:"-"`
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
func (r *Report) Bound(kind string) *Bound {
	for i := range r.Bounds {
		if r.Bounds[i].Kind == kind && r.Bounds[i].Problem == "" {
			return &r.Bounds[i]
		}
	}
	return nil
}

// Events is how often the number of replicas was changed.
func (r *Run) Events() int64 { return r.ScaleUps + r.ScaleDowns }

// Title is a run's name with its variant where that tells something.
func (r *Run) Title() string {
	if r.Variant == Tuned {
		return r.Name + " (tuned)"
	}
	return r.Name
}
