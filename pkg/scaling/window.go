package scaling

import "math"

// windowSize is the number of entries of a window. The values of the entries are strictly decreasing, so a window is exact for up to
// windowSize different values. With more, entries are merged, and a value counts for longer than the window, by at most 1/overhold of
// its length.
const (
	windowSize = 16
	overhold   = 7
)

// window returns the greatest value of a stabilization window. It is a monotonic deque: a value that a newer one reaches or exceeds
// can never be the greatest again and is dropped.
type window struct {
	n    int8
	list [windowSize]sample
}

// sample is a value and the time until which it counts as proposed. late is by how many milliseconds merges moved that time.
type sample struct {
	at    int64
	value int32
	late  int32
}

// push adds the newest value. inForce is the last target: see leastLate.
func (w *window) push(at int64, value, inForce int32) {
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

// leastLate returns the index of the entry of a full window to merge with the one after it: the entry whose value then counts for the
// shortest time beyond the window, from the time at which it was proposed. It also returns that excess in milliseconds.
//
// The last entry that reaches the last target is never merged with the first one below it, because the announced earliest scale-down is
// the time at which that entry expires. Of the 17 entries, 7 disjoint pairs remain that begin within the window, so the excess is less
// than a seventh of the window.
func (w *window) leastLate(newest sample, inForce int32) (int, int64) {
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

// after returns the entry after the i-th of a full window.
func (w *window) after(i int, newest sample) sample {
	if i+1 < windowSize {
		return w.list[i+1]
	}
	return newest
}

// expire drops the entries that are not newer than cutoff.
func (w *window) expire(cutoff int64) {
	var k int8
	for k < w.n && w.list[k].at <= cutoff {
		k++
	}
	if k > 0 {
		copy(w.list[:], w.list[k:w.n])
		w.n -= k
	}
}

// greatest returns the greatest of value and the values newer than cutoff.
func (w *window) greatest(cutoff int64, value int32) int32 {
	for i := range w.n {
		if w.list[i].at > cutoff {
			return max(value, w.list[i].value)
		}
	}
	return value
}

// last returns the newest time at which the value was reached, and false if no entry reaches it.
func (w *window) last(value int32) (at int64, ok bool) {
	for i := w.n - 1; i >= 0; i-- {
		if w.list[i].value >= value {
			return w.list[i].at, true
		}
	}
	return 0, false
}

// shift moves the window after a clock step.
func (w *window) shift(by int64) {
	for i := range w.n {
		w.list[i].at += by
	}
}
