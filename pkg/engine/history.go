package engine

import (
	"sort"
	"sync"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

const (
	// historyAge is how long records are kept, and the greatest age that `explain --at` accepts.
	historyAge = 24 * time.Hour
	// historyPerWorkload is the maximum number of records of one workload: one change every three minutes for 24 hours. Without this limit,
	// a workload that changes often would displace the records of others.
	historyPerWorkload = 480
	// historyTotal is the maximum number of records of up to historyTotal/2 workloads, which limits their memory to about 10 MB. This is
	// enough for a day if each of a thousand workloads changes once an hour, but for less than half an hour if each of ten thousand workloads
	// changes every ten minutes. Earlier changes are in the log. With more workloads the maximum is higher; see most.
	historyTotal = 24_000
	// sweepInterval is the time between two deletions of the records of removed policies. These records can therefore be this much older
	// than historyAge.
	sweepInterval = time.Hour
)

// History contains the newest transitions of each workload, oldest first, up to a maximum number.
type History struct {
	mu    sync.RWMutex
	byKey map[scaling.Key][]packed
	total int
	swept time.Time // when forget last checked all keys
	small packer
}

func newHistory() *History { return &History{byKey: map[scaling.Key][]packed{}} }

// add stores r. It stores the pointer w in place of the workload in r. w is a copy that never changes, and all records of the same version
// of the policy share it.
func (h *History) add(r *Record, w *scaling.Workload) {
	h.mu.Lock()
	defer h.mu.Unlock()
	list := h.byKey[r.Workload.Key]
	before := len(list)
	made := h.small.pack(r, w)
	oldest := r.At.Add(-historyAge)
	// Keep the newest record that is older than historyAge: it is the decision that was current historyAge ago.
	for len(list) > 1 && (list[1].at.Before(oldest) || len(list) >= historyPerWorkload) {
		list[0] = packed{}
		list = list[1:]
	}
	list = append(list, made)
	h.byKey[r.Workload.Key] = list
	h.total += len(list) - before
	if h.total > h.most() {
		h.halve()
	}
}

// most returns the maximum number of records. One record of each workload is always kept, so with many workloads the maximum is higher than
// historyTotal. Otherwise halve would run in each transition and leave only this record.
func (h *History) most() int { return max(historyTotal, len(h.byKey)+historyTotal/2) }

// halve deletes the older half of the records of each workload that has more than one. This is at least a quarter of historyTotal, so halve
// runs at most once in historyTotal/4 transitions.
func (h *History) halve() {
	h.total = 0
	for k, list := range h.byKey {
		if n := len(list); n > 1 {
			list = append([]packed(nil), list[n/2:]...)
			h.byKey[k] = list
		}
		h.total += len(list)
	}
}

// forget deletes the records of a removed policy when the newest of them is older than historyAge. Without it, names that are used once,
// for example by Jobs, would stay in memory forever. It does its work at most once per sweepInterval.
func (h *History) forget(now time.Time, exists func(scaling.Key) bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	// A negative age means that the clock was set back. The deletion is then due at once. Otherwise, it would wait until the clock reaches
	// h.swept again.
	if age := now.Sub(h.swept); age >= 0 && age < sweepInterval {
		return
	}
	h.swept = now
	oldest := now.Add(-historyAge)
	for k, list := range h.byKey {
		if list[len(list)-1].at.Before(oldest) && !exists(k) {
			h.total -= len(list)
			delete(h.byKey, k)
		}
	}
}

// At returns the record of the decision that was current at a time; ok is false if the history does not go back that far.
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

// Begins returns the time of the oldest record of a workload; ok is false if it has none.
func (h *History) Begins(k scaling.Key) (at time.Time, ok bool) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	list := h.byKey[k]
	if len(list) == 0 {
		return time.Time{}, false
	}
	return list[0].at, true
}

// Of returns a workload's transitions between two times, oldest first.
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

// Walk calls visit for a workload's transitions, newest first, until visit returns false. The history is locked during the calls, so visit
// must not block.
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
