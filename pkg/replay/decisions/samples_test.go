package decisions

import (
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/scaling/objective"
)

// The load rises from 1 to 5 per second after two minutes. A rate over a minute reaches 5 a minute later, and the scrape is read 10 s after
// that. Until a minute has passed, no rate is known. The queue is the queue at the scrape, and not a mean.
func TestSamplesAreMeansOfTheLastMinute(t *testing.T) {
	var s samples
	for slot := range 60 {
		v := view{t: slot, arrived: SlotSeconds, served: SlotSeconds, queue: float64(slot)}
		if slot > 24 {
			v.arrived = 5 * SlotSeconds
		}
		now := epoch.Add(time.Duration(slot) * SlotSeconds * time.Second)
		arrivals, served, queued := s.read(&v, now)
		if want := slot >= rateSlots+lagSlots; arrivals.Known != want || served.Known != want || queued.Known != want {
			t.Fatalf("slot %d: known %v %v %v, want %v", slot, arrivals.Known, served.Known, queued.Known, want)
		}
		if !arrivals.Known {
			continue
		}
		if age := now.Sub(arrivals.At); age < 10*time.Second || age > 20*time.Second || arrivals.At != queued.At {
			t.Errorf("slot %d: the sample is %s old, want 10 to 20 s", slot, age)
		}
		if want := float64(queued.At.Sub(epoch) / (SlotSeconds * time.Second)); queued.V != want || served.V != 1 {
			t.Errorf("slot %d: queue %v and %v served per second, want %v and 1", slot, queued.V, served.V, want)
		}
		least, most := 1.0, 1.0 // after the rise, the rate increases within a minute
		switch {
		case slot >= 24+rateSlots+scrapeSlots+lagSlots:
			least, most = 5, 5
		case slot > 24:
			most = 5
		}
		if arrivals.V < least-1e-9 || arrivals.V > most+1e-9 {
			t.Errorf("slot %d: %v arrivals per second, want %v to %v", slot, arrivals.V, least, most)
		}
	}
}

// A policy that reads samples must decide from older values than a policy that reads exact ones, so the results differ.
func TestSampledEvidenceChangesTheDecisions(t *testing.T) {
	f := developed[0]
	r := f.newLaw(1).realize(1)
	s := newSetup(r, time.Minute, 10*time.Second)
	exact, sampled := newLearned(r, s, 99, objective.DefaultTuning()), newLearned(r, s, 99, objective.DefaultTuning())
	sampled.sampled = true
	if a, b := simulate(r, s, exact), simulate(r, s, sampled); a == b || b.Work != a.Work {
		t.Errorf("exact %+v, sampled %+v", a, b)
	}
}
