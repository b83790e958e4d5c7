package cost

import (
	"cmp"
	"slices"
	"time"
)

type podKey struct{ namespace, name string }

// podUse is what is remembered of a pod beyond its line: enough to say that it was forgotten, or would fit a slice.
type podUse struct {
	pod              Pod
	model            string
	devices          map[string]bool
	memoryMiB        float64
	peakMiB          float64
	peakActivity     float64
	gpuHours         float64
	dollars          float64
	priced           bool // all of it
	shared, unknown  bool
	last             time.Time
	busy             time.Time // the end of the last step in which it was busy, or not known to be idle
	idle, idleHourly float64   // dollars since then; of the last step, an hour
	idlePriced       bool
}

// use is one pod's part of a slice over a step.
type use struct {
	gpus, dollars float64
	priced        bool
}

// restingActivity is what a GPU shows while nobody computes: a monitoring tool's own kernels.
const restingActivity = 0.01

func (l *Ledger) remember(p *Pod, d *Device, s *Slice, m Moment, u use) {
	k := podKey{p.Namespace, p.Name}
	have := l.pods[k]
	begin := m.At.Add(-time.Duration(m.Hours * float64(time.Hour)))
	if have == nil {
		have = &podUse{pod: *p, devices: map[string]bool{}, busy: begin, priced: true, idlePriced: true}
		l.pods[k] = have
	}
	have.model, have.memoryMiB = d.Model, max(have.memoryMiB, d.MemoryMiB)
	have.devices[d.ID+"/"+s.ID] = true
	have.peakMiB, have.peakActivity = max(have.peakMiB, s.UsedMiB), max(have.peakActivity, s.Activity.Value)
	have.gpuHours, have.dollars = have.gpuHours+u.gpus*m.Hours, have.dollars+u.dollars
	have.priced = have.priced && u.priced
	have.shared = have.shared || s.ID != "" || s.Profile != "" || len(s.Pods) > 1
	have.unknown = have.unknown || !s.Activity.Known || !s.Memory.Known
	if !s.Activity.Known || s.Activity.Value > restingActivity {
		if m.At.After(have.busy) {
			have.busy, have.idle, have.idlePriced = m.At, 0, true
		}
	} else if m.At.After(have.busy) {
		have.idle, have.idlePriced = have.idle+u.dollars, have.idlePriced && u.priced
	}
	if m.At.After(have.last) {
		have.last, have.idleHourly = m.At, 0
	}
	if m.At.Equal(have.last) {
		have.idleHourly += u.dollars / m.Hours
	}
}

// merge takes in another pod of the same workload. The greatest number of GPUs of a pod counts.
func (u *podUse) merge(o *podUse) {
	if len(o.devices) > len(u.devices) {
		u.devices = o.devices
	}
	u.memoryMiB, u.peakMiB, u.peakActivity = max(u.memoryMiB, o.memoryMiB), max(u.peakMiB, o.peakMiB), max(u.peakActivity, o.peakActivity)
	u.gpuHours, u.dollars = u.gpuHours+o.gpuHours, u.dollars+o.dollars
	u.priced, u.shared, u.unknown = u.priced && o.priced, u.shared || o.shared, u.unknown || o.unknown || u.model != o.model
}

// Notebook is an interactive session that holds a GPU and has not used it for long.
type Notebook struct {
	Owner     string    `json:"owner"` // the person where a label names one, else the namespace
	Namespace string    `json:"namespace"`
	Pod       string    `json:"pod"`
	Model     string    `json:"model"`
	GPUs      int       `json:"gpus"`
	IdleSince time.Time `json:"idleSince"`
	Hourly    float64   `json:"hourly"` // what it costs at present
	Cost      float64   `json:"cost"`   // since it is idle
	Priced    bool      `json:"priced"` // false: what it costs is not known
}

// Forgotten lists the notebooks that still hold a GPU at the ledger's end and have been idle for at least that long, the longest
// first. One whose activity is not known is not forgotten.
func (l *Ledger) Forgotten(idle time.Duration) (out []Notebook) {
	for k, u := range l.pods {
		if !u.pod.Notebook || !u.last.Equal(l.last) || l.last.Sub(u.busy) < idle {
			continue
		}
		out = append(out, Notebook{Owner: cmp.Or(u.pod.Owner, k.namespace), Namespace: k.namespace, Pod: k.name, Model: u.model, GPUs: len(u.devices),
			IdleSince: u.busy, Hourly: u.idleHourly, Cost: u.idle, Priced: u.idlePriced})
	}
	slices.SortFunc(out, func(a, b Notebook) int {
		return cmp.Or(a.IdleSince.Compare(b.IdleSince), cmp.Compare(a.Namespace+"/"+a.Pod, b.Namespace+"/"+b.Pod))
	})
	return out
}
