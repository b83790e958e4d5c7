package promquery

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/promapi"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/source"
)

// join matches the series of an answer to requests by the values of some labels.
type join struct {
	labels []string

	requests []source.Request // for which the index was built
	index    map[string]int32
	keys     []string
	next     []int32 // requests with the same key are linked by next; -1 ends
	found    []found
	ages     []map[string]time.Time // by selector
	allAges  bool                   // see ages.all
	key      []byte
}

// found is what an answer has for one request.
type found struct {
	value  float64
	at     time.Time // of evaluation
	series int
}

// appendKey appends one label value to a key. The separator occurs in no UTF-8 text, so that ("a", "") and ("", "a") differ.
func appendKey(b []byte, v string) []byte { return append(append(b, v...), 0xff) }

// prepare empties the join for a new answer. It rebuilds the index only when the requests have changed.
func (j *join) prepare(requests []source.Request, key func([]byte, *source.Request) []byte) {
	if len(j.requests) != len(requests) || &j.requests[0] != &requests[0] {
		j.requests, j.index = requests, make(map[string]int32, len(requests))
		j.keys, j.next = make([]string, len(requests)), make([]int32, len(requests))
		for i := range requests {
			k := string(key(j.key[:0], &requests[i]))
			j.next[i] = -1
			if first, ok := j.index[k]; ok {
				j.next[i] = first
			}
			j.index[k], j.keys[i] = int32(i), k
		}
	}
	j.found = make([]found, len(requests))
}

// expect allocates the maps for the sample times that the query returns.
func (j *join) expect(a ages) {
	j.ages, j.allAges = make([]map[string]time.Time, a.selectors), a.all
	for i := range j.ages {
		j.ages[i] = make(map[string]time.Time, len(j.requests))
	}
}

// release frees the memory of an answer that was read; for 10,000 workloads it is a megabyte.
func (j *join) release() { j.found, j.ages = nil, nil }

// counted returns take for a part, which counts the series of each namespace.
func (j *join) counted(p *part, namespaceLabel string) func(*promapi.Series) error {
	return func(s *promapi.Series) error {
		p.count(s.Labels.Get(namespaceLabel))
		return j.take(s)
	}
}

// take stores one series of the answer.
func (j *join) take(s *promapi.Series) error {
	key := j.key[:0]
	for _, name := range j.labels {
		key = appendKey(key, s.Labels.Get(name))
	}
	j.key = key
	if selector, is := strings.CutPrefix(s.Labels.Get(partLabel), partAge); is {
		n, err := strconv.Atoi(selector)
		if err != nil || n < 0 || n >= len(j.ages) || !s.Valid {
			return nil // not a part of our query
		}
		at := sampleTime(s)
		if have, ok := j.ages[n][string(key)]; !ok || at.Before(have) {
			j.ages[n][string(key)] = at
		}
		return nil
	}
	first, ok := j.index[string(key)]
	if !ok {
		return nil // of a workload without a request
	}
	value := s.Value
	if !s.Valid {
		value = math.NaN()
	}
	for i := first; i >= 0; i = j.next[i] {
		j.found[i] = found{value: value, at: s.At, series: j.found[i].series + 1}
	}
	return nil
}

// readings sets the readings of the requests that the answer has a series for.
func (j *join) readings(out []scaling.Reading) {
	carried := j.carried()
	for i := range j.requests {
		switch v := &j.found[i]; {
		case v.series == 1:
			out[i] = scaling.Reading{Value: v.value, At: j.age(i, carried), Coverage: 1, Reported: -1, Known: true}
		case v.series > 1:
			// Their sum would count a pair of Prometheus servers twice, and their mean would halve a queue.
			out[i].Cause = scaling.CauseInvalid
		}
	}
}

// lookbackDelta is the age up to which Prometheus returns a sample to an instant query, unless its operator sets another one.
const lookbackDelta = 5 * time.Minute

// age returns the time of the oldest sample behind a request's value. A value without a sample within the lookback is computed from what is
// left in a range: its age is not known, and it is returned as older than the signal's MaxAge.
func (j *join) age(i int, carried []bool) time.Time {
	evaluated := j.found[i].at
	oldest, missing := evaluated, 0
	for s := range j.ages {
		at, ok := j.sampleTime(s, j.keys[i], carried[s])
		if !ok {
			missing++
		} else if at.Before(oldest) {
			oldest = at
		}
	}
	if missing > 0 && (j.allAges || missing == len(j.ages)) {
		stale := evaluated.Add(-max(lookbackDelta, j.requests[i].Signal.MaxAge+time.Second))
		if stale.Before(oldest) {
			return stale
		}
	}
	return oldest
}

// carried reports for each selector whether its samples have the labels of the answer, for any workload of the answer.
func (j *join) carried() []bool {
	out := make([]bool, len(j.ages))
	for s := range j.ages {
		for i := range j.found {
			if _, ok := j.ages[s][j.keys[i]]; ok && j.found[i].series > 0 {
				out[s] = true
				break
			}
		}
	}
	return out
}

// sampleTime returns the time of the oldest sample of a selector behind the value of a key; ok is false where there is none. Where a
// query renames labels, the samples have fewer labels than the answer, or others. Then it returns the oldest sample with the same first
// labels (the namespace), and else the oldest of all samples.
func (j *join) sampleTime(selector int, key string, carried bool) (at time.Time, ok bool) {
	times := j.ages[selector]
	for n := len(j.labels); ; n-- {
		if at, ok = times[key]; ok || n == 0 {
			break
		}
		key = blank(key, n-1)
	}
	if ok || carried {
		return at, ok
	}
	for _, t := range times {
		if !ok || t.Before(at) {
			at, ok = t, true
		}
	}
	return at, ok
}

// blank empties the value at index i of a key and those after it.
func blank(key string, i int) string {
	parts := strings.Split(strings.TrimSuffix(key, "\xff"), "\xff")
	for ; i < len(parts); i++ {
		parts[i] = ""
	}
	return strings.Join(parts, "\xff") + "\xff"
}

// sampleTime converts the value of timestamp() to a time by our clock. It returns the zero time for a value that is not a usable time.
func sampleTime(s *promapi.Series) time.Time {
	if !(s.Value > 0 && s.Value < 1<<33) {
		return time.Time{}
	}
	return s.Timing.SampleTime(time.UnixMilli(int64(math.Round(s.Value * 1000))))
}
