package lowerbound

import (
	"math"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"
)

// For an hour in slots of 10 s with up to 32 replicas, Solve must need few dynamic programs (solves) and little memory. The limits are
// about a tenth above the measured values, which do not depend on the load of the machine.
func TestAnHourNeedsFewSolvesAndLittleMemory(t *testing.T) {
	const solves, tables, allocated = 8, 2_900_000, 8_500_000
	r := rand.New(rand.NewPCG(7, 7))
	p := Problem{
		TimeSlot: 10 * time.Second, Arrivals: make([]int64, 360), UnitsPerReplicaSlot: 8, MaxReplicas: 32, InitialReplicas: 6,
		ReplicaSlotCost: 1.0 / 360, StartCost: 6.0 / 360, WaitSlots: 1, BootSlots: 6, LateShare: 0.01,
	}
	for i := range p.Arrivals {
		mean := 80 + 60*math.Sin(float64(i)/40)
		p.Arrivals[i] = int64(math.Round(mean + math.Sqrt(mean)*r.NormFloat64()))
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	i, err := Solve(p, Options{})
	if err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	bytes := after.TotalAlloc - before.TotalAlloc
	t.Logf("%d solves, tables of %d bytes, %d bytes allocated", i.Solves, i.Bytes, bytes)
	if int(i.Solves) > solves || int(i.Bytes) > tables || bytes > allocated {
		t.Errorf("%d solves, tables of %d bytes, %d bytes allocated; want at most %d, %d and %d", i.Solves, i.Bytes, bytes, solves, tables,
			allocated)
	}
}
