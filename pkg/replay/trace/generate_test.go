package trace

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gpuscaler/gpuscaler/pkg/replay/reproducible"
)

// gaps returns the times between arrivals, in seconds.
func gaps(all []Request) []float64 {
	var out []float64
	for i := 1; i < len(all); i++ {
		out = append(out, (all[i].At - all[i-1].At).Seconds())
	}
	return out
}

func TestFlatTrafficHasTheRateAndTheCV(t *testing.T) {
	// Random seeds found this profile after 2,757 checks: the longest gap between its requests is 418 times the mean gap.
	checkFlat(t, Profile{Rate: 1, CV: 2.5, Seed: 0x2195499fbc, Family: reproducible.Weibull})
	rapid.Check(t, func(t *rapid.T) {
		cv := rapid.Float64Range(0.2, 2.5).Draw(t, "cv")
		checkFlat(t, Profile{Rate: rapid.Float64Range(0.5, 40).Draw(t, "rate"), CV: cv, Seed: rapid.Uint64().Draw(t, "seed"),
			Family: rapid.SampledFrom([]reproducible.Family{reproducible.Gamma, reproducible.Weibull}).Draw(t, "family")})
	})
}

// checkFlat generates a trace with 20,000 expected requests and checks their number and the CV of the gaps.
func checkFlat(t rapid.TB, p Profile) {
	t.Helper()
	p.Duration = time.Duration(20_000 / p.Rate * float64(time.Second))
	tr, err := Generate(p)
	if err != nil {
		t.Fatal(err)
	}
	all, err := tr.Collect(0)
	if err != nil {
		t.Fatal(err)
	}
	// The number of requests of a renewal process has a standard deviation of CV*sqrt(n). The test allows five standard deviations.
	if n := float64(len(all)); math.Abs(n-20_000) > 5*p.CV*math.Sqrt(20_000)+2 {
		t.Errorf("%v requests, want 20000", n)
	}
	// A single long gap can raise the CV of all gaps by half. The CV is therefore computed without the two longest gaps.
	g := gaps(all)
	slices.Sort(g)
	g = g[:len(g)-2]
	i := 0
	_, got := moments(len(g), func() float64 { i++; return g[i-1] })
	if math.Abs(got-p.CV) > 0.25*p.CV {
		t.Errorf("CV %.3f, want %.3f", got, p.CV)
	}
}

// perHour returns the rate in each hour, in requests/s.
func perHour(t *testing.T, tr *Trace) []float64 {
	t.Helper()
	var out []float64
	for _, n := range tr.Bins(time.Hour) {
		out = append(out, float64(n)/3600)
	}
	return out
}

func near(got, want, by float64) bool { return math.Abs(got-want) <= by }

func TestDayCurve(t *testing.T) {
	p := Profile{Rate: 10, Swing: 0.8, Peak: 14 * time.Hour, Duration: day, Seed: 1}
	hours := perHour(t, mustGenerate(t, p))
	if len(hours) != 24 {
		t.Fatalf("%d hours", len(hours))
	}
	mean := 0.0
	for _, r := range hours {
		mean += r / 24
	}
	if !near(mean, 10, 0.1) || !near(hours[13], 18, 0.5) || !near(hours[14], 18, 0.5) || !near(hours[1], 2, 0.3) || !near(hours[2], 2, 0.3) {
		t.Errorf("mean %.2f, hour by hour %.1f", mean, hours)
	}
	if slices.Max(hours) != max(hours[13], hours[14]) {
		t.Errorf("the peak is not at 14:00: %.1f", hours)
	}
}

// Idle hours and weekends are evaluated in the time zone of Profile.Start.
func TestIdleHoursAndWeekends(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	p, _ := Preset("office")
	p.Start, p.Swing, p.Rate, p.Seed = time.Date(2026, 1, 9, 18, 0, 0, 0, berlin), 0, 5, 2 // a Friday
	p.Duration = 48 * time.Hour
	hours := perHour(t, mustGenerate(t, p))
	for i, want := range map[int]float64{0: 5, 1: 5, 2: 0, 12: 0, 13: 0.5, 25: 0.5, 26: 0, 36: 0, 37: 0.5} {
		if !near(hours[i], want, 0.05+0.1*want) {
			t.Errorf("%d hours after Friday 18:00: %.2f requests/s, want %.2f", i, hours[i], want)
		}
	}
	s := Summarize(mustGenerate(t, p))
	if s.Over10m != 2 || !near(s.LongestGap.Hours(), 11, 0.1) {
		t.Errorf("%d gaps over 10 minutes, the longest %v; want two nights of 11 h", s.Over10m, s.LongestGap)
	}
}

