package engine

import (
	"sort"
	"sync"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

const (
	// historyAge is how far back explain answers: a night and the day before it.
	historyAge = 24 * time.Hour
	// historyPerWorkload keeps one flapping workload from pushing out the others: a change each three minutes for 24 hours.
	historyPerWorkload = 480
	// historyTotal bounds the memory of all records together to about 10 MB, whatever the number of workloads. A thousand of them have
	// a change an hour for a day; ten thousand that all change every ten minutes are remembered for less than half an hour, and the log
	// answers for what was before.
	historyTotal = 24_000
	// forgetEvery is how often policies that went are looked for; their last records stay in memory for so much longer than a day.
	forgetEvery = time.Hour
)

// History is the bounded record of transitions, oldest first for each workload.
type History struct {
	mu    sync.RWMutex
	byKey map[scaling.Key][]compact
	total int
	swept time.Time // when forget last looked at every key
	small packer
}

func newHistory() *History { return &History{byKey: map[scaling.Key][]compact{}} }

// add takes in a record; w is a copy of its workload that nobody changes, the same one for the same version.
func (h *History) add(r *Record, w *scaling.Workload) {
	h.mu.Lock()
	defer h.mu.Unlock()
	list := h.byKey[r.Workload.Key]
	before := len(list)
	made := h.small.pack(r, w)
	oldest := r.At.Add(-historyAge)
	// The record in force at the horizon stays, so that a question about 23 hours ago has an answer.
	for len(list) > 1 && (list[1].at.Before(oldest) || len(list) >= historyPerWorkload) {
		list[0] = compact{}
		list = list[1:]
	}
	list = append(list, made)
	h.byKey[r.Workload.Key] = list
	h.total += len(list) - before
	if h.total > historyTotal {
		h.halve()
	}
}

// halve drops the older half of every list that has more than one record. It runs once in historyTotal/2 transitions.
func (h *History) halve() {
	h.total = 0
	for k, list := range h.byKey {
		if n := len(list); n > 1 {
			list = append([]compact(nil), list[n/2:]...)
			h.byKey[k] = list
		}
		h.total += len(list)
	}
}

// forget drops the records of policies that no longer stand, once the newest of them is out of reach of any question: names that
// are made for a job and never come back would otherwise stay for as long as the process. It looks once in forgetEvery.
func (h *History) forget(now time.Time, stands func(scaling.Key) bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	// A clock that stepped back looks at once, or it would not look until it caught up.
	if age := now.Sub(h.swept); age >= 0 && age < forgetEvery {
		return
	}
	h.swept = now
	oldest := now.Add(-historyAge)
	for k, list := range h.byKey {
		if list[len(list)-1].at.Before(oldest) && !stands(k) {
			h.total -= len(list)
			delete(h.byKey, k)
		}
	}
}

// At returns the record in force at an instant; ok is false where the history does not reach back that far.
func (h *History) At(k scaling.Key, at time.Time) (r Record, ok bool) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	list := h.byKey[k]
	i := sort.Search(len(list), func(i int) bool { return list[i].at.After(at) })
	if i == 0 {
		return Record{}, false
	}
	return list[i-1].record(), true
}

// Begins returns the time of the oldest record of a workload: of what was before, History knows nothing. ok is false where it has none.
func (h *History) Begins(k scaling.Key) (at time.Time, ok bool) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	list := h.byKey[k]
	if len(list) == 0 {
		return time.Time{}, false
	}
	return list[0].at, true
}

// Of returns a workload's transitions between two instants, oldest first.
func (h *History) Of(k scaling.Key, from, to time.Time) []Record {
	h.mu.RLock()
	defer h.mu.RUnlock()
	var out []Record
	for _, c := range h.byKey[k] {
		if !c.at.Before(from) && !c.at.After(to) {
			out = append(out, c.record())
		}
	}
	return out
}

// Walk visits a workload's transitions, newest first, until visit returns false. The history is locked meanwhile, so visit does not
// wait for anything.
func (h *History) Walk(k scaling.Key, visit func(*Record) bool) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	list := h.byKey[k]
	for i := len(list) - 1; i >= 0; i-- {
		if r := list[i].record(); !visit(&r) {
			return
		}
	}
}
