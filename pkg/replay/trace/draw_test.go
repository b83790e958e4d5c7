package trace

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/reproducible"
)

// The expected number of arrivals is the same in each tenth of a window, including the first and the last one.
func TestRateAtTheBordersOfAWindow(t *testing.T) {
	for _, family := range []reproducible.Family{reproducible.Gamma, reproducible.Weibull} {
		a := arrivals{client: &Client{Name: string(family)}, drawing: Drawing{Seed: 2}}
		var tenths [10]int
		const windows, each = 4000, 25
		for i := range windows {
			a.window = ClientWindow{At: time.Duration(i), Length: 1000 * time.Second, Requests: each, CV: 3, Family: family}
			a.fill()
			if len(a.times) != each || !slices.IsSorted(a.times) || a.times[each-1] > a.total {
				t.Fatalf("window %d: %d arrivals, sorted %v", i, len(a.times), slices.IsSorted(a.times))
			}
			for _, x := range a.times {
				tenths[min(int(10*x/a.total), 9)]++
			}
		}
		for i, n := range tenths {
			if got := float64(n) / (windows * each / 10); math.Abs(got-1) > 0.05 {
				t.Errorf("%s: tenth %d of the window has %.3f of its share", family, i, got)
			}
		}
	}
}

func TestFractionalCountIsCorrectOnAverage(t *testing.T) {
	s := reproducible.Numbered(1, "", 0)
	mean, _ := moments(100_000, func() float64 { return float64(wholeCount(2.3, &s)) })
	if math.Abs(mean-2.3) > 0.01 {
		t.Errorf("mean %v, want 2.3", mean)
	}
}

// The test compares hashes of generated traffic with fixed values. They must be the same on amd64 and on arm64, where the compiler may fuse
// multiplications and additions, so that a seed gives the same traffic on every machine. If these values change, the result of every replay
// with a seed changes.
func TestSeedsAreReproducible(t *testing.T) {
	const window = 10 * time.Minute
	windows := []ClientWindow{{Requests: 798, CV: 8.6, Family: reproducible.Weibull}, {Requests: 1620, CV: 1.2, Family: reproducible.Gamma},
		{Requests: 186, CV: 0.4, Family: reproducible.Weibull}, {Requests: 462, CV: 1, Family: reproducible.Gamma},
		{Requests: 606, CV: 40, Family: reproducible.Gamma}, {Requests: 300, CV: 0.2, Family: reproducible.Gamma}}
	for i := range windows {
		windows[i].At, windows[i].Length = time.Duration(i)*window, window
	}
	tokens := &Tokens{Input: TokenDist{Mean: 1000, Sigma: 1.2}, Output: TokenDist{Mean: 200, Sigma: 0.7, Max: 2000}}
	rates := NewRates(Header{Duration: time.Duration(len(windows)) * window}, []Client{{Windows: windows}}, Drawing{Seed: 42, Tokens: tokens})
	got := map[string]string{"rates": fingerprint(rates)}
	for _, name := range PresetNames() {
		p, _ := Preset(name)
		p.Seed, p.Duration = 42, min(p.Duration, 30*time.Hour)
		got[name] = fingerprint(mustGenerate(t, p))
	}
	weibull, _ := Preset("diurnal")
	weibull.Family, weibull.CV = reproducible.Weibull, 2.5
	got["weibull"] = fingerprint(mustGenerate(t, weibull))
	want := map[string]string{
		"rates":   "a9e1104538facaae",
		"flat":    "7b52e0885ea4096d",
		"diurnal": "c41554154a504a35",
		"office":  "84b27fa1b4b8411c",
		"bursty":  "1b3a1652c9ce08d1",
		"nights":  "8bd1963dc9573ac5",
		"spikes":  "c3ff4a7ac2753e1a",
		"weibull": "3249c59b73243f8b",
	}
	for name, print := range got {
		if want[name] != print {
			t.Errorf("%q: %q,", name, print)
		}
	}
}
