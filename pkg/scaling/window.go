package scaling

// windowSize bounds the entries of a window. Kept values fall strictly, so the window is exact for up to this many different
// numbers of replicas; beyond, neighbors are merged and the greater one stays longer.
const windowSize = 16

// window answers "the greatest value of the last while" exactly, in few entries: a value that a newer one reaches or passes can
// never be the greatest again and is dropped at once (a monotonic deque).
type window struct {
	n    int8
	list [windowSize]sample // a quiet one has a single entry, next to n in memory
}

type sample struct {
	at    int64
	value int32
}

// push adds the newest value.
func (w *window) push(at int64, value int32) {
	for w.n > 0 && w.list[w.n-1].value <= value {
		w.n--
	}
	if w.n == windowSize {
		w.merge()
	}
	w.list[w.n] = sample{at, value}
	w.n++
}

// merge makes one entry of the two neighbors closest in time: the greater value until the later instant. The window then holds a
// little too long, never too short.
func (w *window) merge() {
	least := 0
	for i := 1; i+1 < windowSize; i++ {
		if w.list[i+1].at-w.list[i].at < w.list[least+1].at-w.list[least].at {
			least = i
		}
	}
	w.list[least].at = w.list[least+1].at
	copy(w.list[least+1:], w.list[least+2:])
	w.n--
}

// expire forgets what is not newer than cutoff.
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

// greatest is the greatest of value and what is newer than cutoff.
func (w *window) greatest(cutoff int64, value int32) int32 {
	for i := range w.n {
		if w.list[i].at > cutoff {
			return max(value, w.list[i].value)
		}
	}
	return value
}

// last is the newest instant at which the value was reached, and false where no entry reaches it.
func (w *window) last(value int32) (at int64, ok bool) {
	for i := w.n - 1; i >= 0; i-- {
		if w.list[i].value >= value {
			return w.list[i].at, true
		}
	}
	return 0, false
}

func (w *window) shift(by int64) {
	for i := range w.n {
		w.list[i].at += by
	}
}
