package history

import (
	"slices"
	"sort"
	"sync"
	"time"
)

const (
	// maxAge is how long entries are kept, and the greatest age that `explain --at` accepts.
	maxAge = 24 * time.Hour
	// maxPerKey is the maximum number of entries of one key: one change every three minutes for 24 hours. Without this limit, a workload
	// that changes often would displace the entries of other workloads.
	maxPerKey = 480
	// maxTotal is the maximum number of entries of up to maxTotal/2 keys, which limits the memory for encoded decisions to about 10 MB. It
	// is enough for a day if each of a thousand workloads changes once an hour. If each of ten thousand workloads changes every ten minutes,
	// it is enough for less than half an hour; earlier changes are in the log of the controller. With more keys, the maximum is higher: see
	// most.
	maxTotal = 24_000
	// sweepInterval is the time between two deletions of the entries of removed keys. An entry of a removed key can therefore be older than
	// maxAge by up to this time.
	sweepInterval = time.Hour
)

// Entry is a value with the time of its change.
type Entry[V any] struct {
	At    time.Time
	Value V
}

// Log contains the newest entries of each key, oldest first, up to a maximum number. The zero value is an empty log. It is safe for
// concurrent use.
type Log[K comparable, V any] struct {
	mu    sync.RWMutex
	byKey map[K][]Entry[V]
	total int       // number of entries of all keys
	swept time.Time // time of the last deletion of the entries of removed keys
}

// Add appends an entry, whose time must not be before the last entry of the key.
func (l *Log[K, V]) Add(k K, at time.Time, v V) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byKey == nil {
		l.byKey = map[K][]Entry[V]{}
	}
	list := l.byKey[k]
	before := len(list)
	oldest := at.Add(-maxAge)
	// Keep the newest entry that is older than maxAge. It describes the decision that was current at the start of the last 24 hours.
	for len(list) > 1 && (list[1].At.Before(oldest) || len(list) >= maxPerKey) {
		list[0] = Entry[V]{} // lets the garbage collector free what the value refers to
		list = list[1:]
	}
	list = append(list, Entry[V]{at, v})
	l.byKey[k] = list
	l.total += len(list) - before
	if l.total > l.most() {
		l.halve()
	}
}

// most returns the maximum number of entries. One entry of each key is always kept, so with many keys the maximum is higher than maxTotal.
// Otherwise Add would call halve each time, and halve would leave only one entry of each key.
func (l *Log[K, V]) most() int { return max(maxTotal, len(l.byKey)+maxTotal/2) }

// halve deletes the older half of the entries of each key that has more than one entry. It deletes at least a quarter of maxTotal, so it
// runs at most once in maxTotal/4 calls of Add.
func (l *Log[K, V]) halve() {
	l.total = 0
	for k, list := range l.byKey {
		if n := len(list); n > 1 {
			list = slices.Clone(list[n/2:])
			l.byKey[k] = list
		}
		l.total += len(list)
	}
}

// Forget deletes the entries of a removed key when the newest of them is older than maxAge. Without it, names that are used once, for
// example by Jobs, would stay in memory forever. It does its work at most once per sweepInterval.
func (l *Log[K, V]) Forget(now time.Time, exists func(K) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	// A negative age means that the clock was set back. Forget then deletes without waiting. Otherwise, it would wait until the clock reaches
	// l.swept again.
	if age := now.Sub(l.swept); age >= 0 && age < sweepInterval {
		return
	}
	l.swept = now
	oldest := now.Add(-maxAge)
	for k, list := range l.byKey {
		if list[len(list)-1].At.Before(oldest) && !exists(k) {
			l.total -= len(list)
			delete(l.byKey, k)
		}
	}
}

// At returns the last entry that is not after a time; ok is false if the log has no such entry.
func (l *Log[K, V]) At(k K, at time.Time) (e Entry[V], ok bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	list := l.byKey[k]
	i := sort.Search(len(list), func(i int) bool { return list[i].At.After(at) })
	if i == 0 {
		return e, false
	}
	return list[i-1], true
}

// Begins returns the time of the oldest entry of a key; ok is false if it has none.
func (l *Log[K, V]) Begins(k K) (at time.Time, ok bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	list := l.byKey[k]
	if len(list) == 0 {
		return time.Time{}, false
	}
	return list[0].At, true
}

// Between returns the entries of a key from one time to another, oldest first. Both times are included.
func (l *Log[K, V]) Between(k K, from, to time.Time) (out []Entry[V]) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	for _, e := range l.byKey[k] {
		if !e.At.Before(from) && !e.At.After(to) {
			out = append(out, e)
		}
	}
	return out
}

// Walk calls visit for the entries of a key, newest first, until visit returns false. The log is locked during the calls, so visit must not
// block.
func (l *Log[K, V]) Walk(k K, visit func(Entry[V]) bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	for _, e := range slices.Backward(l.byKey[k]) {
		if !visit(e) {
			return
		}
	}
}
