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

// join finds the request to which each series of a response belongs, by the values of some labels.
type join struct {
	labels []string

	requests []source.Request // requests from which index was built
	index    map[string]int32
	keys     []string
	next     []int32 // for each request, the index of the next request with the same key; -1: none
	found    []found
	ages     []map[string]time.Time // for each selector, a map from a key to the time of its oldest sample
	allAges  bool                   // value of ages.all: every selector must have a sample time
	key      []byte
}

// found is the part of the response that belongs to one request.
type found struct {
	value  float64
	at     time.Time // evaluation time
	series int
}

// appendKey appends one label value and a separator to a key. The separator 0xff does not occur in UTF-8 text, so the keys of ("a", "") and
// ("", "a") differ.
func appendKey(b []byte, v string) []byte { return append(append(b, v...), 0xff) }

// prepare prepares the join for a new response. It rebuilds the index only if the requests have changed.
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

// expect allocates the maps for the sample times in the response.
func (j *join) expect(a ages) {
	j.ages, j.allAges = make([]map[string]time.Time, a.selectors), a.all
	for i := range j.ages {
		j.ages[i] = make(map[string]time.Time, len(j.requests))
	}
}

// release frees the memory of a response. For 10,000 workloads this is about a megabyte.
func (j *join) release() { j.found, j.ages = nil, nil }

// counted returns a function for the series of a response. For each series, this function increases the number of series in p for the
// namespace in the given label, and then calls take.
func (j *join) counted(p *part, namespaceLabel string) func(*promapi.Series) error {
	return func(s *promapi.Series) error {
		p.count(s.Labels.Get(namespaceLabel))
		return j.take(s)
	}
}

// take stores one series of the response.
func (j *join) take(s *promapi.Series) error {
	key := j.key[:0]
	for _, name := range j.labels {
		key = appendKey(key, s.Labels.Get(name))
	}
	j.key = key
	if selector, is := strings.CutPrefix(s.Labels.Get(partLabel), partAge); is {
		n, err := strconv.Atoi(selector)
		if err != nil || n < 0 || n >= len(j.ages) || !s.Valid {
			return nil // an invalid series, which gpuscaler's query does not return
		}
		at := sampleTime(s)
		if have, ok := j.ages[n][string(key)]; !ok || at.Before(have) {
			j.ages[n][string(key)] = at
		}
		return nil
	}
	first, ok := j.index[string(key)]
	if !ok {
		return nil // no request belongs to the workload of this series
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

// readings writes a reading to out for each request that has exactly one series in the response. For a request with several series, it
// sets the cause.
func (j *join) readings(out []scaling.Reading) {
	carried := j.carried()
	for i := range j.requests {
		switch v := &j.found[i]; {
		case v.series == 1:
			out[i] = scaling.Reading{Value: v.value, At: j.age(i, carried), Coverage: 1, Reported: -1, Known: true}
		case v.series > 1:
			// Several series for one workload are ambiguous. If they are copies from two Prometheus servers, their sum would be twice the true
			// value. If they are parts of a queue, their mean would be too small.
			out[i].Cause = scaling.CauseInvalid
		}
	}
}

// lookbackDelta is the greatest age of a sample that Prometheus returns for an instant query by default.
const lookbackDelta = 5 * time.Minute

// age returns the time of the oldest sample from which the value of request i is computed. If a necessary selector has no sample within
// lookbackDelta, the age of the value is not known, because the value is computed from older samples in the range of a range selector. age
// then returns a time that is older than the signal's MaxAge, so that the reading is stale.
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

// carried reports for each selector whether its samples have the same labels as the results of the query. It reports true for a selector
// if the labels are the same for at least one workload.
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

// sampleTime returns the time of the oldest sample of a selector for the workload with the given key. If the query renames labels, it is
// possible that the samples do not have all labels of the key. sampleTime then clears the labels of the key one by one, from the last to
// the first, until a sample matches. If no sample matches, and the parameter carried (see the method carried) is false, it returns the
// oldest time of all samples. ok is false if there is no sample time.
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

// blank returns the key with empty values from index i on.
func blank(key string, i int) string {
	parts := strings.Split(strings.TrimSuffix(key, "\xff"), "\xff")
	for ; i < len(parts); i++ {
		parts[i] = ""
	}
	return strings.Join(parts, "\xff") + "\xff"
}

// sampleTime converts the result of timestamp() to a time by gpuscaler's clock. If the result is not a usable time, it returns the zero
// time.
func sampleTime(s *promapi.Series) time.Time {
	if !(s.Value > 0 && s.Value < 1<<33) {
		return time.Time{}
	}
	return s.Timing.SampleTime(time.UnixMilli(int64(math.Round(s.Value * 1000))))
}
