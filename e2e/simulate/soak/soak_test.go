package main

import (
	"io"
	"strings"
	"testing"
	"time"
)

// TestNothingGrows runs an hour with 50 policies. It uses about 6 s of CPU time.
func TestNothingGrows(t *testing.T) {
	var text strings.Builder
	s := soak{policies: 50, warmUp: 10 * time.Minute, lasting: time.Hour, every: 5 * time.Minute, seed: 1, out: &text}
	for _, found := range s.run(t) {
		if !strings.HasPrefix(found, quantityNames[heap]) {
			t.Error(found) // the heap is ignored, because it grows with the history, which is not full within an hour
		}
	}
	if s.writes < 20 || s.history < 500 {
		t.Errorf("%d writes of NodePools and %d changes of targets: the load has too little effect", s.writes, s.history)
	}
	if t.Failed() {
		t.Log(text.String())
	}
}

func TestGrowthIsFound(t *testing.T) {
	var all []sample
	for i := range 10 {
		s := sample{at: time.Duration(i) * time.Minute}
		for q := range numQuantities {
			s.values[q] = 100
		}
		s.values[goroutines] += float64(i)
		all = append(all, s)
	}
	if found := growth(all); len(found) != 1 || !strings.HasPrefix(found[0], "goroutines: at most 104") {
		t.Errorf("%q", found)
	}
	all[9].print(io.Discard)
}
