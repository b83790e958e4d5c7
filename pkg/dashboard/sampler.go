package dashboard

import (
	"math"
	"slices"
	"sync"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// resolutions are the levels of the memory: the last half hour in points of ten seconds, the last day in points of six minutes.
var resolutions = [...]resolution{
	{10 * time.Second, 30 * time.Minute},
	{time.Minute, 4 * time.Hour},
	{6 * time.Minute, 24 * time.Hour},
}

type resolution struct{ step, span time.Duration }

const (
	// fullSpan is the number of workloads up to which each keeps a whole day: about 20 KB with three signals, 20 MB in all. Beyond it
	// the spans shrink so that the sum stays.
	fullSpan  = 1000
	minPoints = 24
	// forgetAfter keeps the past of a policy that was taken away and put back, or of a leader that came back.
	forgetAfter = time.Hour
	// maxDecisionAge is the age from which a decision is a memory: the timeline shows a hole, not a line that goes on.
	maxDecisionAge = time.Minute
)

// The columns of every series; one column for each signal follows.
const (
	columnTarget = iota
	columnReady
	columnComing // loading and pending
	firstSignal
)

// sampler remembers what each workload looked like, coarser the longer ago.
type sampler struct {
	mu     sync.RWMutex
	series map[scaling.Key]*series
}

type series struct {
	signals []string
	newest  int64 // Unix seconds
	levels  [len(resolutions)]level
}

// level is a list of buckets, oldest first; values holds one stride of columns for each.
type level struct {
	buckets []int32 // Unix time in steps
	values  []float32
}

// span is the time that a picture shows.
type span struct{ from, to time.Time }

// sample is one point: what stood at its end, and each signal's greatest value in its step. NaN is "not known".
type sample struct {
	at     time.Time
	step   time.Duration
	values []float32
}

func newSampler() *sampler { return &sampler{series: map[scaling.Key]*series{}} }

// add remembers a record as seen at now. A record that was never decided, or not lately, leaves a hole.
func (s *sampler) add(r *engine.Record, now time.Time, workloads int) {
	if r.At.IsZero() || now.Sub(r.At) > maxDecisionAge {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.series[r.Workload.Key]
	if x == nil {
		x = &series{}
		s.series[r.Workload.Key] = x
	}
	x.adopt(r.Workload.Policy.Signals)
	unix := now.Unix()
	if unix < x.newest {
		x.rewind(unix)
	}
	x.newest = unix
	var values [firstSignal + scaling.MaxSignals]float32
	values[columnTarget], values[columnReady] = float32(r.Decision.Replicas), float32(r.View.Ready)
	values[columnComing] = float32(r.View.Loading + r.View.Pending)
	for i := range x.signals {
		values[firstSignal+i] = usable(r, i)
	}
	for i := range x.levels {
		x.levels[i].add(int32(unix/seconds(resolutions[i].step)), values[:firstSignal+len(x.signals)])
		x.levels[i].trim(points(resolutions[i], workloads), len(x.signals)+firstSignal)
	}
}

// usable is a signal's value where the tick could use it. A stale value repeated is no measurement.
func usable(r *engine.Record, i int) float32 {
	status := r.Decision.Status[i]
	if i >= len(r.Readings) || !r.Readings[i].Known || status != scaling.SignalOK && status != scaling.SignalLowCoverage {
		return float32(math.NaN())
	}
	return float32(r.Readings[i].Value)
}

// points is how many a level keeps while there are so many workloads.
func points(r resolution, workloads int) int {
	full := int(r.span/r.step) + 2 // one is begun at either end
	return max(minPoints, full*fullSpan/max(fullSpan, workloads))
}

// adopt makes the columns fit the signals of the policy in force; a signal keeps its past by its name.
func (x *series) adopt(signals []scaling.Signal) {
	if slices.EqualFunc(x.signals, signals, func(name string, s scaling.Signal) bool { return name == s.Name }) {
		return
	}
	names := make([]string, len(signals))
	from := make([]int, firstSignal+len(signals)) // which old column each new one continues
	for i := range firstSignal {
		from[i] = i
	}
	for i, s := range signals {
		names[i], from[firstSignal+i] = s.Name, -1
		if old := slices.Index(x.signals, s.Name); old >= 0 {
			from[firstSignal+i] = firstSignal + old
		}
	}
	for i := range x.levels {
		x.levels[i].rearrange(from, firstSignal+len(x.signals))
	}
	x.signals = names
}

// rewind forgets what lies after a clock that stepped back.
func (x *series) rewind(unix int64) {
	for i := range x.levels {
		l := &x.levels[i]
		first := int32(unix / seconds(resolutions[i].step))
		n := len(l.buckets)
		for n > 0 && l.buckets[n-1] >= first {
			n--
		}
		l.buckets, l.values = l.buckets[:n], l.values[:n*(firstSignal+len(x.signals))]
	}
}

func (l *level) add(bucket int32, values []float32) {
	n := len(l.buckets)
	if n == 0 || l.buckets[n-1] != bucket {
		l.buckets, l.values = append(l.buckets, bucket), append(l.values, values...)
		return
	}
	last := l.values[(n-1)*len(values):]
	copy(last[:firstSignal], values)
	for i := firstSignal; i < len(values); i++ {
		if v := values[i]; !(last[i] >= v) && v == v { // the greatest that is known
			last[i] = v
		}
	}
}

// trim drops the oldest quarter once there are a quarter too many, so that memory moves rarely.
func (l *level) trim(keep, stride int) {
	if n := len(l.buckets); n > keep+keep/4 {
		l.buckets = append(l.buckets[:0], l.buckets[n-keep:]...)
		l.values = append(l.values[:0], l.values[(n-keep)*stride:]...)
	}
}

func (l *level) rearrange(from []int, stride int) {
	values := make([]float32, 0, len(l.buckets)*len(from))
	for n := range l.buckets {
		for _, old := range from {
			v := float32(math.NaN())
			if old >= 0 {
				v = l.values[n*stride+old]
			}
			values = append(values, v)
		}
	}
	l.values = values
}

// forget drops the series that nobody adds to any more.
func (s *sampler) forget(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, x := range s.series {
		if now.Unix()-x.newest > seconds(forgetAfter) {
			delete(s.series, k)
		}
	}
}

// read visits the points between two instants, oldest first, each stretch in the best resolution that reaches it, and returns the names
// of the signals. finest is the best level to use: a day on a screen has no room for points of ten seconds. A sample's values are
// the sampler's own.
func (s *sampler) read(k scaling.Key, w span, finest int, visit func(sample)) (signals []string) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	x := s.series[k]
	if x == nil {
		return nil
	}
	var until [len(resolutions)]int64 // a coarse level tells what came before the finer ones
	for i, end := finest, w.to.Unix(); i < len(resolutions); i++ {
		until[i] = end
		if b := x.levels[i].buckets; len(b) > 0 {
			end = min(end, int64(b[0])*seconds(resolutions[i].step)-1)
		}
	}
	stride := firstSignal + len(x.signals)
	for i := len(resolutions) - 1; i >= finest; i-- {
		step := seconds(resolutions[i].step)
		for n, b := range x.levels[i].buckets {
			if at := min((int64(b)+1)*step-1, x.newest); at > w.from.Unix() && at <= until[i] {
				visit(sample{time.Unix(at, 0), resolutions[i].step, x.levels[i].values[n*stride : (n+1)*stride]})
			}
		}
	}
	return x.signals
}

func seconds(d time.Duration) int64 { return int64(d / time.Second) }
