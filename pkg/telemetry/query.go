package telemetry

import (
	"cmp"
	"context"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/promapi"
)

// queryFetcher asks one query for many workloads and matches its series back to them by labels.
type queryFetcher struct {
	api       *promapi.Client
	query     string
	matchers  map[string]string
	text      string
	asks      witness
	join      join
	separable bool
}

func newQueryFetcher(g *group, api *promapi.Client) (*queryFetcher, error) {
	namespace := cmp.Or(g.first.NamespaceLabel, g.source.NamespaceLabel, "namespace")
	expr, err := restrict(g.first.Query, g.source.Matchers)
	if err != nil {
		return nil, err
	}
	f := &queryFetcher{api: api, query: g.first.Query, matchers: g.source.Matchers, join: join{labels: []string{namespace}}}
	f.separable = separable(expr, namespace)
	if g.first.WorkloadLabel != "" {
		f.join.labels = append(f.join.labels, g.first.WorkloadLabel)
	}
	f.text, f.asks, err = timed(expr, f.join.labels)
	return f, err
}

func (f *queryFetcher) divisible() bool { return f.separable }

func (f *queryFetcher) ask(ctx context.Context, p *part) (int64, error) {
	j, text := &f.join, f.text
	if p.namespaces != nil {
		expr, err := restrict(f.query, f.matchers)
		if err != nil {
			return 0, err
		}
		restrictTo(expr, f.join.labels[0], p.namespaces)
		if text, _, err = timed(expr, f.join.labels); err != nil {
			return 0, err
		}
		j = &join{labels: f.join.labels}
	}
	named := len(j.labels) == 2
	j.prepare(p.slots, func(b []byte, s *slot) []byte {
		b = appendKey(b, s.w.Key.Namespace)
		if named {
			b = appendKey(b, cmp.Or(s.source.LabelValue, s.w.Target.Name))
		}
		return b
	})
	j.expect(f.asks)
	n, err := f.api.With(p.limits).Query(ctx, text, j.counted(p, j.labels[0]))
	if err != nil {
		return n, err
	}
	j.readings(p.out)
	j.forget()
	return n, nil
}

// join matches the series of an answer to slots by the values of some labels.
type join struct {
	labels []string

	slots []slot // what the index was built for
	index map[string]int32
	keys  []string
	next  []int32 // slots that want the same series chain here; -1 ends
	found []found
	ages  []map[string]time.Time // by selector
	all   bool                   // see witness
	key   []byte
}

// found is what an answer holds for one slot.
type found struct {
	value  float64
	at     time.Time // of evaluation
	series int
}

// appendKey appends one value of a key. The separator is no part of any UTF-8 text, so that ("a","") and ("","a") differ.
func appendKey(b []byte, v string) []byte { return append(append(b, v...), 0xff) }

// prepare empties the join for a new answer; the index is built anew only when the slots are others.
func (j *join) prepare(slots []slot, key func([]byte, *slot) []byte) {
	if len(j.slots) != len(slots) || &j.slots[0] != &slots[0] {
		j.slots, j.index = slots, make(map[string]int32, len(slots))
		j.keys, j.next = make([]string, len(slots)), make([]int32, len(slots))
		for i := range slots {
			k := string(key(j.key[:0], &slots[i]))
			j.next[i] = -1
			if first, ok := j.index[k]; ok {
				j.next[i] = first
			}
			j.index[k], j.keys[i] = int32(i), k
		}
	}
	j.found = make([]found, len(slots))
}

// expect makes room for the sample times that the query asks for.
func (j *join) expect(w witness) {
	j.ages, j.all = make([]map[string]time.Time, w.ages), w.all
	for i := range j.ages {
		j.ages[i] = make(map[string]time.Time, len(j.slots))
	}
}

// forget lets go of an answer that was read; of 10,000 workloads it is a megabyte.
func (j *join) forget() { j.found, j.ages = nil, nil }

// counted is take for a part, which counts the series of each namespace.
func (j *join) counted(p *part, namespaceLabel string) func(*promapi.Series) error {
	return func(s *promapi.Series) error {
		p.count(s.Labels.Get(namespaceLabel))
		return j.take(s)
	}
}

// take sorts one series of the answer.
func (j *join) take(s *promapi.Series) error {
	key := j.key[:0]
	for _, name := range j.labels {
		key = appendKey(key, s.Labels.Get(name))
	}
	j.key = key
	if selector, is := strings.CutPrefix(s.Labels.Get(partLabel), partAge); is {
		n, err := strconv.Atoi(selector)
		if err != nil || n < 0 || n >= len(j.ages) || !s.Valid {
			return nil // nothing that we asked for
		}
		at := sampleTime(s)
		if have, ok := j.ages[n][string(key)]; !ok || at.Before(have) {
			j.ages[n][string(key)] = at
		}
		return nil
	}
	first, ok := j.index[string(key)]
	if !ok {
		return nil // somebody else's
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

func (j *join) readings(out []scaling.Reading) {
	carry := j.carry()
	for i := range j.slots {
		switch v := &j.found[i]; {
		case v.series == 1:
			out[i] = scaling.Reading{Value: v.value, At: j.age(i, carry), Coverage: 1, Reported: -1, Known: true}
		case v.series > 1:
			// Which of them is meant? Their sum would count a pair of Prometheus servers twice, their mean would halve a queue.
			out[i].Cause = scaling.CauseInvalid
		}
	}
}

// lookbackDelta is for how long Prometheus takes a sample for present, unless its operator says otherwise.
const lookbackDelta = 5 * time.Minute

// age returns the time of the oldest sample behind a workload's value. A value without a sample that is present is what is left in a
// range: it is older than anybody can say.
func (j *join) age(i int, carry []bool) time.Time {
	evaluated := j.found[i].at
	oldest, missing := evaluated, 0
	for s := range j.ages {
		at, ok := j.sample(s, j.keys[i], carry[s])
		if !ok {
			missing++
		} else if at.Before(oldest) {
			oldest = at
		}
	}
	if missing > 0 && (j.all || missing == len(j.ages)) {
		lost := evaluated.Add(-max(lookbackDelta, j.slots[i].signal.MaxAge+time.Second))
		if lost.Before(oldest) {
			return lost
		}
	}
	return oldest
}

// carry tells of which selectors the samples carry the labels that the answer does: those of any workload in it.
func (j *join) carry() []bool {
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

// sample returns the time of the oldest sample of a selector behind a workload's value; ok is false where there is none. Where a query
// renames labels on the way, the samples carry less than the answer, or something else: then the oldest with the same first labels
// counts (the namespace), then the oldest of all.
func (j *join) sample(selector int, key string, carried bool) (at time.Time, ok bool) {
	ages := j.ages[selector]
	for n := len(j.labels); ; n-- {
		if at, ok = ages[key]; ok || n == 0 {
			break
		}
		key = blank(key, n-1)
	}
	if ok || carried {
		return at, ok
	}
	for _, t := range ages {
		if !ok || t.Before(at) {
			at, ok = t, true
		}
	}
	return at, ok
}

// blank empties the value at index i and those after it.
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
