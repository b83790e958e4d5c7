package dashboard

import (
	"math"
	"slices"
	"sync"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// resolutions contains the resolutions in which samples are stored: one sample per ten seconds for half an hour, one per minute for four
// hours, and one per six minutes for a day.
var resolutions = [...]resolution{
	{10 * time.Second, 30 * time.Minute},
	{time.Minute, 4 * time.Hour},
	{6 * time.Minute, 24 * time.Hour},
}

type resolution struct{ step, span time.Duration }

const (
	// fullSpan is the maximum number of workloads for which the samples of each workload cover a whole day. The samples of a workload with
	// three signals need about 20 KB, so 1,000 workloads need 20 MB. With more workloads, the samples cover a shorter time, so that the
	// total memory does not grow.
	fullSpan  = 1000
	minPoints = 24
	// deletedRetention is the time for which the samples of a deleted policy are kept. A policy that is created again within this time has its
	// earlier timeline.
	deletedRetention = time.Hour
	// maxDecisionAge is the maximum age of a decision from which a sample is stored. If the newest decision is older, the timeline has a gap.
	maxDecisionAge = time.Minute
)

// Columns that the samples of every workload have. The columns of the signals begin at firstSignal.
const (
	columnTarget = iota
	columnReady
	columnStarting // loading and pending replicas
	firstSignal
)

// sampler stores samples of each workload. Older samples have a lower resolution.
type sampler struct {
	mu     sync.RWMutex
	series map[scaling.Key]*series
}

type series struct {
	signals []string
	newest  int64 // time of the newest sample in Unix seconds
	levels  [len(resolutions)]level
}

// level contains the samples of one resolution, oldest first. An element of buckets is the time of a sample, and values contains the
// columns of this sample.
type level struct {
	buckets []int32 // time of each sample: Unix time divided by the step of the resolution
	values  []float32
}

// span is the time that a chart shows.
type span struct{ from, to time.Time }

// sample contains the values of one step, by column. The value of a signal is its highest value in the step. The other columns contain the
// values at the end of the step. NaN: unknown.
type sample struct {
	at     time.Time
	step   time.Duration
	values []float32
}

func newSampler() *sampler { return &sampler{series: map[scaling.Key]*series{}} }

// add stores a sample of a record with the time now. If the record has no decision or the decision is too old, add stores nothing, and the
// timeline has a gap.
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
	x.setSignals(r.Workload.Policy.Signals)
	unix := now.Unix()
	if unix < x.newest {
		x.rewind(unix)
	}
	x.newest = unix
	var values [firstSignal + scaling.MaxSignals]float32
	values[columnTarget], values[columnReady] = float32(r.Decision.Replicas), float32(r.View.Ready)
	values[columnStarting] = float32(r.View.Loading + r.View.Pending)
	for i := range x.signals {
		values[firstSignal+i] = usable(r, i)
	}
	for i := range x.levels {
		x.levels[i].add(int32(unix/seconds(resolutions[i].step)), values[:firstSignal+len(x.signals)])
		x.levels[i].trim(points(resolutions[i], workloads), len(x.signals)+firstSignal)
	}
}

// usable returns the value of signal i if the decision used this value, and NaN otherwise. It returns NaN for a stale value, because a
// stale value is no measurement of the current time.
func usable(r *engine.Record, i int) float32 {
	status := r.Decision.Status[i]
	if i >= len(r.Readings) || !r.Readings[i].Known || status != scaling.SignalOK && status != scaling.SignalLowCoverage {
		return float32(math.NaN())
	}
	return float32(r.Readings[i].Value)
}

// points returns the number of samples of one resolution that are kept for each workload.
func points(r resolution, workloads int) int {
	full := int(r.span/r.step) + 2 // plus 2, because the first and the last step are incomplete
	return max(minPoints, full*fullSpan/max(fullSpan, workloads))
}

// setSignals changes the columns of the series to the signals of the current policy. It keeps the samples of a signal if the series already
// has a column with the name of the signal.
func (x *series) setSignals(signals []scaling.Signal) {
	if slices.EqualFunc(x.signals, signals, func(name string, s scaling.Signal) bool { return name == s.Name }) {
		return
	}
	names := make([]string, len(signals))
	from := make([]int, firstSignal+len(signals)) // for each new column, the index of the old column with the same name, or -1
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

// rewind deletes the sample of the step that contains the given Unix time, and all later samples. add calls rewind after the clock was set
// back.
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
		if v := values[i]; !(last[i] >= v) && v == v { // v is known, and last[i] is less or unknown
			last[i] = v
		}
	}
}

// trim removes the oldest samples, so that keep samples remain. Each removal moves all remaining samples, so trim does nothing while the
// number of samples is at most 1.25 times keep.
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

// forget deletes series without a sample for deletedRetention.
func (s *sampler) forget(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, x := range s.series {
		if now.Unix()-x.newest > seconds(deletedRetention) {
			delete(s.series, k)
		}
	}
}

// read calls visit for each sample of a span, oldest first, and returns the names of the signals. For each time, it reads the samples with
// the highest stored resolution. finest is the index of the highest resolution that read may use. visit must not store the slice of values.
func (s *sampler) read(k scaling.Key, w span, finest int, visit func(sample)) (signals []string) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	x := s.series[k]
	if x == nil {
		return nil
	}
	// until[i] is the last Unix time that is read from level i; later samples are read from levels with a higher resolution
	var until [len(resolutions)]int64
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
