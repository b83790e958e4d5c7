package simulator

import (
	"runtime"
	"testing"
	"time"
)

// A search for settings simulates days of traffic thousands of times, so an hour of a simulation must allocate little memory. The limits
// are about a tenth above the measured values, which do not depend on the load of the machine.
func TestAnHourOfASimulationAllocatesLittle(t *testing.T) {
	const allocations, size = 5500, 1_100_000
	c := Config{Seed: 1, Workloads: []Workload{{Policy: chat("chat", nil), Traffic: generate(t, "bursty", time.Hour, nil), Service: Chat8B,
		Initial: 4}}}
	run(t, c, time.Hour) // the first run also allocates memory that all later simulations share
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	run(t, c, time.Hour)
	runtime.ReadMemStats(&after)
	n, bytes := after.Mallocs-before.Mallocs, after.TotalAlloc-before.TotalAlloc
	t.Logf("%d allocations of %d bytes", n, bytes)
	if n > allocations || bytes > size {
		t.Errorf("%d allocations of %d bytes, want at most %d of %d bytes", n, bytes, allocations, size)
	}
}
