package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

const (
	service   = 8.0 // seconds that a replica spends on a request
	fleetStep = 5 * time.Minute
	holdSteps = 12 // replicas are removed an hour after they were last needed
)

// workload is one of the audited workloads. Its requests follow working hours, and its replicas follow its requests.
type workload struct {
	namespace, name string
	rate            float64 // requests per second at the busiest time of a day
	slots           int
	least, most     int // bounds of the HPA
}

// fleet returns n workloads that differ in load, slots and bounds. The loads are 0.3 to 10 requests per second.
func fleet(n int) []workload {
	out := make([]workload, n)
	for i := range out {
		out[i] = workload{
			namespace: fmt.Sprintf("team-%d", i%10), name: fmt.Sprintf("chat-%02d", i), rate: 0.3 * math.Pow(10/0.3, float64(i)/float64(n)),
			slots: []int{4, 8, 16, 64}[i/4%4], least: 1 + i%3, most: []int{12, 24, 100}[i%3],
		}
	}
	return out
}

// load is the traffic and the replicas of a workload in each step of fleetStep.
type load struct {
	rate     []float64 // requests per second
	replicas []int
}

// afternoon is the time of the week at which the history of each workload ends, so that the replay covers busy hours on every day.
var afternoon = time.Date(2026, 11, 26, 16, 0, 0, 0, time.UTC)

// load returns the load of a workload from begin to end. The random source determines the deviation from the daily course.
func (w *workload) load(begin, end time.Time, random *rand.Rand) load {
	n := int(end.Sub(begin) / fleetStep)
	l := load{rate: make([]float64, n), replicas: make([]int, n)}
	needed := make([]int, n)
	for i := range n {
		at := afternoon.Add(begin.Add(time.Duration(i) * fleetStep).Sub(end))
		day := math.Max(0, math.Sin((float64(at.Hour())+float64(at.Minute())/60-7)/14*math.Pi))
		if at.Weekday() == time.Saturday || at.Weekday() == time.Sunday {
			day *= 0.3
		}
		l.rate[i] = w.rate * (0.15 + 0.85*day) * (0.8 + 0.4*random.Float64())
		needed[i] = int(math.Ceil(l.rate[i] * service / float64(w.slots) / 0.7))
		for k := max(0, i-holdSteps); k <= i; k++ {
			l.replicas[i] = max(l.replicas[i], needed[k])
		}
		l.replicas[i] = min(max(l.replicas[i], w.least), w.most)
	}
	return l
}

// pod is one pod: the times between which it exists, and its position among the replicas of its workload.
type pod struct {
	of         *workload
	load       *load
	name       string
	position   int
	begin, end time.Time
}

// pods returns the pods of a workload. A replica that is removed and added again is another pod, with another name.
func (w *workload) pods(l *load, begin time.Time) (out []pod) {
	var open []pod
	for i := 0; i <= len(l.replicas); i++ {
		at, want := begin.Add(time.Duration(i)*fleetStep), 0
		if i < len(l.replicas) {
			want = l.replicas[i]
		}
		for len(open) > want {
			last := open[len(open)-1]
			last.end, open = at, open[:len(open)-1]
			out = append(out, last)
		}
		for len(open) < want {
			open = append(open, pod{of: w, load: l, position: len(open), begin: at,
				name: fmt.Sprintf("%s-7d9f8b6c5-%s", w.name, suffix(len(open), i))})
		}
	}
	return out
}

// suffix returns the generated part of the name of a pod that is created in step i, with the characters that Kubernetes uses.
func suffix(position, i int) string {
	const letters = "bcdfghjklmnpqrstvwxz2456789"
	out := make([]byte, 5)
	for k, n := 0, position+i*128; k < len(out); k++ {
		out[k], n = letters[n%len(letters)], n/len(letters)
	}
	return string(out)
}
