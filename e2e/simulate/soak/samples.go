package main

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
)

// Quantities of a sample, as indexes.
const (
	heap       = iota // bytes on the heap after a garbage collection
	goroutines        // number of goroutines of the process
	objects           // number of objects in the API server, without the kinds in the map follows
	bytes             // bytes of all NodePools as JSON, which include the values that gpuscaler writes
	history           // number of records in the history of package engine
	series            // number of series of the controller's metrics
	numQuantities
)

var quantityNames = [numQuantities]string{"heap KiB", "goroutines", "objects", "NodePool bytes", "history", "series"}

// growthBounds contains a bound for each quantity: the largest sample of the second half of a run divided by the largest sample of the
// first half must not exceed this number. The history has the bound mostHistory instead.
var growthBounds = [numQuantities]float64{heap: 1.05, goroutines: 1, objects: 1, bytes: 1.05, series: 1.02}

// mostHistory is the largest number of records in the history of package engine. The history grows until it has this size.
const mostHistory = 24_000

// sample contains the quantities at one time.
type sample struct {
	at     time.Duration
	values [numQuantities]float64
	cpu    time.Duration // CPU time of the process until the time of the sample, which has no bound
}

// take measures the quantities of the process.
func take(at time.Duration, c *controller) (s sample) {
	s.at, s.cpu = at, cpu()
	for range 2 { // the second collection frees objects with finalizers and objects in pools
		runtime.GC()
	}
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	s.values[heap], s.values[goroutines] = float64(memory.HeapAlloc>>10), float64(runtime.NumGoroutine())
	c.load.api.Each(func(kind string, object any) {
		if follows[kind] {
			return
		}
		s.values[objects]++
		if kind == "NodePool" {
			text, err := json.Marshal(object)
			if err != nil {
				panic(err)
			}
			s.values[bytes] += float64(len(text))
		}
	})
	decisions := c.engine.Decisions()
	for _, key := range decisions.Keys() {
		decisions.History().Walk(key, func(*engine.Record) bool { s.values[history]++; return true })
	}
	families, err := c.registry.Gather()
	if err != nil {
		panic(err)
	}
	for _, family := range families {
		s.values[series] += float64(len(family.GetMetric()))
	}
	return s
}

// follows contains the kinds of objects whose number increases and decreases with the load.
var follows = map[string]bool{"Pod": true, "Node": true, "NodeClaim": true}

// growth returns a description of each quantity whose largest value in the second half of the samples exceeds its bound.
func growth(all []sample) (found []string) {
	half := len(all) / 2
	for q := range numQuantities {
		first, second := largest(all[:half], q), largest(all[half:], q)
		switch {
		case q == history && second > mostHistory:
			found = append(found, fmt.Sprintf("the history has %.0f records", second))
		case q != history && second > first*growthBounds[q]:
			found = append(found, fmt.Sprintf("%s: at most %.0f in the first half and %.0f in the second half, which is more than %.2f times",
				quantityNames[q], first, second, growthBounds[q]))
		}
	}
	return found
}

func largest(all []sample, quantity int) (most float64) {
	for _, s := range all {
		most = max(most, s.values[quantity])
	}
	return most
}

func printHeader(out io.Writer) {
	_, _ = fmt.Fprintf(out, "%8s", "time")
	for _, name := range quantityNames {
		_, _ = fmt.Fprintf(out, " %14s", name)
	}
	_, _ = fmt.Fprintf(out, " %8s\n", "CPU s")
}

func (s sample) print(out io.Writer) {
	_, _ = fmt.Fprintf(out, "%8s", s.at)
	for _, v := range s.values {
		_, _ = fmt.Fprintf(out, " %14.0f", v)
	}
	_, _ = fmt.Fprintf(out, " %8.0f\n", s.cpu.Seconds())
}
