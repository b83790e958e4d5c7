package scaling

// windowSize bounds the entries of a window. Kept values fall strictly, so the window is exact for up to this many different
// numbers of replicas; beyond, neighbors are merged and the greater one stays longer.
const windowSize = 20

// window answers "the greatest value of the last while" exactly, in few entries: a value that a newer one reaches or passes can
// never be the greatest again and is dropped at once (a monotonic deque).
type window struct {
	at    [windowSize]int64
	value [windowSize]int32
	n     int8
}

// push adds the newest value.
func (w *window) push(at int64, value int32) {
	for w.n > 0 && w.value[w.n-1] <= value {
		w.n--
	}
	if w.n == windowSize {
		w.merge()
	}
	w.at[w.n], w.value[w.n] = at, value
	w.n++
}

// merge makes one entry of the two neighbors closest in time: the greater value until the later instant. The window then holds a
// little too long, never too short.
func (w *window) merge() {
	least := 0
	for i := 1; i+1 < windowSize; i++ {
		if w.at[i+1]-w.at[i] < w.at[least+1]-w.at[least] {
			least = i
		}
	}
	w.at[least] = w.at[least+1]
	copy(w.at[least+1:], w.at[least+2:])
	copy(w.value[least+1:], w.value[least+2:])
	w.n--
}

// expire forgets what is not newer than cutoff.
func (w *window) expire(cutoff int64) {
	var k int8
	for k < w.n && w.at[k] <= cutoff {
		k++
	}
	if k > 0 {
		copy(w.at[:], w.at[k:w.n])
		copy(w.value[:], w.value[k:w.n])
		w.n -= k
	}
}

// greatest is the greatest of value and what is newer than cutoff.
func (w *window) greatest(cutoff int64, value int32) int32 {
	for i := range w.n {
		if w.at[i] > cutoff {
			return max(value, w.value[i])
		}
	}
	return value
}

// last is the newest instant at which the value was reached, and false where no entry reaches it.
func (w *window) last(value int32) (at int64, ok bool) {
	for i := w.n - 1; i >= 0; i-- {
		if w.value[i] >= value {
			return w.at[i], true
		}
	}
	return 0, false
}

func (w *window) shift(by int64) {
	for i := range w.n {
		w.at[i] += by
	}
}
