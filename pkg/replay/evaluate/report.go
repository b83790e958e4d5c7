package evaluate

import (
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/ledger"
)

// Schema names the JSON format of a Report. New fields keep the name; a removed field or a changed meaning requires a new name.
const Schema = "gpuscaler.io/replay/v1"

// Report is the evaluation of one workload, or of several in one simulated cluster. Durations are seconds, shares are 0..1, money
// is $.
type Report struct {
	Schema    string    `json:"schema"`          // gpuscaler.io/replay/v1
	Words     string    `json:"words,omitempty"` // description in the scenario file
	Subject             // for several workloads: their names, and sums of requests, replicas and bounds
	Workloads []Subject `json:"workloads,omitempty"` // each workload, if there are several
	ColdStart float64   `json:"coldStartSeconds"`    // duration of each cold start; 0: each phase is drawn as the assumptions specify
	Seed      uint64    `json:"seed"`                // seed of all random numbers

	Cheapest string `json:"cheapest"` // cheapest run that meets the SLO, except the clairvoyant run; empty: no run meets it

	Saved         *float64 `json:"savedOverStaticFleet,omitempty"`   // saved share of the static fleet's cost; absent if the SLO is missed
	SavedSmallest *float64 `json:"savedOverSmallestFleet,omitempty"` // saved share of the cost of the smallest static fleet that meets the SLO

	Runs        []Run                  `json:"runs"` // gpuscaler first
	Gates       []GateResult           `json:"gates,omitempty"`
	Assumptions []simulator.Assumption `json:"assumptions"`
}

// Subject is a policy with its traffic, and the results that are the same in every run.
type Subject struct {
	Policy    string     `json:"policy"` // namespace/name
	Traffic   Traffic    `json:"traffic"`
	SLO       Objective  `json:"slo,omitzero"`
	Initial   int32      `json:"initialReplicas"` // replicas ready at the start, in every run and for the bound
	Bounds    []Bound    `json:"bounds,omitempty"`
	Admission *Admission `json:"admission,omitempty"`
	Warnings  []string   `json:"warnings,omitempty"` // warnings about the policy on this traffic
}

// Traffic describes the replayed traffic.
type Traffic struct {
	Name          string    `json:"name"`                    // file, profile, or number of traces
	Kind          string    `json:"kind,omitempty"`          // kind of the traffic: request log, windowed rates or generated
	Start         time.Time `json:"start,omitzero"`          // start time
	Duration      float64   `json:"durationSeconds"`         // from the start to the end of the replay
	Requests      int64     `json:"requests"`                // total requests
	Train         float64   `json:"trainSeconds,omitempty"`  // length of the train part; results cover only the report part after it
	TrainRequests int64     `json:"trainRequests,omitempty"` // requests in the train part
	Spot          string    `json:"spot,omitempty"`          // name of the spot trace
}

// Objective is the SLO: a share of the requests waits at most WaitSeconds.
type Objective struct {
	Share float64 `json:"share"`       // share of requests
	Wait  float64 `json:"waitSeconds"` // maximum wait of these requests
}

// Values of the field Variant of Run.
const (
	Ours        = "policy"
	Default     = "default"
	Tuned       = "tuned"
	Clairvoyant = "clairvoyant"
)

// StaticFleet is the name of the run with a fixed number of replicas.
const StaticFleet = "static fleet"

// Run is one way to scale the replicas, with its results.
type Run struct {
	Name    string `json:"name"`    // gpuscaler, a baseline, static fleet or clairvoyant
	Variant string `json:"variant"` // policy, default, tuned or clairvoyant
	Words   string `json:"words"`   // how the run decides the number of replicas
	Load           // for several workloads: counts are sums; onTime, waits and meetsSLO describe the worst workload

	Cost             float64            `json:"cost"`                                // cost in $
	CostBy           map[string]float64 `json:"costByCapacityType"`                  // cost in $ by capacity type: on-demand, spot, reserved
	CostOverRequest  *float64           `json:"costOverRequestLevelBound,omitempty"` // absent if the SLO is missed, and without a bound
	CostOverFluid    *float64           `json:"costOverFluidBound,omitempty"`        // absent if the SLO is missed, and without a bound
	GPUHours         float64            `json:"gpuHours"`                            // GPU time paid for, in hours
	Productive       float64            `json:"productive"`                          // share of the paid GPU time that served requests
	NodeStarts       int64              `json:"nodeStarts"`                          // nodes started, except those at the start
	SpotLosses       int64              `json:"spotLosses"`                          // nodes that the spot market took
	CapacityRefusals int64              `json:"capacityRefusals"`                    // launches refused for insufficient capacity
	Ledger           ledger.Ledger      `json:"ledgerGPUSeconds"`                    // GPU seconds by cause; the sum is gpuHours

	Workloads []WorkloadRun `json:"workloads,omitempty"` // results by workload, if there are several, in the order of Report.Workloads

	Series *simulator.Series `json:"-"`
}

