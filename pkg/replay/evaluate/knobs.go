package evaluate

import (
	"context"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/replay/search"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// Knob is a parameter of a policy that a search may change.
type Knob struct {
	Name  string
	Path  []string // path of the parameter below spec in the policy document; a number is an index in a list
	Value float64  // current value in the policy
	Tries []float64
	Whole bool                   // only whole numbers are valid
	Write func(v float64) string // formats a value for the policy document
	set   func(*scaling.Policy, float64)
}

// Knobs returns the parameters of a policy: the target and the forecast of each signal, the windows and tolerances of scale-up and
// scale-down, the panic threshold, and the cooldown before a scale to zero. Bounds, schedules and formulas are not searched, because they
// express requirements of the user that a trace does not show.
func Knobs(c *policy.Compiled) (out []Knob) {
	p := c.Workload.Policy
	for i := range p.Signals {
		out = append(out, targetKnob(p, i))
		if p.Signals[i].Forecast.Window > 0 {
			out = append(out, forecastKnobs(p, i)...)
		}
	}
	seconds := func(v float64) string { return strconv.Itoa(int(math.Round(v))) }
	window := func(name, side string, now time.Duration, tries []float64, set func(*scaling.Policy, time.Duration)) Knob {
		return Knob{Name: name, Path: []string{"behavior", side, "stabilizationWindowSeconds"}, Value: now.Seconds(),
			Tries: tries, Whole: true, Write: seconds,
			set: func(p *scaling.Policy, v float64) { set(p, time.Duration(math.Round(v))*time.Second) }}
	}
	out = append(out,
		window("scaleDown window, s", "scaleDown", p.ScaleDown.StabilizationWindow, []float64{1800, 900, 600, 300, 180, 120, 60, 30, 0},
			func(p *scaling.Policy, d time.Duration) { p.ScaleDown.StabilizationWindow = d }),
		window("scaleUp window, s", "scaleUp", p.ScaleUp.StabilizationWindow, []float64{0, 15, 30, 45, 60, 90},
			func(p *scaling.Policy, d time.Duration) { p.ScaleUp.StabilizationWindow = d }),
		toleranceKnob("scaleUp", p.ScaleUp.Tolerance, func(p *scaling.Policy, v float64) { p.ScaleUp.Tolerance = v }),
		toleranceKnob("scaleDown", p.ScaleDown.Tolerance, func(p *scaling.Policy, v float64) { p.ScaleDown.Tolerance = v }))
	if p.Panic.Threshold > 0 {
		out = append(out, Knob{Name: "panic threshold", Path: []string{"behavior", "panic", "threshold"}, Value: p.Panic.Threshold,
			Tries: []float64{1.25, 1.5, 1.75, 2, 3}, Write: func(v float64) string { return seconds(v*100) + "%" },
			set: func(p *scaling.Policy, v float64) { p.Panic.Threshold = v }})
	}
	if p.MinReplicas == 0 {
		out = append(out, Knob{Name: "cooldownPeriod, s", Path: []string{"cooldownPeriod"}, Value: p.CooldownPeriod.Seconds(),
			Tries: []float64{28800, 14400, 7200, 3600, 1800, 900, 600, 300, 120, 60}, Whole: true,
			Write: func(v float64) string { return seconds(v) + "s" },
			set:   func(p *scaling.Policy, v float64) { p.CooldownPeriod = time.Duration(math.Round(v)) * time.Second }})
	}
	return out
}

func toleranceKnob(side string, now float64, set func(*scaling.Policy, float64)) Knob {
	return Knob{Name: side + " tolerance", Path: []string{"behavior", side, "tolerance"}, Value: now,
		Tries: []float64{0, 0.05, 0.1, 0.15, 0.2, 0.3}, Write: number, set: set}
}

// targetKnob returns the knob for the target of signal i. Its Tries are 0.25 to 3 times the current target; for a percentage, at most 100%.
func targetKnob(p *scaling.Policy, i int) Knob {
	s := &p.Signals[i]
	k := Knob{Name: s.Name + " target", Path: []string{"signals", strconv.Itoa(i), "target"}, Value: s.Target,
		set: func(p *scaling.Policy, v float64) { p.Signals[i].Target = v }}
	for _, by := range []float64{0.25, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.1, 1.2, 1.3, 1.5, 2, 3} {
		if v := search.ThreeDigits(s.Target * by); s.Unit != scaling.Percent || v <= 1 {
			k.Tries = append(k.Tries, v)
		}
	}
	k.Tries = slices.Compact(k.Tries)
	k.Write = func(v float64) string {
		switch s.Unit {
		case scaling.Percent:
			return strconv.FormatFloat(math.Round(v*1e8)/1e6, 'f', -1, 64) + "%"
		case scaling.Seconds:
			return time.Duration(math.Round(v * float64(time.Second))).String()
		}
		return number(v)
	}
	return k
}

// forecastKnobs returns the knobs for two fields of the forecast of signal i: deviations (how many typical deviations above the mean the
// forecast covers) and window (for how long a rise of demand has an effect).
func forecastKnobs(p *scaling.Policy, i int) []Knob {
	s := &p.Signals[i]
	path := func(field string) []string { return []string{"signals", strconv.Itoa(i), "forecast", field} }
	return []Knob{
		{Name: s.Name + " deviations", Path: path("deviations"), Value: s.Forecast.Deviations,
			Tries: []float64{4, 3, 2.5, 2.25, 2, 1.75, 1.5, 1.25, 1.1, 1, 0.9, 0.75, 0.5}, Write: number,
			set: func(p *scaling.Policy, v float64) { p.Signals[i].Forecast.Deviations = v }},
		{Name: s.Name + " forecast, s", Path: path("window"), Value: s.Forecast.Window.Seconds(),
			Tries: []float64{3600, 1800, 900, 600, 450, 300, 225, 150, 90}, Whole: true,
			Write: func(v float64) string { return number(v) + "s" },
			set: func(p *scaling.Policy, v float64) {
				p.Signals[i].Forecast.Window = time.Duration(math.Round(v)) * time.Second
			}},
	}
}

// With returns a copy of the policy with its knobs at the given settings.
func With(c *policy.Compiled, knobs []Knob, settings []float64) *policy.Compiled {
	out := *c
	p := *c.Workload.Policy
	p.Signals = slices.Clone(p.Signals)
	for i := range knobs {
		knobs[i].set(&p, settings[i])
	}
	out.Workload.Policy = &p
	return &out
}

// Values returns the current values of the knobs.
func Values(knobs []Knob) []float64 {
	out := make([]float64, len(knobs))
	for i := range knobs {
		out[i] = knobs[i].Value
	}
	return out
}

// Generous returns the settings that request the most replicas. A search for a policy that misses the SLO can start there.
func Generous(knobs []Knob) []float64 {
	out := make([]float64, len(knobs))
	for i := range knobs {
		out[i] = knobs[i].Tries[0]
	}
	return out
}

// SearchPolicy returns a search for the best values of the policy's knobs on the traffic of the case. The caller starts it with Climb.
func (c *Case) SearchPolicy(knobs []Knob) *search.Search[Run] {
	withoutSeries := c.withoutSeries()
	s := &search.Search[Run]{Share: c.SLO.Share, Play: func(ctx context.Context, settings []float64) (Run, error) {
		other := *withoutSeries
		other.Policy = With(c.Policy, knobs, settings)
		return other.alone().run(ctx, actuatorFactories{nil}, nil)
	}}
	for i := range knobs {
		s.Tries, s.Whole = append(s.Tries, knobs[i].Tries), append(s.Whole, knobs[i].Whole)
	}
	return s
}
