package schedule

import (
	"slices"
	"testing"
)

// A run with thirty events fails because of two events: the load is high, and the leader is killed. Fewest must return these two events.
func TestFewestKeepsTheEventsThatAFailureNeeds(t *testing.T) {
	var events []Event
	for i := range 30 {
		events = append(events, Event{Second: i, Kind: LimitEdited})
	}
	events[7].Kind, events[23].Kind = LoadChanges, ReplicaKilled
	runs := 0
	got := Fewest(events, func(e []Event) bool {
		runs++
		load := slices.IndexFunc(e, func(e Event) bool { return e.Kind == LoadChanges })
		return load >= 0 && slices.ContainsFunc(e[load:], func(e Event) bool { return e.Kind == ReplicaKilled })
	})
	if len(got) != 2 || got[0] != events[7] || got[1] != events[23] {
		t.Errorf("kept %v", got)
	}
	if runs > 60 {
		t.Errorf("%d runs for 30 events, want at most two for each", runs)
	}
}
