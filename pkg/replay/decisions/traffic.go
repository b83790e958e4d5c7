package decisions

import (
	"math"

	"github.com/gpuscaler/gpuscaler/pkg/replay/reproducible"
)

const (
	hour = 3600 / SlotSeconds
	day  = 24 * hour
)

// law describes from which random distribution traffic is drawn: the part of the rate that is known in advance, and the random part.
type law struct {
	name  string
	base  []float64                                             // work per second in each slot that is known in advance
	burst func(d *reproducible.Draws, base []float64) []float64 // draws the rates of one run from base; nil: the rates are base
	cv    float64                                               // coefficient of variation of the time between two arrivals
	fleet float64                                               // mean number of busy replicas
	// factor by which the capacity of a replica changes at a random time; 0: it does not change
	change   float64
	recorded []float64 // the work in each slot of a recorded trace; nil: the work is drawn
}

// family is a kind of traffic. make returns the law of the family with random parameters.
type family struct {
	name string
	make func(d *reproducible.Draws) law
}

func between(d *reproducible.Draws, low, high float64) float64 { return low + d.Uniform()*(high-low) }

// spread returns a random number between low and high whose logarithm is uniformly distributed.
func spread(d *reproducible.Draws, low, high float64) float64 {
	return low * math.Exp(d.Uniform()*math.Log(high/low))
}

func exponential(d *reproducible.Draws) float64 { return -math.Log(d.Uniform()) }

func constant(slots int, rate float64) []float64 {
	out := make([]float64, slots)
	for i := range out {
		out[i] = rate
	}
	return out
}

// daily returns the rates of a workload with one maximum a day.
func daily(slots int, rate, swing, peak float64) []float64 {
	out := make([]float64, slots)
	for i := range out {
		out[i] = rate * (1 + swing*math.Cos(2*math.Pi*(float64(i)/day-peak)))
	}
	return out
}

// onOff returns a function that draws bursts at random times. During a burst, the rate is multiplied by factor.
func onOff(every, length, factor float64) func(*reproducible.Draws, []float64) []float64 {
	return func(d *reproducible.Draws, base []float64) []float64 {
		out := append([]float64(nil), base...)
		for t := every * exponential(d); t < float64(len(base)); t += every * exponential(d) {
			end := t + length*(0.5+d.Uniform())
			for i := int(t); i < min(int(end), len(base)); i++ {
				out[i] = base[i] * factor
			}
			t = end
		}
		return out
	}
}

var developed = []family{
	{"flat", func(d *reproducible.Draws) law {
		return law{base: constant(6*hour, spread(d, 0.5, 20)), cv: between(d, 0.8, 1.5), fleet: spread(d, 1.5, 15)}
	}},
	{"diurnal", func(d *reproducible.Draws) law {
		return law{base: daily(3*day, spread(d, 0.5, 20), between(d, 0.4, 0.9), d.Uniform()), cv: between(d, 1, 1.5), fleet: spread(d, 1.5, 15)}
	}},
	{"weekly", func(d *reproducible.Draws) law {
		base := daily(9*day, spread(d, 0.5, 10), between(d, 0.5, 0.9), d.Uniform())
		for weekend, i := between(d, 0.05, 0.4), 0; i < len(base); i++ {
			if i/day%7 >= 5 {
				base[i] *= weekend
			}
		}
		return law{base: base, cv: between(d, 1, 1.5), fleet: spread(d, 1.5, 15)}
	}},
	{"bursty", func(d *reproducible.Draws) law {
		l := law{base: constant(10*hour, spread(d, 0.2, 5)), cv: between(d, 1, 1.5), fleet: spread(d, 1.5, 8)}
		l.burst = onOff(between(d, 0.3, 1)*hour, between(d, 0.03, 0.17)*hour, between(d, 4, 15))
		return l
	}},
	{"sparse", func(d *reproducible.Draws) law {
		// Requests arrive mainly in bursts: 70% of the minutes contain no request.
		l := law{base: constant(4*day, spread(d, 0.001, 0.004)), cv: between(d, 1, 2), fleet: spread(d, 0.02, 0.3)}
		l.burst = onOff(between(d, 0.1, 0.5)*hour, between(d, 0.02, 0.2)*hour, between(d, 3, 12))
		return l
	}},
	{"shift", func(d *reproducible.Draws) law {
		l := law{base: constant(10*hour, spread(d, 0.5, 10)), cv: between(d, 1, 1.5), fleet: spread(d, 1.5, 10)}
		every := between(d, 2, 5) * hour
		l.burst = func(d *reproducible.Draws, base []float64) []float64 {
			out, factor, next := append([]float64(nil), base...), 1.0, every*exponential(d)
			for i := range out {
				if float64(i) >= next {
					factor, next = spread(d, 0.4, 2.5), next+every*exponential(d)
				}
				out[i] *= factor
			}
			return out
		}
		return l
	}},
	{"flash", func(d *reproducible.Draws) law {
		l := law{base: daily(2*day, spread(d, 0.5, 10), between(d, 0, 0.5), d.Uniform()), cv: between(d, 1, 1.5), fleet: spread(d, 1.5, 10)}
		every, factor, decay := between(d, 5, 12)*hour, between(d, 2, 6), between(d, 0.1, 0.4)*hour
		l.burst = func(d *reproducible.Draws, base []float64) []float64 {
			out := append([]float64(nil), base...)
			for t := every * exponential(d); t < float64(len(base)); t += every * exponential(d) {
				for i := int(t); i < len(base); i++ {
					rise := math.Min(1, (float64(i)-t)/36) // the rate rises over three minutes (36 slots)
					out[i] += base[i] * factor * rise * math.Exp(-(float64(i)-t)/decay)
				}
			}
			return out
		}
		return l
	}},
	{"rollout", func(d *reproducible.Draws) law {
		return law{base: daily(2*day, spread(d, 0.5, 10), between(d, 0.2, 0.7), d.Uniform()), cv: between(d, 1, 1.5), fleet: spread(d, 2, 12),
			change: spread(d, 0.6, 1.7)}
	}},
}

