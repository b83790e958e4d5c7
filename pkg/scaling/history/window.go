package history

import "math"

// Windows and steps have a fixed size, so that a state of a workload has one, too.
const (
	// windowSize is the number of entries of a Window. The values of the entries are strictly decreasing, so a window is exact for up to
	// windowSize different values. If there are more, entries are merged, and a value then counts longer than it should, by at most
	// 1/overhold of the window's length.
	windowSize = 16
	overhold   = 7
)

// Window contains the recommendations of a stabilization window and returns the greatest. It is a monotonic deque: when a new value is at
// least as great as an older one, the older one is dropped, because it cannot be the greatest again.
type Window struct {
	n    int8
	list [windowSize]sample
}

// sample is a value and the time of its last proposal; the window counts from that time. late is the number of milliseconds by which merges
// have moved the time.
type sample struct {
	at    int64
	value int32
	late  int32
}

// Empty reports whether the window has no entry.
func (w *Window) Empty() bool { return w.n == 0 }

// Push adds the newest value. inForce is the last target: leastLate does not merge the entry that keeps it.
func (w *Window) Push(at int64, value, inForce int32) {
	for w.n > 0 && w.list[w.n-1].value <= value {
		w.n--
	}
	entry := sample{at: at, value: value}
	if w.n < windowSize {
		w.list[w.n] = entry
		w.n++
		return
	}
	i, late := w.leastLate(entry, inForce)
	w.list[i].at, w.list[i].late = w.after(i, entry).at, int32(min(late, math.MaxInt32))
	if i+1 < windowSize {
		copy(w.list[i+1:], w.list[i+2:])
		w.list[windowSize-1] = entry
	}
}

// leastLate returns the index of the entry of a full window to merge with the next entry. After the merge, the greater value of the two
// counts until the newer one expires. leastLate selects the entry for which this is the shortest time beyond its own window, and also
// returns that time in milliseconds.
//
// The last entry that is at least the last target is not merged with the next one: the announced earliest scale-down is the time at which
// it expires. The 17 entries (16 and the newest) contain 8 disjoint pairs, of which at least 7 can be merged. The times of these pairs add
// up to at most the length of the window, so the shortest is less than a seventh of it.
func (w *Window) leastLate(newest sample, inForce int32) (int, int64) {
	best, least := 0, int64(math.MaxInt64)
	for i := range windowSize {
		e, next := &w.list[i], w.after(i, newest)
		if e.value >= inForce && next.value < inForce {
			continue
		}
		if late := next.at - e.at + int64(e.late); late < least {
			best, least = i, late
		}
	}
	return best, least
}

// after returns the entry after the entry i. In a full window, the last entry is followed by newest, which is not in the list yet.
func (w *Window) after(i int, newest sample) sample {
	if i+1 < windowSize {
		return w.list[i+1]
	}
	return newest
}

// Expire drops the entries that are not newer than cutoff.
func (w *Window) Expire(cutoff int64) {
	var k int8
	for k < w.n && w.list[k].at <= cutoff {
		k++
	}
	if k > 0 {
		copy(w.list[:], w.list[k:w.n])
		w.n -= k
	}
}

// Greatest returns the greatest of value and the values newer than cutoff.
func (w *Window) Greatest(cutoff int64, value int32) int32 {
	for i := range w.n {
		if w.list[i].at > cutoff {
			return max(value, w.list[i].value)
		}
	}
	return value
}

// Last returns the time of the newest entry that is at least value, and false if there is none.
func (w *Window) Last(value int32) (at int64, ok bool) {
	for i := w.n - 1; i >= 0; i-- {
		if w.list[i].value >= value {
			return w.list[i].at, true
		}
	}
	return 0, false
}

// Shift moves the times of all entries by the given milliseconds, after the clock was set back.
func (w *Window) Shift(by int64) {
	for i := range w.n {
		w.list[i].at += by
	}
}
