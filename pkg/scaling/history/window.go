package history

import "math"

// Windows and steps (see Steps) have a fixed size, so that the state of a workload also has a fixed size.
const (
	// windowSize is the number of entries of a Window, which have different values. With at most this number of different values, the window
	// is exact. With more, entries are merged, and the value of a merged entry expires too late: by at most one seventh (1/overhold) of the
	// length of the window.
	windowSize = 16
	overhold   = 7
)

// Window contains the recommendations of a stabilization window and returns the greatest of them. It is a monotonic deque: a value is
// dropped when a new value is at least as great, because it can no longer be the greatest value.
type Window struct {
	n    int8
	list [windowSize]sample
}

// sample is a value and the last time at which it was proposed. It expires one window length after this time. late is the number of
// milliseconds by which Push has moved this time to later when it merged entries.
type sample struct {
	at    int64
	value int32
	late  int32
}

// Empty reports whether the window has no entry.
func (w *Window) Empty() bool { return w.n == 0 }

// Push adds the newest value. If the window is full, Push merges two entries (see leastLate). The parameter inForce is the last target. The
// entry that prevents a target below the last target is not merged.
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

// leastLate selects the entry of a full window that Push merges with the entry after it, and returns its index. The merged entry has the
// value of the older entry, which is greater, and the time of the newer entry. The value therefore has an effect for longer than the length
// of the window. leastLate selects the entry for which this additional time is the shortest, and also returns this time in milliseconds.
//
// The last entry whose value is at least inForce is not merged with the entry after it, because Decision.EarliestScaleDown is the time at
// which this entry expires. The additional time is less than a seventh of the length of the window, for this reason: the 17 entries (16 and
// the newest) form 8 disjoint pairs, and at least 7 of these pairs can be merged. The time differences within these 7 pairs add up to at
// most the length of the window.
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

// after returns the entry that follows entry i. For the last entry of a full window, it returns newest, which Push has not added to the
// list.
func (w *Window) after(i int, newest sample) sample {
	if i+1 < windowSize {
		return w.list[i+1]
	}
	return newest
}

// Expire drops the entries whose time is at or before the parameter cutoff.
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

// Greatest returns the greatest value of the entries whose time is after the parameter cutoff. If the parameter value is greater, it
// returns value.
func (w *Window) Greatest(cutoff int64, value int32) int32 {
	for i := range w.n {
		if w.list[i].at > cutoff {
			return max(value, w.list[i].value)
		}
	}
	return value
}

// Last returns the time of the newest entry whose value is at least the given value, and false if there is none.
func (w *Window) Last(value int32) (at int64, ok bool) {
	for i := w.n - 1; i >= 0; i-- {
		if w.list[i].value >= value {
			return w.list[i].at, true
		}
	}
	return 0, false
}

// Shift moves the times of all entries by the given number of milliseconds. It is called after the clock was set back.
func (w *Window) Shift(by int64) {
	for i := range w.n {
		w.list[i].at += by
	}
}
