package audit

import (
	"math"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/baseline"
)

// startAllowance is added to the cooldown of an autoscaler when needed replicas are computed. A replica that was requested for a past
// demand can become ready after the demand has ended, and the autoscaler removes it one cooldown later. startAllowance covers the time
// until the replica is ready.
const startAllowance = 10 * time.Minute

// account has the GPU time, the cost and the requests of one workload, summed over all steps of the audit.
type account struct {
	ledger   Ledger
	cost     float64 // cost in $ of the measured steps
	costOf   Ledger  // cost in $ by cause
	unpriced float64 // GPU hours whose price is unknown
	hours    float64 // hours in which the number of GPUs is known
	started  float64
	onTime   float64
	slo      bool // the waits of requests are known
}

// demand contains the GPUs, replicas and requests of one workload in one step.
type demand struct {
	held    float64 // GPUs of scheduled pods
	ready   float64 // ready replicas; NaN: unknown
	running float64 // running requests; NaN: unknown
	waiting float64
	active  float64 // number of GPUs times their mean activity; NaN: unknown
	desired float64 // replicas that the active schedules require
	recent  float64 // highest number of needed replicas in the last steps, which cover the cooldown plus startAllowance
}

// timeline returns the demand of the workload in each step.
func (s *Snapshot) timeline(w *Workload) []demand {
	out := make([]demand, s.Steps)
	windows := schedulesOf(w)
	for i := range out {
		d := &out[i]
		d.held = heldAt(w.Held, i)
		d.ready, d.running, d.waiting, d.active = w.Ready.at(i), w.Running.at(i), w.Waiting.at(i), w.Activity.at(i)
		if d.held == 0 { // without pods, no pod reports requests, so their numbers are 0 and not unknown
			d.ready, d.running, d.waiting, d.active = 0, 0, 0, 0
		}
		if math.IsNaN(d.waiting) {
			d.waiting = 0 // some servers do not report their queue, so the need is computed from the running requests alone
		}
		at := s.From.Add(time.Duration(i) * s.step())
		for _, c := range windows {
			if open, _ := c.Window.At(at); open {
				d.desired = max(d.desired, float64(c.Desired))
			}
		}
	}
	past := 1 + int((time.Duration(w.Autoscaler.Cooldown*float64(time.Second))+startAllowance)/s.step())
	setRecent(out, w, past)
	return out
}

// setRecent sets the field recent of each step to the highest need of this step and of the given number of previous steps. The list
// highest contains the steps whose need no later step reaches, so the needs in it decrease. Each step is added to the list and removed
// from it at most once.
func setRecent(all []demand, w *Workload, past int) {
	type need struct {
		step     int
		replicas float64
	}
	var highest []need
	for i := range all {
		now := need{i, all[i].need(w)}
		for len(highest) > 0 && highest[len(highest)-1].replicas <= now.replicas {
			highest = highest[:len(highest)-1]
		}
		if highest = append(highest, now); highest[0].step < i-past {
			highest = highest[1:]
		}
		all[i].recent = highest[0].replicas
	}
}

// need returns the number of replicas that the running and waiting requests of the step need. If the requests are unknown, it is computed
// from the GPU activity. If both are unknown, it is 0.
func (d *demand) need(w *Workload) float64 {
	if !math.IsNaN(d.running) && w.Slots > 0 {
		return math.Ceil((d.running+d.waiting)/w.Slots - 1e-9)
	}
	if !math.IsNaN(d.active) && w.GPUs > 0 {
		return math.Ceil(d.active/float64(w.GPUs) - 1e-9)
	}
	return 0
}

// heldAt returns the number of GPUs that a workload holds in all pools in step i. The result is NaN if the number in any pool is unknown.
func heldAt(parts []Held, i int) float64 {
	if len(parts) == 0 {
		return math.NaN()
	}
	sum := 0.0
	for k := range parts {
		sum += parts[k].GPUs.at(i)
	}
	return sum
}

func schedulesOf(w *Workload) (out []baseline.CronTrigger) {
	for _, c := range w.Autoscaler.Schedules {
		t, err := baseline.NewCron(c.Timezone, c.Start, c.End, int32(min(max(c.Replicas, 0), 1e6)))
		if err == nil { // an invalid schedule is skipped here, and the method gaps reports it
			out = append(out, t)
		}
	}
	return out
}

// split divides the GPUs of one step among the causes.
func (d *demand) split(w *Workload) (out Ledger) {
	per := float64(max(1, w.GPUs))
	busy := d.active
	if !math.IsNaN(d.running) && w.Slots > 0 {
		busy = d.running / w.Slots * per
	}
	if d.ready == 0 {
		busy = 0 // a model server exports its first sample when it is ready
	}
	if math.IsNaN(busy) || math.IsNaN(d.ready) {
		out[NotMeasured] = d.held
		return out
	}
	ready := min(d.ready*per, d.held)
	out[Served] = min(busy, ready)
	out[Start] = d.held - ready
	idle := ready - out[Served]
	above := 0.0 // number of GPUs assigned to a cause so far, beginning with the first replica
	layer := func(c Cause, replicas float64) {
		to := min(max(replicas*per, above), ready)
		part := min(idle, to-above)
		if above < out[Served] { // the first GPUs already count as served, so only the other GPUs are idle
			part = min(idle, max(0, to-max(above, out[Served])))
		}
		out[c] += part
		idle -= part
		above = to
	}
	layer(Headroom, d.need(w))
	layer(Floor, float64(w.Autoscaler.Min))
	layer(Schedules, d.desired)
	layer(Cooldown, d.recent)
	layer(WrongMetric, math.Inf(1))
	return out
}

// account adds up the GPU time, the cost and the requests of one workload over all steps.
func (s *Snapshot) account(w *Workload) (out account) {
	step := s.Step / 3600
	times := s.timeline(w)
	for i := range times {
		d := &times[i]
		if a, b := w.Started.at(i), w.OnTime.at(i); !math.IsNaN(a) && !math.IsNaN(b) {
			out.started += a
			out.onTime += min(a, b)
			out.slo = true
		}
		if math.IsNaN(d.held) {
			continue
		}
		out.hours += step
		split := d.split(w).scaled(step)
		out.ledger.add(&split)
		price, priced := s.price(w, i, d.held)
		if !priced {
			out.unpriced += d.held * step
			continue
		}
		cost := split.scaled(price)
		out.costOf.add(&cost)
		out.cost += d.held * step * price
	}
	return out
}

// price returns the mean price in $ per hour of the GPUs that a workload holds in step i. priced is false if the price of at least one of
// these GPUs is unknown.
func (s *Snapshot) price(w *Workload, i int, held float64) (mean float64, priced bool) {
	if held == 0 {
		return 0, true
	}
	for k := range w.Held {
		gpus := w.Held[k].GPUs.at(i)
		if gpus == 0 {
			continue
		}
		p := s.pool(w.Held[k].Pool)
		if p == nil || p.PriceFrom == "" {
			return 0, false
		}
		mean += gpus / held * p.Hourly
	}
	return mean, true
}

// peak returns the highest number of replicas that the requests of any step needed.
func peak(times []demand, w *Workload) (most float64) {
	for i := range times {
		most = max(most, times[i].need(w))
	}
	return most
}
