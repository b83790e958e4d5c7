package telemetry

import (
	"cmp"
	"context"
	"math"
	"strings"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/promapi"
)

// queryFetcher asks one query of the platform team and matches its series back to the workloads by two labels.
type queryFetcher struct {
	api              *promapi.Client
	text             string
	namespace, label string

	slots []slot // what the index below was built for
	index map[match]int32
	next  []int32 // slots that want the same series chain here; -1 ends
	found []found
	ages  map[match]time.Time
}

// match is what a workload's series carries.
type match struct{ namespace, workload string }

// found is what an answer holds for one slot.
type found struct {
	value  float64
	at     time.Time // of evaluation
	series int
}

func newQueryFetcher(g *group, api *promapi.Client) (*queryFetcher, error) {
	namespace := cmp.Or(g.query.NamespaceLabel, g.source.NamespaceLabel, "namespace")
	expr, err := restrict(g.query.Query, g.source.Matchers)
	if err != nil {
		return nil, err
	}
	text, err := timed(expr, namespace, g.query.WorkloadLabel)
	if err != nil {
		return nil, err
	}
	return &queryFetcher{api: api, text: text, namespace: namespace, label: g.query.WorkloadLabel}, nil
}

func (f *queryFetcher) fetch(ctx context.Context, slots []slot, out []scaling.Reading) (int64, error) {
	f.prepare(slots)
	n, err := f.api.Query(ctx, f.text, f.take)
	if err != nil {
		return n, err
	}
	for i := range slots {
		out[i] = f.reading(&slots[i], &f.found[i])
	}
	return n, nil
}

func (f *queryFetcher) prepare(slots []slot) {
	if len(f.slots) != len(slots) || &f.slots[0] != &slots[0] {
		f.slots, f.index = slots, make(map[match]int32, len(slots))
		f.next, f.found = make([]int32, len(slots)), make([]found, len(slots))
		for i := range slots {
			m := f.matchOf(&slots[i])
			f.next[i] = -1
			if first, ok := f.index[m]; ok {
				f.next[i] = first
			}
			f.index[m] = int32(i)
		}
	}
	clear(f.found)
	f.ages = make(map[match]time.Time, len(slots))
}

func (f *queryFetcher) matchOf(s *slot) match {
	m := match{namespace: s.w.Key.Namespace, workload: s.source.LabelValue}
	if f.label == "" {
		m.workload = ""
	} else if m.workload == "" {
		m.workload = s.w.Target.Name
	}
	return m
}

// take sorts one series of the answer.
func (f *queryFetcher) take(s *promapi.Series) error {
	m := match{namespace: s.Labels.Get(f.namespace)}
	if f.label != "" {
		m.workload = s.Labels.Get(f.label)
	}
	if strings.HasPrefix(s.Labels.Get(partLabel), partAge) {
		at := secondsToTime(s.Value)
		if have, ok := f.ages[m]; s.Valid && (!ok || at.Before(have)) {
			f.ages[m] = at
		}
		return nil
	}
	first, ok := f.index[m]
	if !ok {
		return nil // somebody else's
	}
	value := s.Value
	if !s.Valid {
		value = math.NaN()
	}
	for i := first; i >= 0; i = f.next[i] {
		f.found[i] = found{value: value, at: s.At, series: f.found[i].series + 1}
	}
	return nil
}

func (f *queryFetcher) reading(s *slot, v *found) scaling.Reading {
	r := scaling.Reading{Reported: -1, Cause: scaling.CauseEmpty}
	switch {
	case v.series == 0:
	case v.series > 1:
		// Which of them is meant? Their sum would count a pair of Prometheus servers twice, their mean would halve a queue.
		r.Cause = scaling.CauseInvalid
	default:
		r = scaling.Reading{Value: v.value, At: f.age(f.matchOf(s), v.at), Coverage: 1, Reported: -1, Known: true}
	}
	return r
}

// age returns the time of the oldest sample behind a workload's value. Where a query renames labels on the way, the samples carry
// less than the answer: then the oldest of the namespace counts, then the oldest of all.
func (f *queryFetcher) age(m match, evaluated time.Time) time.Time {
	for _, k := range [...]match{m, {namespace: m.namespace}, {workload: m.workload}, {}} {
		if at, ok := f.ages[k]; ok {
			return at
		}
	}
	return evaluated
}

// secondsToTime turns timestamp()'s float into a time; what is no time is the zero time, which is stale.
func secondsToTime(v float64) time.Time {
	if !(v > 0 && v < 1<<33) {
		return time.Time{}
	}
	return time.UnixMilli(int64(math.Round(v * 1000)))
}
