package audit

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/printable"
)

// SnapshotSchema names the format of a snapshot. New optional fields keep the name; another change requires a new version.
const SnapshotSchema = "gpuscaler.io/audit-snapshot/v1"

const schemaPrefix = "gpuscaler.io/audit-snapshot/"

// Limits of the size of a snapshot. Without them, a file from an unknown source could use up the memory.
const (
	maxSteps     = 20_000
	maxWorkloads = 5_000
	maxPools     = 1_000
	maxName      = 253 // length of the longest name of a Kubernetes object
	maxCount     = 1e9 // a greater value is an error of the exporter and counts as missing
)

// Snapshot is the history of the GPU workloads of one cluster. It contains names, settings of autoscalers and metrics, and no queries,
// addresses, credentials, labels or annotations.
type Snapshot struct {
	Schema  string    `json:"schema"`            // name of the format: SnapshotSchema
	Cluster string    `json:"cluster,omitempty"` // name of the cluster
	From    time.Time `json:"from"`              // start of the period
	Step    float64   `json:"stepSeconds"`       // length of a step
	Steps   int       `json:"steps"`             // number of steps; each series has as many values, or none if it is missing
	Wait    float64   `json:"waitSeconds"`       // wait up to which Workload.OnTime counts requests

	Workloads []Workload `json:"workloads"`
	Pools     []Pool     `json:"pools,omitempty"`
	Other     []Held     `json:"other,omitempty"`   // GPUs of pods that no autoscaler scales
	Missing   []Gap      `json:"missing,omitempty"` // series that the source does not have
	Notes     []string   `json:"notes,omitempty"`   // notes of the source, for example warnings of the Prometheus server
}

// Workload is one workload with the autoscaler that scales it.
type Workload struct {
	Namespace  string     `json:"namespace"`
	Name       string     `json:"name"` // name of the scale target
	Kind       string     `json:"kind"` // kind of the scale target
	Autoscaler Autoscaler `json:"autoscaler"`
	GPUs       int        `json:"gpusPerReplica"` // GPUs that a replica requests
	Slots      float64    `json:"slots,omitempty"`
	SlotsFrom  string     `json:"slotsFrom,omitempty"`
	// Service is the mean time in seconds that a replica spends on a request, without waits; 0: unknown.
	Service float64 `json:"serviceSeconds,omitempty"`

	Spec     Values `json:"specReplicas,omitempty"`  // replicas that the autoscaler requested
	Ready    Values `json:"readyReplicas,omitempty"` // ready replicas
	Held     []Held `json:"held,omitempty"`          // GPUs that scheduled pods hold, by pool
	Running  Values `json:"running,omitempty"`       // mean number of running requests in the step, summed over the replicas
	Waiting  Values `json:"waiting,omitempty"`       // mean number of waiting requests in the step, summed over the replicas
	Activity Values `json:"activeGPUs,omitempty"`    // sum of the GPU activity, 1 for a GPU that is always active
	Started  Values `json:"started,omitempty"`       // requests whose service began in the step
	OnTime   Values `json:"onTime,omitempty"`        // started requests that waited at most Snapshot.Wait
}

// Key returns NAMESPACE/NAME.
func (w *Workload) Key() string { return w.Namespace + "/" + w.Name }

// Autoscaler is an HPA or a ScaledObject.
type Autoscaler struct {
	Kind      string     `json:"kind"` // HorizontalPodAutoscaler or ScaledObject
	Name      string     `json:"name"`
	Min       int        `json:"minReplicas"`
	Max       int        `json:"maxReplicas"`
	Cooldown  float64    `json:"cooldownSeconds"`     // time after which unneeded replicas are removed
	Schedules []Schedule `json:"schedules,omitempty"` // cron triggers
	Metrics   []string   `json:"metrics,omitempty"`   // types and names of metrics, without queries
}

// Schedule is a cron trigger of KEDA.
type Schedule struct {
	Timezone string `json:"timezone"`
	Start    string `json:"start"`
	End      string `json:"end"`
	Replicas int    `json:"replicas"`
}

// Held is the number of GPUs that pods hold on the nodes of one pool, by step.
type Held struct {
	Pool string `json:"pool,omitempty"` // name of a Pool; empty: unknown
	GPUs Values `json:"gpus"`
}

// Pool is a group of nodes with one instance type, capacity type and price.
type Pool struct {
	Name         string  `json:"name"`
	InstanceType string  `json:"instanceType,omitempty"`
	CapacityType string  `json:"capacityType,omitempty"`
	PerNode      int     `json:"gpusPerNode,omitempty"`
	Hourly       float64 `json:"hourlyPerGPU,omitempty"` // price of a GPU per hour in $; valid only if PriceFrom is set
	PriceFrom    string  `json:"priceFrom,omitempty"`    // source of the price; empty: the price is unknown
	GPUs         Values  `json:"gpus,omitempty"`         // number of GPUs of all nodes
}

// Gap describes a result that the audit cannot compute, and the reason.
type Gap struct {
	What string `json:"what"` // what cannot be evaluated, and for which workloads
	Why  string `json:"why"`  // the missing data
	Next string `json:"next"` // what the user can do
}

// Duration returns the length of the period.
func (s *Snapshot) Duration() time.Duration { return time.Duration(s.Steps) * s.step() }

func (s *Snapshot) step() time.Duration { return time.Duration(s.Step * float64(time.Second)) }

// To returns the end of the period.
func (s *Snapshot) To() time.Time { return s.From.Add(s.Duration()) }