// WorkloadRun has the results of one workload in a run. It has no cost, because workloads share nodes: only the whole run has one.
type WorkloadRun struct {
	Policy   string  `json:"policy"`   // namespace/name
	GPUHours float64 `json:"gpuHours"` // GPU hours that its replicas held
	Load
}

// Load holds the results of one workload.
type Load struct {
	Settings []Setting `json:"settings,omitempty"`
	Tried    int       `json:"settingsTried,omitempty"` // number of settings that the tuning ran; 0: not tuned

	MeetsSLO       bool     `json:"meetsSLO"`                 // onTime is at least the SLO's share
	OnTime         float64  `json:"onTime"`                   // share of requests that waited at most the SLO's wait
	Wait           Waits    `json:"waitSeconds"`              // time from arrival to the start of service
	Utilization    float64  `json:"gpuUtilization"`           // used share of the ready replicas' slots
	ReplicaStarts  int64    `json:"replicaStarts"`            // replicas started
	ScaleUps       int64    `json:"scaleUps"`                 // increases of spec.replicas
	ScaleDowns     int64    `json:"scaleDowns"`               // decreases of spec.replicas
	AtZero         float64  `json:"atZeroSeconds"`            // time with a target of zero
	ReplicasLost   int64    `json:"replicasLost"`             // replicas that ended with their node
	Arrived        int64    `json:"arrived"`                  // requests that arrived
	Served         int64    `json:"served"`                   // requests that were served completely
	Requeued       int64    `json:"requeued"`                 // requests that lost their replica and waited again
	Reasons        []Reason `json:"reasons,omitempty"`        // changes of the target, in a report with charts
	ReasonsLeftOut int      `json:"reasonsLeftOut,omitempty"` // number of changes that are not listed
}

// Waits are quantiles of the time from arrival to the start of service.
type Waits struct {
	Mean float64 `json:"mean"` // mean wait
	P50  float64 `json:"p50"`  // half of the requests waited at most this
	P95  float64 `json:"p95"`  // 95% waited at most this
	P99  float64 `json:"p99"`  // 99% waited at most this
	Max  float64 `json:"max"`  // longest wait
}

// Setting is the value of one knob.
type Setting struct {
	Name  string  `json:"name"`  // name of the knob, with its unit
	Value float64 `json:"value"` // value of the knob
}

// Reason explains one change of the target.
type Reason struct {
	At    float64 `json:"atSeconds"` // time of the change since the start
	From  int32   `json:"from"`      // target before the change
	To    int32   `json:"to"`        // target after the change
	Ready int32   `json:"ready"`     // replicas that were ready at the time of the change
	Rule  string  `json:"rule"`      // the rule that decided
	Text  string  `json:"text"`      // reason in words
}

// Values of the field Kind of Bound.
const (
	FluidBound   = "fluid"
	RequestBound = "requestLevel"
)

// Bound contains a lower and an upper bound of the least cost at which the SLO can be met.
type Bound struct {
	Kind        string   `json:"kind"`              // fluid or requestLevel
	Lower       float64  `json:"lower"`             // $; no schedule that meets the SLO costs less
	Upper       float64  `json:"upper"`             // $; cost of the schedule found, in the fluid model
	Gap         float64  `json:"gap"`               // upper divided by lower
	Exact       bool     `json:"exact"`             // lower equals upper
	Late        int64    `json:"late"`              // late requests in the schedule whose cost is Upper
	Allowed     int64    `json:"allowed"`           // requests that may be late
	TimeSlot    float64  `json:"timeSlotSeconds"`   // length of a time slot
	Relaxations []string `json:"relaxations"`       // simplifications; each can only lower the bound
	Problem     string   `json:"problem,omitempty"` // why there is no bound

	nothing bool // no bound, because no request must be served
}

// Loads returns the results by workload, in the order of Report.Subjects.
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

// Missed returns the number of workloads that miss their SLO.
func (r *Run) Missed() (n int) {
	for _, l := range r.Loads() {
		if !l.MeetsSLO {
			n++
		}
	}
	return n
}

// Subjects returns all evaluated workloads, at least one.
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

// Run returns the run with the given name and variant, or nil.
func (r *Report) Run(name, variant string) *Run {
	for i := range r.Runs {
		if r.Runs[i].Name == name && r.Runs[i].Variant == variant {
			return &r.Runs[i]
		}
	}
	return nil
}

// Bound returns the bound of the given kind, or nil if it was not requested or not found.
func (r *Subject) Bound(kind string) *Bound {
	for i := range r.Bounds {
		if r.Bounds[i].Kind == kind && r.Bounds[i].Problem == "" {
			return &r.Bounds[i]
		}
	}
	return nil
}

// Events returns how often spec.replicas changed.
func (r *Load) Events() int64 { return r.ScaleUps + r.ScaleDowns }

// Title returns the name of the run, with its variant if it is tuned.
func (r *Run) Title() string {
	if r.Variant == Tuned {
		return r.Name + " (tuned)"
	}
	return r.Name
}
