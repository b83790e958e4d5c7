package cost

import (
	"cmp"
	"slices"
	"time"
)

type podKey struct{ namespace, name string }

// podUse contains the data of one pod. SliceProposals and IdleNotebooks use it.
type podUse struct {
	pod              Pod
	model            string
	devices          map[string]bool
	memoryMiB        float64
	peakMiB          float64
	peakActivity     float64
	gpuHours         float64
	dollars          float64
	priced           bool // the price is known for every hour
	shared, unknown  bool
	last             time.Time
	busy             time.Time // end of the last interval in which the pod was busy or was not measured
	idle, idleHourly float64   // cost in dollars since the time in the field busy, and cost per hour in the last interval
	idlePriced       bool
}

// use contains the number of GPUs that one pod used in an interval, and their cost.
type use struct {
	gpus, dollars float64
	priced        bool
}

// idleActivity is the highest activity at which a GPU counts as idle. It is above 0 because monitoring tools run small kernels on the GPU.
const idleActivity = 0.01

func (l *Ledger) recordPod(p *Pod, d *Device, s *Slice, m Interval, u use) {
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
	if !s.Activity.Known || s.Activity.Value > idleActivity {
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

// merge adds the data of another pod of the same workload. The field devices is not added: it keeps the devices of the pod with the most
// GPUs.
func (u *podUse) merge(o *podUse) {
	if len(o.devices) > len(u.devices) {
		u.devices = o.devices
	}
	u.memoryMiB, u.peakMiB = max(u.memoryMiB, o.memoryMiB), max(u.peakMiB, o.peakMiB)
	u.peakActivity = max(u.peakActivity, o.peakActivity)
	u.gpuHours, u.dollars = u.gpuHours+o.gpuHours, u.dollars+o.dollars
	u.priced, u.shared, u.unknown = u.priced && o.priced, u.shared || o.shared, u.unknown || o.unknown || u.model != o.model
}

// Notebook is an interactive session that has a GPU but has not used it for a long time.
type Notebook struct {
	Owner     string    `json:"owner"` // name of the user in a label, or the namespace
	Namespace string    `json:"namespace"`
	Pod       string    `json:"pod"`
	Model     string    `json:"model"`
	GPUs      int       `json:"gpus"`
	IdleSince time.Time `json:"idleSince"`
	Hourly    float64   `json:"hourly"` // current cost in dollars per hour
	Cost      float64   `json:"cost"`   // cost in dollars since IdleSince
	Priced    bool      `json:"priced"` // false: the cost is unknown
}

// IdleNotebooks returns the notebooks that have a GPU in the last interval and have been idle for at least the given time. The notebook
// that has been idle for the longest time is first. In an interval without measurements, a notebook counts as busy.
func (l *Ledger) IdleNotebooks(idle time.Duration) (out []Notebook) {
	for k, u := range l.pods {
		if !u.pod.Notebook || !u.last.Equal(l.last) || l.last.Sub(u.busy) < idle {
			continue
		}
		out = append(out, Notebook{
			Owner: cmp.Or(u.pod.Owner, k.namespace), Namespace: k.namespace, Pod: k.name, Model: u.model, GPUs: len(u.devices),
			IdleSince: u.busy, Hourly: u.idleHourly, Cost: u.idle, Priced: u.idlePriced,
		})
	}
	slices.SortFunc(out, func(a, b Notebook) int {
		return cmp.Or(a.IdleSince.Compare(b.IdleSince), cmp.Compare(a.Namespace+"/"+a.Pod, b.Namespace+"/"+b.Pod))
	})
	return out
}