func TestBurstsAndSpikes(t *testing.T) {
	p := Profile{Rate: 2, Duration: 20 * day, Seed: 3, Bursts: Bursts{Every: time.Hour, Length: 5 * time.Minute, Factor: 10}}
	s := Summarize(mustGenerate(t, p))
	if want := 2 * 60 * (60 + 10*5.0) / 65; !near(s.RPM.Mean, want, 0.05*want) {
		t.Errorf("mean %.1f req/min, want %.1f", s.RPM.Mean, want)
	}
	p = Profile{Rate: 2, Duration: 3 * time.Hour, Seed: 3, Spikes: Spikes{Every: time.Hour, Length: 5 * time.Minute, Factor: 10}}
	for i, n := range mustGenerate(t, p).Bins(time.Minute) {
		if spike := i%60 < 5; spike != (n > 600) {
			t.Errorf("minute %d has %d requests", i, n)
		}
	}
}

func TestGeneratorAgreesWithGenerate(t *testing.T) {
	for _, name := range PresetNames() {
		p, ok := Preset(name)
		if !ok {
			t.Fatalf("no preset %q", name)
		}
		p.Duration = 2 * time.Hour
		want := mustCollect(t, mustGenerate(t, p))
		p, err := p.withDefaults()
		if err != nil {
			t.Fatal(err)
		}
		g := newGenerator(p)
		until := func(all []Request, end time.Duration) []Request {
			for r, more := g.nextBefore(end); more; r, more = g.nextBefore(end) {
				all = append(all, r)
			}
			return all
		}
		var got []Request
		for now := time.Duration(0); now < p.Duration; now += 7777 * time.Millisecond {
			got = until(got, min(now, p.Duration))
			if n := len(got); n > 0 && got[n-1].At >= now {
				t.Fatalf("%s: an arrival at %v was returned before the time %v", name, got[n-1].At, now)
			}
		}
		got = until(got, p.Duration)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %d arrivals in parts, %d in the trace", name, len(got), len(want))
		}
		if more := until(nil, time.Minute); more != nil {
			t.Errorf("%s: %d arrivals were returned again for an earlier time", name, len(more))
		}
	}
}

// moments returns the mean and the coefficient of variation of n random numbers.
func moments(n int, draw func() float64) (mean, cv float64) {
	var sum, squares float64
	for range n {
		x := draw()
		sum += x
		squares += x * x
	}
	mean = sum / float64(n)
	return mean, math.Sqrt(squares/float64(n)-mean*mean) / mean
}

func TestTokenDistribution(t *testing.T) {
	s := reproducible.Numbered(4, "", 0)
	d := TokenDist{Mean: 500, Sigma: 1}
	mean, _ := moments(200_000, func() float64 { return float64(d.draw(&s)) })
	if !near(mean, 500, 10) {
		t.Errorf("mean %v, want 500", mean)
	}
	small := TokenDist{Mean: 1, Sigma: 3, Max: 50}
	for range 1000 {
		if n := small.draw(&s); n < 1 || n > 50 {
			t.Fatalf("%d tokens, want 1 to 50", n)
		}
	}
}

func TestInvalidProfileIsRejected(t *testing.T) {
	two := 2000.0
	for i, p := range []Profile{
		{}, {Rate: -1}, {Rate: math.NaN()}, {Rate: math.Inf(1)}, {Rate: 2e6}, {Rate: 1, CV: -1}, {Rate: 1, CV: math.NaN()},
		{Rate: 1, Family: "Pareto"},
		{Rate: 1, Swing: 1.1}, {Rate: 1, Peak: day}, {Rate: 1, Duration: -1}, {Rate: 1, Weekend: &two},
		{Rate: 1, Idle: []Hours{{0, day}}}, {Rate: 1, Idle: []Hours{{time.Hour, time.Hour}}}, {Rate: 1, Idle: []Hours{{-1, 2}}},
		{Rate: 1, Bursts: Bursts{Every: time.Hour}}, {Rate: 1, Spikes: Spikes{Every: time.Minute, Length: time.Hour, Factor: 2}},
		{Rate: 1, Tokens: &Tokens{}}, {Rate: 1},
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			_, err := Generate(p)
			refused(t, err, 0, "profile generated")
		})
	}
	if _, ok := Preset("none"); ok || !strings.Contains(strings.Join(PresetNames(), " "), "diurnal") {
		t.Error("Preset returns a profile for an unknown name, or PresetNames omits diurnal")
	}
}

func TestCollectIsLimited(t *testing.T) {
	tr := mustGenerate(t, Profile{Rate: 100, Duration: time.Hour})
	_, err := tr.Collect(1000)
	refused(t, err, 0, "more than 1000 requests")
	if _, err := tr.Drawn(1000); err == nil {
		t.Error("Drawn returns no error for more requests than allowed")
	}
}
