package evaluate

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/baseline"
	"github.com/gpuscaler/gpuscaler/pkg/replay/tracefile"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// Knob.Write writes a value into the policy document. For every knob and every position in its list of values (Tries), the written text
// must parse to the same value, even for small targets.
func TestWrittenValueEqualsTheSimulatedValue(t *testing.T) {
	p := &scaling.Policy{MaxReplicas: 9, Panic: scaling.Panic{Threshold: 2}, CooldownPeriod: 5 * time.Minute, Signals: []scaling.Signal{
		{Name: "wait", Unit: scaling.Seconds, Target: 0.001, Forecast: scaling.Forecast{Window: time.Minute, Deviations: 2}},
		{Name: "busy", Unit: scaling.Percent, Target: 0.0123}, {Name: "running", Target: 0.4}}}
	knobs := Knobs(&policy.Compiled{Workload: scaling.Workload{Policy: p}})
	s := (&Case{Policy: &policy.Compiled{Workload: scaling.Workload{Policy: p}}}).SearchPolicy(knobs)
	rapid.Check(t, func(t *rapid.T) {
		places := make([]float64, len(knobs))
		for k := range knobs {
			places[k] = rapid.Float64Range(0, float64(len(knobs[k].Tries)-1)).Draw(t, knobs[k].Name)
		}
		for k, v := range s.At(places) {
			text := knobs[k].Write(v)
			written, err := strconv.ParseFloat(strings.TrimSuffix(text, "%"), 64)
			switch {
			case strings.HasSuffix(text, "%"):
				written /= 100
			case strings.HasSuffix(text, "s"):
				var d time.Duration
				d, err = time.ParseDuration(text)
				written = d.Seconds()
			}
			if err != nil || math.Abs(written-v) > 1e-9*v || v == 0 && written != 0 {
				t.Fatalf("%s: %v is written %q, %v", knobs[k].Name, v, text, err)
			}
		}
	})
}

// Groups of 20 requests arrive every 2.5 hours, and 5% of all requests may be late. A cold start makes all requests of a group late, so the
// cooldown must be longer than 2.5 hours. A search that tries cooldowns of at most an hour finds no settings that meet the SLO.
func TestSearchFindsACooldownOfHours(t *testing.T) {
	text := &strings.Builder{}
	text.WriteString("ts,service_seconds\n")
	for wave := range 3 {
		for i := range 20 {
			fmt.Fprintf(text, "%d,1\n", 9000*wave+3*i)
		}
	}
	tr, err := tracefile.Read("waves.csv", strings.NewReader(text.String()), tracefile.Options{Duration: 510 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	c := small(t, func(c *Case) {
		c.Traffic, c.Initial = tr, 1
		c.Policy = chat(func(p *scaling.Policy) { p.MinReplicas, p.CooldownPeriod = 0, 10*time.Minute })
	})
	all := Knobs(c.Policy)
	knobs := slices.DeleteFunc(slices.Clone(all), func(k Knob) bool { return k.Name != "cooldownPeriod, s" })
	best, err := c.SearchPolicy(knobs).Climb(context.Background(), Values(knobs))
	if err != nil {
		t.Fatal(err)
	}
	if cooldown := best.Settings[0]; !best.Run.MeetsSLO || !(cooldown >= 9000-120 && cooldown <= 12000) {
		t.Errorf("a cooldown of %v s, %.1f%% on time; want about the gap of 9000 s", cooldown, 100*best.Run.OnTime)
	}
	for _, b := range baseline.All() {
		for _, k := range b.Knobs {
			if k.Name == "cooldownPeriod, s" && k.Tries[0] < 4*3600 {
				t.Errorf("%s tries a cooldown of at most %v s", b.Name, k.Tries[0])
			}
		}
	}
}