// heldOut are the families that were not used while the policy was developed.
var heldOut = []family{
	{"office", func(d *reproducible.Draws) law {
		base := daily(7*day, spread(d, 0.5, 8), between(d, 0.3, 0.6), 0.55)
		weekend := between(d, 0, 0.2)
		for i := range base {
			if h := float64(i%day) / hour; h < 7 || h >= 20 {
				base[i] = 0
			}
			if i/day%7 >= 5 {
				base[i] *= weekend
			}
		}
		return law{base: base, cv: between(d, 1, 1.5), fleet: spread(d, 1, 10)}
	}},
	{"spikes", func(d *reproducible.Draws) law {
		base, factor, every := constant(day, spread(d, 0.5, 5)), between(d, 3, 8), int(between(d, 0.7, 1.5)*hour)
		for i := range base {
			if i%every < 60 {
				base[i] *= factor
			}
		}
		return law{base: base, cv: 1, fleet: spread(d, 1.5, 8)}
	}},
	{"busyday", func(d *reproducible.Draws) law {
		l := law{base: daily(2*day, spread(d, 0.5, 8), between(d, 0.3, 0.8), d.Uniform()), cv: between(d, 1, 2), fleet: spread(d, 1.5, 10)}
		l.burst = onOff(between(d, 0.5, 2)*hour, between(d, 0.05, 0.4)*hour, between(d, 1.5, 4))
		return l
	}},
	{"growth", func(d *reproducible.Draws) law {
		base, end := constant(day, spread(d, 0.5, 8)), between(d, 2, 5)
		for i := range base {
			base[i] *= 1 + (end-1)*float64(i)/float64(len(base))
		}
		return law{base: base, cv: between(d, 1, 1.5), fleet: spread(d, 1.5, 10)}
	}},
}

// newLaw returns the law (random distribution of the traffic) of a family for a seed.
func (f family) newLaw(seed uint64) law {
	l := f.make(reproducible.NewDraws(seed, "law "+f.name))
	l.name = f.name
	return l
}

// realize draws the traffic of one run from the law.
func (l law) realize(seed uint64) *run {
	d := reproducible.NewDraws(seed, "realization "+l.name)
	r := &run{base: l.base, rate: l.base, change: len(l.base), from: len(l.base) * 6 / 10}
	if l.burst != nil {
		r.rate = l.burst(d, l.base)
	}
	if r.work = l.recorded; r.work == nil {
		r.work = arrivals(d, r.rate, l.cv)
	}
	r.total, r.known = make([]float64, len(r.work)+1), make([]float64, len(r.work)+1)
	sum := 0.0
	for i, w := range r.work {
		r.total[i+1] = r.total[i] + w
		r.known[i+1] = r.known[i] + l.base[i]*SlotSeconds
		sum += l.base[i]
	}
	r.capacity = sum / float64(len(r.work)) * SlotSeconds / l.fleet
	r.changed = r.capacity
	if l.change > 0 {
		r.change, r.changed = int(between(d, 0.3, 0.85)*float64(len(r.work))), r.capacity*l.change
	}
	return r
}

// arrivals draws random arrivals with the given rates (a renewal process). The time between arrivals is exponential for cv 1 and lognormal
// otherwise.
func arrivals(d *reproducible.Draws, rate []float64, cv float64) []float64 {
	sigma := math.Sqrt(math.Log(1 + cv*cv))
	interval := func() float64 {
		if cv == 1 {
			return exponential(d)
		}
		return d.LogNormal(sigma) * math.Exp(-sigma*sigma/2)
	}
	out, left := make([]float64, len(rate)), interval()
	for i, r := range rate {
		for left -= r * SlotSeconds; left < 0; left += interval() {
			out[i]++
		}
	}
	return out
}