// pool returns the pool with the name, or nil.
func (s *Snapshot) pool(name string) *Pool {
	for i := range s.Pools {
		if s.Pools[i].Name == name {
			return &s.Pools[i]
		}
	}
	return nil
}

// check returns an error for a snapshot that the audit cannot use. A value that is not plausible counts as missing and is no error.
func (s *Snapshot) check() error {
	switch {
	case !strings.HasPrefix(s.Schema, schemaPrefix):
		return fmt.Errorf("schema %q: this is not a snapshot of gpuscaler audit; write one with gpuscaler audit --export FILE", clip(s.Schema))
	case s.Schema != SnapshotSchema:
		return fmt.Errorf("schema %q: this version of gpuscaler reads only %s; use the version that wrote the file", clip(s.Schema),
			SnapshotSchema)
	case s.From.IsZero() || s.From.Year() < 2000 || s.From.Year() > 9000:
		return fmt.Errorf("from %s: the start of the period is required", s.From.Format(time.RFC3339))
	case !(s.Step >= 1 && s.Step <= 86400):
		return fmt.Errorf("stepSeconds %v: use 1 to 86400", s.Step)
	case s.Steps < 1 || s.Steps > maxSteps:
		return fmt.Errorf("steps %d: use 1 to %d", s.Steps, maxSteps)
	case !(s.Wait >= 0 && s.Wait <= 86400*7):
		return fmt.Errorf("waitSeconds %v: use 0 to a week", s.Wait)
	case len(s.Workloads) > maxWorkloads || len(s.Pools) > maxPools:
		return fmt.Errorf("%d workloads and %d pools: at most %d and %d are allowed", len(s.Workloads), len(s.Pools), maxWorkloads, maxPools)
	}
	return errors.Join(s.checkWorkloads(), s.checkPools())
}

func (s *Snapshot) checkWorkloads() error {
	seen := map[string]bool{}
	for i := range s.Workloads {
		w := &s.Workloads[i]
		key := clip(w.Key())
		a := &w.Autoscaler
		switch {
		case w.Name == "" || len(w.Name) > maxName || len(w.Namespace) > maxName || len(a.Name) > maxName:
			return fmt.Errorf("workloads[%d]: a name is required, with at most %d characters", i, maxName)
		case seen[w.Key()]:
			return fmt.Errorf("workloads[%d]: %s exists twice", i, key)
		case w.GPUs < 0 || w.GPUs > 1024:
			return fmt.Errorf("workload %s: gpusPerReplica %d: use 0 to 1024", key, w.GPUs)
		case !(w.Slots >= 0 && w.Slots <= 1e6) || !(w.Service >= 0 && w.Service <= 86400*7):
			return fmt.Errorf("workload %s: slots %v and serviceSeconds %v: use 0 or more", key, w.Slots, w.Service)
		case a.Min < 0 || a.Max < a.Min || a.Max > 1e6 || !(a.Cooldown >= 0 && a.Cooldown <= 86400*7):
			return fmt.Errorf("workload %s: minReplicas %d, maxReplicas %d, cooldownSeconds %v: use 0 <= min <= max and a cooldown of at "+
				"most a week", key, a.Min, a.Max, a.Cooldown)
		}
		seen[w.Key()] = true
		for _, v := range append(w.lists(), w.heldLists()...) {
			if err := s.checkValues("workload "+key, *v); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *Snapshot) checkPools() error {
	for i := range s.Pools {
		p := &s.Pools[i]
		if len(p.Name) > 4*maxName || p.PerNode < 0 || p.PerNode > 1024 || p.PriceFrom != "" && !(p.Hourly >= 0 && p.Hourly < 1e6) {
			return fmt.Errorf("pool %q: the name, gpusPerNode %d or hourlyPerGPU %v is not plausible", clip(p.Name), p.PerNode, p.Hourly)
		}
		if err := s.checkValues("pool "+clip(p.Name), p.GPUs); err != nil {
			return err
		}
	}
	for i := range s.Other {
		if err := s.checkValues("other", s.Other[i].GPUs); err != nil {
			return err
		}
	}
	return nil
}

func (s *Snapshot) checkValues(of string, v Values) error {
	if len(v) != 0 && len(v) != s.Steps {
		return fmt.Errorf("%s: a series has %d values, want %d or none", of, len(v), s.Steps)
	}
	return nil
}

// lists returns the series of the workload, except the series in Held.
func (w *Workload) lists() []*Values {
	return []*Values{&w.Spec, &w.Ready, &w.Running, &w.Waiting, &w.Activity, &w.Started, &w.OnTime}
}

func (w *Workload) heldLists() (out []*Values) {
	for i := range w.Held {
		out = append(out, &w.Held[i].GPUs)
	}
	return out
}

// Values contains the values of a series by step. A missing value is NaN in memory, and null in JSON.
type Values []float64

// at returns the value of step i, or NaN if it is missing or not plausible.
func (v Values) at(i int) float64 {
	if i >= len(v) {
		return math.NaN()
	}
	return plausible(v[i])
}

// known reports whether at least one value is known and plausible.
func (v Values) known() bool {
	return slices.ContainsFunc(v, func(x float64) bool { return !math.IsNaN(plausible(x)) })
}

// plausible returns the value, or NaN if it is negative or too large.
func plausible(v float64) float64 {
	if v < 0 || v > maxCount {
		return math.NaN()
	}
	return v
}

// clip prepares a text from the file for an error message. It removes control characters and shortens the text to the length of a name.
func clip(text string) string {
	text = printable.Clean(text)
	if len(text) > maxName {
		return strings.ToValidUTF8(text[:maxName], "") + "..."
	}
	return text
}
