package audit

import (
	"math"
	"time"
)

// Timeline contains the history of one workload for charts: one value for each bucket of time. A bucket without a measured value has the
// value of the bucket before it.
type Timeline struct {
	Bucket   time.Duration
	Ready    []float64 // ready replicas
	Need     []float64 // replicas that the requests needed, at most maxReplicas
	Requests []float64 // requests per minute
	Late     []float64 // requests per minute that waited longer than the SLO allows
	Causes   [numCauses][]float64
}

// Timeline returns the history of a workload of the report in at most the given number of buckets.
func (r *Report) Timeline(l *Line, buckets int) Timeline {
	s, w := r.snapshot, l.of
	width := (s.Steps + buckets - 1) / buckets
	out := Timeline{Bucket: time.Duration(width) * s.step()}
	times := s.timeline(w)
	splits := make([]Ledger, len(times))
	for i := range times {
		if splits[i] = times[i].split(w); math.IsNaN(times[i].held) {
			splits[i] = Ledger{}
		}
	}
	mean := func(of func(i int) float64) []float64 { return means(len(times), width, of) }
	perMinute := 60 / s.Step
	out.Ready = mean(func(i int) float64 { return times[i].ready })
	out.Need = mean(func(i int) float64 { return min(times[i].need(w), float64(w.Autoscaler.Max)) })
	out.Requests = mean(func(i int) float64 { return w.Started.at(i) * perMinute })
	out.Late = mean(func(i int) float64 { return max(0, w.Started.at(i)-w.OnTime.at(i)) * perMinute })
	for c := range out.Causes {
		out.Causes[c] = mean(func(i int) float64 { return splits[i][c] })
	}
	return out
}

// means returns the mean of the known values of each bucket. The parameter width is the number of steps of a bucket. A bucket without a
// known value has the mean of the bucket before it, or 0 if it is the first.
func means(steps, width int, of func(i int) float64) (out []float64) {
	last := 0.0
	for from := 0; from < steps; from += width {
		sum, n := 0.0, 0
		for i := from; i < min(from+width, steps); i++ {
			if v := of(i); !math.IsNaN(v) {
				sum += v
				n++
			}
		}
		if n > 0 {
			last = sum / float64(n)
		}
		out = append(out, last)
	}
	return out
}
