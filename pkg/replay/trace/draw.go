package trace

import (
	"container/heap"
	"math"
	"slices"
	"time"
)

// arrivals draws one client, window by window; only one window is in memory.
type arrivals struct {
	client *client
	draw   draw
	next   int // window
	rank   int // of the client: ties go to the lower
	src    source
	times  []float64 // the window's arrivals, in mean intervals from its start
	total  float64   // the window's length in mean intervals
	cursor int
	window window
	head   Request
}

// fill draws the window's arrivals.
//
// A recorded window says how many requests there were, so that many are drawn:
// n intervals around a circle of the window's length, cut at a random instant.
// The interval that is cut is length-biased, which makes every instant of the
// window as likely as any other and the gaps across its border as long as those
// within (were the first arrival one interval after the border, each window
// would begin with a lull). A count that is not whole is rounded up with the
// odds of its fraction.
func (a *arrivals) fill() {
	w := a.window
	a.src = newSource(a.draw.seed, a.client.name, int64(w.at))
	n := wholeCount(w.n, &a.src)
	a.times, a.cursor = slices.Grow(a.times[:0], n), 0
	if n == 0 {
		return
	}
	iv := newIntervals(w.family, w.cv)
	cut := iv.spanning(&a.src)
	at := mul(a.src.uniform(), cut)
	after := cut - at // the part of the cut interval that closes the circle
	a.times = append(a.times, at)
	for range n - 1 {
		at += iv.next(&a.src)
		a.times = append(a.times, at)
	}
	a.total = at + after
}

// wholeCount rounds n to a whole number whose mean is n.
func wholeCount(n float64, s *source) int {
	whole := math.Floor(n)
	if frac := n - whole; frac > 0 && s.uniform() < frac {
		whole++
	}
	return int(whole)
}

// advance moves head to the client's next arrival inside [from, end).
func (a *arrivals) advance(end time.Duration) bool {
	for {
		for a.cursor == len(a.times) {
			if a.next == len(a.client.windows) {
				return false
			}
			a.window = a.client.windows[a.next]
			a.next++
			a.fill()
		}
		share := a.times[a.cursor] / a.total
		a.cursor++
		within := min(time.Duration(mul(share, float64(a.window.length))), a.window.length-1)
		a.head = Request{At: a.window.at + within - a.draw.from, InputTokens: UnknownTokens, OutputTokens: UnknownTokens}
		a.draw.tokens.fill(&a.head, &a.src)
		if a.head.At >= end {
			return false
		}
		if a.head.At >= 0 {
			return true
		}
	}
}

// merge is the clients' arrivals in order of time.
type merge struct {
	heads []*arrivals // a heap
	end   time.Duration
}

func newMerge(t *Trace) *merge {
	m := &merge{end: t.Duration}
	for i := range t.clients {
		a := &arrivals{client: &t.clients[i], rank: i, draw: t.draw}
		if a.advance(m.end) {
			m.heads = append(m.heads, a)
		}
	}
	heap.Init(m)
	return m
}

func (m *merge) Next() (Request, bool) {
	if len(m.heads) == 0 {
		return Request{}, false
	}
	first := m.heads[0]
	r := first.head
	if first.advance(m.end) {
		heap.Fix(m, 0)
	} else {
		heap.Pop(m)
	}
	return r, true
}

func (m *merge) Len() int { return len(m.heads) }
func (m *merge) Less(i, j int) bool {
	a, b := m.heads[i], m.heads[j]
	return a.head.At < b.head.At || a.head.At == b.head.At && a.rank < b.rank
}
func (m *merge) Swap(i, j int) { m.heads[i], m.heads[j] = m.heads[j], m.heads[i] }
func (m *merge) Push(any)      {} // nothing is pushed: a client ends once
func (m *merge) Pop() any {
	m.heads = m.heads[:len(m.heads)-1]
	return nil
}
