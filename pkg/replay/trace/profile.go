package trace

import (
	"math"
	"slices"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/reproducible"
)

// Profile describes generated traffic. The rate at a time is 0 in idle hours, and otherwise
//
//	Rate x day curve x weekend x bursts x spikes
//
// The time between arrivals is drawn in units of the current mean time between arrivals, so its CV does not change with the rate.
type Profile struct {
	Name     string
	Start    time.Time     // start of the trace, whose time zone applies to the day curve; zero means a Monday at midnight
	Duration time.Duration // length of the trace that Generate returns
	Seed     uint64

	Rate   float64             // requests/s: the mean of a weekday without bursts, spikes and idle hours
	CV     float64             // coefficient of variation of the time between arrivals; 0 means 1 (Poisson)
	Family reproducible.Family // distribution of the time between arrivals; "" means Gamma
	// 0..1: the rate varies during the day between Rate*(1-Swing), twelve hours from the peak, and Rate*(1+Swing) at the peak
	Swing   float64
	Peak    time.Duration
	Weekend *float64 // factor on Saturday and Sunday; nil means 1
	Idle    []Hours  // daily periods without traffic
	Bursts  Bursts
	Spikes  Spikes

	Tokens *Tokens // distributions of the token counts; nil: the counts are unknown
}

// Hours is a daily time span. From and To are 0 to 24 h after midnight. If To <= From, the span ends on the next day.
type Hours struct{ From, To time.Duration }

func (h Hours) holds(clock time.Duration) bool {
	if h.From < h.To {
		return h.From <= clock && clock < h.To
	}
	return clock >= h.From || clock < h.To
}

// Bursts are periods at random times in which the rate is multiplied by Factor. The time from the end of one burst to the start of the
// next is exponentially distributed with the mean Every.
type Bursts struct {
	Every, Length time.Duration // Every 0: there are no bursts
	Factor        float64       // factor on the rate
}

// Spikes are periods at fixed times in which the rate is multiplied by a factor. The first begins at the start of the trace. The others
// follow at intervals of Every.
type Spikes struct {
	Every, Length time.Duration // Every 0: there are no spikes
	Factor        float64
}

const day = 24 * time.Hour

// Preset returns a profile by name, or false. Callers usually change Rate, Duration, Seed and Start.
func Preset(name string) (Profile, bool) {
	i := slices.IndexFunc(presets, func(p Profile) bool { return p.Name == name })
	if i < 0 {
		return Profile{}, false
	}
	return presets[i], true
}

// PresetNames returns the names of the presets.
func PresetNames() []string {
	names := make([]string, len(presets))
	for i, p := range presets {
		names[i] = p.Name
	}
	return names
}

// chatTokens has the mean token counts of the Azure conversation trace of 2023: 1155 input and 211 output tokens.
var chatTokens = &Tokens{Input: TokenDist{Mean: 1155, Sigma: 1}, Output: TokenDist{Mean: 211, Sigma: 0.8}}

var tenth = 0.1

var presets = []Profile{
	{Name: "flat", Duration: time.Hour, Rate: 5, Tokens: chatTokens},
	{Name: "diurnal", Duration: day, Rate: 2, Swing: 0.8, Peak: 14 * time.Hour, CV: 1.2, Tokens: chatTokens},
	{Name: "office", Duration: 7 * day, Rate: 2, Swing: 0.6, Peak: 13 * time.Hour, CV: 1.2, Tokens: chatTokens,
		Weekend: &tenth, Idle: []Hours{{20 * time.Hour, 7 * time.Hour}}},
	{Name: "bursty", Duration: day, Rate: 0.5, CV: 2, Tokens: chatTokens,
		Bursts: Bursts{Every: 45 * time.Minute, Length: 3 * time.Minute, Factor: 12}},
	{Name: "nights", Duration: day, Rate: 2, Swing: 0.5, Peak: 15 * time.Hour, CV: 1.2, Tokens: chatTokens,
		Idle: []Hours{{22 * time.Hour, 6 * time.Hour}}},
	{Name: "spikes", Duration: 6 * time.Hour, Rate: 1, Tokens: chatTokens,
		Spikes: Spikes{Every: time.Hour, Length: 5 * time.Minute, Factor: 8}},
}

