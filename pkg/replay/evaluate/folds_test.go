package evaluate

import (
	"bytes"
	"context"
	"math"
	"strings"
	"testing"
	"time"
)

// The load doubles in each quarter of the traffic, and each fold reports another quarter. The cost of a fold must equal the cost of a run
// that reports this quarter, and the mean must be computed from the three folds.
func TestEachFoldReportsAnotherPart(t *testing.T) {
	c := small(t, func(c *Case) {
		c.Traffic, c.HeldOut, c.SLO.Share = traffic(t, part{10, 1}, part{10, 2}, part{10, 4}, part{10, 8}), 0.25, 0.9
	})
	f := Folds{Count: 3, Seeds: 1}
	got, err := f.Evaluate(context.Background(), []Case{c}, nil)
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for fold := range f.Count {
		part := f.part([]Case{c}, fold, 0)[0]
		if from, until := part.reportFrom(), part.Horizon(); (until-from)/time.Minute != 10 && (until-from).Round(time.Minute) != 10*time.Minute {
			t.Errorf("fold %d reports %v to %v, want 10 minutes", fold, from, until)
		}
		r, err := Workload(context.Background(), part, nil)
		if err != nil {
			t.Fatal(err)
		}
		sum += r.Runs[0].Cost
	}
	ours := got.Runs[0]
	if ours.Of != 3 || math.Abs(ours.Cost.Mean-sum/3) > 1e-9 || ours.Cost.Half == nil || *ours.Cost.Half <= 0 {
		t.Errorf("%+v, want a mean cost of %v with an interval", ours, sum/3)
	}
	var text bytes.Buffer
	if err := got.WriteText(&text); err != nil || !strings.Contains(text.String(), "of 3") || !strings.Contains(text.String(), "+-") {
		t.Errorf("%v\n%s", err, text.String())
	}
}

// Without folds, the interval is over the seeds. A seed changes the random parts of the simulation only, so the traffic is the same.
func TestSeedsWithoutFolds(t *testing.T) {
	c := small(t, func(c *Case) { c.ColdStart = 0 })
	got, err := Folds{Count: 1, Seeds: 2}.Evaluate(context.Background(), []Case{c}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if r := got.Runs[0]; r.Of != 2 || r.Cost.Half == nil || len(r.cost) != 2 {
		t.Errorf("%+v, want two seeds with an interval", r)
	}
}

func TestFoldsThatDoNotFitAreRejected(t *testing.T) {
	for want, f := range map[string]struct {
		Folds
		heldOut float64
	}{
		"0 folds and 1 seeds: use at least 1":         {Folds{0, 1}, 0.2},
		"1 folds and 0 seeds":                         {Folds{1, 0}, 0.2},
		"folds need a held-out share":                 {Folds{2, 1}, 0},
		"leave no train part: use a share below 0.25": {Folds{4, 1}, 0.25},
	} {
		c := small(t, func(c *Case) { c.HeldOut = f.heldOut })
		if _, err := f.Evaluate(context.Background(), []Case{c}, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}
