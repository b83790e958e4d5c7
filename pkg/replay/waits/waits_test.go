package waits

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestQuantilesOfWaitsAgreeWithSorting(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	w := Histogram{Limit: 10 * time.Second}
	var all []time.Duration
	late := int64(0)
	for range 50_000 {
		d := time.Duration(random.ExpFloat64() * random.ExpFloat64() * float64(20*time.Second)).Truncate(time.Microsecond)
		if random.IntN(3) == 0 {
			d = 0
		}
		all = append(all, d)
		w.Add(d)
		if d > w.Limit {
			late++
		}
	}
	slices.Sort(all)
	for _, q := range []float64{0, 0.25, 0.5, 0.9, 0.95, 0.99, 0.999, 1} {
		want := all[min(len(all)-1, max(0, int(q*float64(len(all))+0.999999)-1))]
		if got := w.Quantile(q); got > want || float64(want-got) > float64(want)/200 {
			t.Errorf("quantile %g is %s, by sorting %s", q, got, want)
		}
	}
	if w.Late != late || w.Max != all[len(all)-1] || w.Count != int64(len(all)) {
		t.Errorf("%d late, longest %s", w.Late, w.Max)
	}
}

func TestAWaitThatGrewIsCountedOnce(t *testing.T) {
	w := Histogram{Limit: 10 * time.Second}
	w.Add(time.Second)
	w.Add(2 * time.Second)
	w.Move(2*time.Second, 15*time.Second)
	if w.Count != 2 || w.Late != 1 || w.OnTime() != 0.5 || w.Mean() != 8*time.Second {
		t.Errorf("%d waits, %d late, mean %s", w.Count, w.Late, w.Mean())
	}
}

func TestCellsRiseAndHoldTheirFloor(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := rapid.SampledFrom([]int{coarse, grain}).Draw(t, "grain")
		us := rapid.Int64Range(0, 1<<60).Draw(t, "us")
		low := floorOf(cellOf(us, g), g)
		if low > us || us-low > us>>g {
			t.Fatalf("%d us lies in a cell from %d", us, low)
		}
		if cellOf(us+1, g) < cellOf(us, g) {
			t.Fatal("cells do not rise")
		}
	})
}

func TestASignalOnWaitsSeesItsWindowOnly(t *testing.T) {
	w := Window{Keep: time.Minute}
	for i := range 10 {
		for range 10 {
			w.Add(time.Duration(i) * time.Second)
		}
		w.Scrape(time.Duration(i+1) * 15 * time.Second)
	}
	if got, ok := w.Read(150*time.Second, time.Minute, 0); !ok || got != 7.5 {
		t.Errorf("the mean of the last minute is %g s, want the mean of 6, 7, 8 and 9", got)
	}
	if got, ok := w.Read(150*time.Second, time.Minute, 0.95); !ok || got < 8 || got > 9 {
		t.Errorf("its p95 is %g s", got)
	}
	if _, ok := w.Read(10*time.Minute, time.Minute, 0); ok {
		t.Error("a window without a request has a mean")
	}
	if len(w.rounds) > 5 {
		t.Errorf("%d rounds are kept for a minute", len(w.rounds))
	}
}
