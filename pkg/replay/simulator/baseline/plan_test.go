package baseline

import (
	"testing"
	"time"
)

func TestAPlanStartsReplicasAhead(t *testing.T) {
	const slot = 10 * time.Second
	got := PlanOf([]int32{2, 2, 0, 0, 0, 0, 3, 3, 1, 3}, slot, 25*time.Second)
	want := []Step{{0, 2}, {25 * time.Second, 0}, {35 * time.Second, 3}}
	if len(got) != len(want) {
		t.Fatalf("%v, want %v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("step %d is %v, want %v", i, got[i], want[i])
		}
	}
}
