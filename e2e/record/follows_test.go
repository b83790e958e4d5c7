package record

import (
	"slices"
	"testing"
	"time"
)

// course returns steps from pairs of numbers: a time in seconds, and the number of replicas from this time on.
func course(pairs ...float64) (s Steps) {
	for i := 0; i+1 < len(pairs); i += 2 {
		s = s.add(second(pairs[i]), int32(pairs[i+1]))
	}
	return s
}

func second(n float64) time.Time { return time.Unix(0, int64(n*float64(time.Second))) }

func TestFollowsChecksTargetsThatLast(t *testing.T) {
	lag := Lag{Sync: 2 * time.Second, Slack: time.Second}
	targets := course(0, 10, 10, 11, 12, 12, 20, 11) // the first target of 11 lasts less than two syncs
	for _, c := range []struct {
		name     string
		follower Steps
		fine     bool
	}{
		{"follows within a sync", course(1, 10, 13, 12, 22, 11), true},
		{"follows the short target too", course(1, 10, 11, 11, 13, 12, 22, 11), true},
		{"misses a step", course(1, 10, 22, 11), false},
		{"too late", course(1, 10, 16, 12, 22, 11), false},
		{"does not keep the target", course(1, 10, 6, 11, 7, 10, 13, 12, 22, 11), false},
		{"no replicas", nil, false},
	} {
		lasted, err := Follows(targets, c.follower, second(30), lag)
		if (err == nil) != c.fine {
			t.Errorf("%s: %v", c.name, err)
		}
		if c.fine && !slices.Equal(lasted, []int32{10, 12, 11}) {
			t.Errorf("%s: lasted %v", c.name, lasted)
		}
	}
}

func TestFallFindsADecreaseAndSinceDropsOlderSteps(t *testing.T) {
	s := course(0, 5, 10, 7, 20, 6)
	if f := s.Fall(); f == nil || f.N != 6 {
		t.Errorf("Fall returns %v", f)
	}
	if f := s.Since(second(25)).Fall(); f != nil {
		t.Errorf("Fall returns %v after the last step", f)
	}
	if got := s.Between(second(9), second(20)); !slices.Equal(got, []int32{5, 7, 6}) {
		t.Errorf("between them %v", got)
	}
	if got := s.Between(second(11), second(19)); !slices.Equal(got, []int32{7}) {
		t.Errorf("within one %v", got)
	}
	if got := s.Since(second(12)).Numbers(); !slices.Equal(got, []int32{7, 6}) {
		t.Errorf("since then %v", got)
	}
}
