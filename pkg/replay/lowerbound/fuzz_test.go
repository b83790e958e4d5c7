package lowerbound

import (
	"testing"
)

// FuzzSolve checks arbitrary problems: each is rejected, infeasible, or has an interval whose schedule has the stated cost.
func FuzzSolve(f *testing.F) {
	f.Add([]byte{3, 0, 9, 4}, uint8(2), uint8(3), uint8(1), 2.5, uint8(1), uint8(0), 0.1, uint8(0))
	f.Add([]byte{0, 0, 200, 200, 0}, uint8(16), uint8(9), uint8(9), 30.0, uint8(0), uint8(2), 0.01, uint8(3))
	f.Fuzz(func(t *testing.T, arrivals []byte, units, most, warm uint8, start float64, wait, boot uint8, share float64, flags uint8) {
		if len(arrivals) > 200 || most > 32 {
			return
		}
		p := Problem{
			Arrivals: make([]int64, len(arrivals)), UnitsPerReplicaSlot: int64(units), MaxReplicas: int(most), InitialReplicas: int(warm),
			ReplicaSlotCost: 1, StartCost: start, WaitSlots: int(wait), BootSlots: int(boot), LateShare: share,
			OpenEnd: flags&1 != 0, ServeAll: flags&2 != 0,
		}
		for i, a := range arrivals {
			p.Arrivals[i] = int64(a)
		}
		i, err := Solve(p, Options{MemoryBytes: 1 << (16 + flags%8)})
		if err != nil {
			return
		}
		c, err := Evaluate(p, i.Schedule)
		if err != nil {
			t.Fatalf("the schedule %v of %+v is refused: %v", i.Schedule, p, err)
		}
		if c.Late > i.Allowed || p.ServeAll && c.Backlog > 0 || c.Total != i.UB || i.LB > i.UB {
			t.Fatalf("%+v: %+v, but the schedule does %+v", p, i, c)
		}
	})
}