func (p Profile) withDefaults() (Profile, error) {
	if p.CV == 0 {
		p.CV = 1
	}
	if p.Family == "" {
		p.Family = reproducible.Gamma
	}
	if p.Name == "" {
		p.Name = "generated"
	}
	if allowed := p.wrong(); allowed != "" {
		return p, &Error{File: "profile " + p.Name, Found: "a value out of range", Allowed: allowed}
	}
	return p, nil
}

func (p Profile) wrong() string {
	switch {
	case !(p.Rate > 0 && p.Rate <= MaxRate):
		return "rate above 0, to 1e6 requests/s"
	case !(p.CV >= reproducible.MinCV && p.CV <= reproducible.MaxCV) || !p.Family.Known():
		return "cv 0.001 to 1000, family Gamma or Weibull"
	case !(p.Swing >= 0 && p.Swing <= 1) || p.Peak < 0 || p.Peak >= day:
		return "swing 0 to 1, peak from 0 to below 24h"
	case p.Duration < 0 || p.Duration > MaxDuration:
		return "duration 0 to 400 days"
	case p.Weekend != nil && !(*p.Weekend >= 0 && *p.Weekend <= 1000):
		return "weekend factor 0 to 1000"
	case !p.Bursts.valid() || !Bursts(p.Spikes).valid() || p.Spikes.Length > p.Spikes.Every:
		return "bursts and spikes with every 0 or from 1s, length from 1s (of a spike at most every), factor 0 to 1000"
	case !p.validIdle():
		return "idle hours within 0 to 24h that leave some of the day"
	}
	if !p.Tokens.Valid() {
		return AllowedTokens
	}
	return ""
}

func (b Bursts) valid() bool {
	if b.Every == 0 {
		return true
	}
	within := func(d time.Duration) bool { return d >= time.Second && d <= MaxDuration }
	return within(b.Every) && within(b.Length) && b.Factor >= 0 && b.Factor <= 1000
}

// validIdle reports whether the idle hours are within a day and do not cover it completely. With a fully idle day, a generator would never
// reach the next arrival.
func (p Profile) validIdle() bool {
	for _, h := range p.Idle {
		if h.From < 0 || h.From > day || h.To < 0 || h.To > day {
			return false
		}
	}
	for clock := time.Duration(0); clock < day; clock += time.Minute {
		if !p.idle(clock) {
			return true
		}
	}
	return false
}

func (p Profile) idle(clock time.Duration) bool {
	return slices.ContainsFunc(p.Idle, func(h Hours) bool { return h.holds(clock) })
}

// baseRate returns the rate at a time, in requests/s. It includes spikes and idle hours, but not bursts.
func (p Profile) baseRate(at time.Duration) float64 {
	clock, weekday := p.clock(at)
	if p.idle(clock) {
		return 0
	}
	rate := reproducible.Mul(p.Rate, 1+reproducible.Mul(p.Swing, dayCurve(clock-p.Peak)))
	if weekday >= 5 && p.Weekend != nil {
		rate = reproducible.Mul(rate, *p.Weekend)
	}
	if s := p.Spikes; s.Every > 0 && at%s.Every < s.Length {
		rate = reproducible.Mul(rate, s.Factor)
	}
	return rate
}

// clock returns the time of day and the day of the week (Monday is 0) at a time since the start. It uses the UTC offset of Start for the
// whole trace, so every generated day has 24 hours, even when daylight saving time begins or ends.
func (p Profile) clock(at time.Duration) (time.Duration, int) {
	weekday := 0
	if !p.Start.IsZero() {
		at += time.Duration(p.Start.Hour())*time.Hour + time.Duration(p.Start.Minute())*time.Minute + time.Duration(p.Start.Second())*time.Second
		weekday = (int(p.Start.Weekday()) + 6) % 7
	}
	return at % day, (weekday + int(at/day)) % 7
}

// dayCurve returns the daily variation of the rate at a time relative to the peak: 1 at the peak, -1 half a day before and after the peak.
// The mean of a day is 0. The curve differs from a cosine by at most 0.02. It uses only sums and products, so that the result is the same
// on every machine.
func dayCurve(fromPeak time.Duration) float64 {
	away := fromPeak % day
	if away < 0 {
		away += day
	}
	x := math.Abs(float64(away)/float64(day/2) - 1) // 1 at the peak, 0 half a day away
	return reproducible.Mul(reproducible.Mul(x, x), 6-reproducible.Mul(4, x)) - 1
}
