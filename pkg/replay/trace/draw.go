package trace

import (
	"container/heap"
	"math"
	"slices"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/reproducible"
)

// arrivals draws the arrivals of one client window by window. Only one window is in memory.
type arrivals struct {
	client  *Client
	drawing Drawing
	next    int // index of the next window
	rank    int // index of the client; if two clients have an arrival at the same time, the arrival with the lower rank is first
	src     reproducible.Draws
	times   []float64 // times of the arrivals since the start of the window, in units of the mean interval
	total   float64   // length of the window, in units of the mean interval
	cursor  int
	window  ClientWindow
	head    Request
}

// fill draws the arrivals of the window.
//
// A recorded window has a number n of requests. fill draws n intervals and places them on a circle with the length of the window. It then
// cuts the circle at a random position, which becomes the border of the window. A long interval is more likely to be cut, so the cut
// interval is drawn from the distribution of Spanning. As a result, every time in the window is equally likely, and the gaps at the borders
// are as long as those within the window. (If the first arrival were one interval after the border, each window would begin with a gap.) A
// fractional n is rounded up with the probability of its fraction.
func (a *arrivals) fill() {
	w := a.window
	a.src = reproducible.Numbered(a.drawing.Seed, a.client.Name, int64(w.At))
	n := wholeCount(w.Requests, &a.src)
	a.times, a.cursor = slices.Grow(a.times[:0], n), 0
	if n == 0 {
		return
	}
	iv := reproducible.NewIntervals(w.Family, w.CV)
	cut := iv.Spanning(&a.src)
	at := reproducible.Mul(a.src.Uniform(), cut)
	after := cut - at // the part of the cut interval that is after the cut
	a.times = append(a.times, at)
	for range n - 1 {
		at += iv.Next(&a.src)
		a.times = append(a.times, at)
	}
	a.total = at + after
}

// wholeCount rounds n up with the probability of its fraction, and down otherwise. The mean of the result is n.
func wholeCount(n float64, s *reproducible.Draws) int {
	whole := math.Floor(n)
	if frac := n - whole; frac > 0 && s.Uniform() < frac {
		whole++
	}
	return int(whole)
}

// advance stores the next arrival of the client in the field head. It skips arrivals before the selected part of the trace. It returns
// false if no arrival before the time end is left.
func (a *arrivals) advance(end time.Duration) bool {
	for {
		for a.cursor == len(a.times) {
			if a.next == len(a.client.Windows) {
				return false
			}
			a.window = a.client.Windows[a.next]
			a.next++
			a.fill()
		}
		share := a.times[a.cursor] / a.total
		a.cursor++
		within := min(time.Duration(reproducible.Mul(share, float64(a.window.Length))), a.window.Length-1)
		a.head = Request{At: a.window.At + within - a.drawing.From, InputTokens: UnknownTokens, OutputTokens: UnknownTokens}
		a.drawing.Tokens.Fill(&a.head, &a.src)
		if a.head.At >= end {
			return false
		}
		if a.head.At >= 0 {
			return true
		}
	}
}

// merge is a Stream that returns the arrivals of all clients in the order of time.
type merge struct {
	heads []*arrivals // clients as a heap, ordered by their next arrival
	end   time.Duration
}

func newMerge(t *Trace) *merge {
	m := &merge{end: t.Duration}
	for i := range t.clients {
		a := &arrivals{client: &t.clients[i], rank: i, drawing: t.drawing}
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
func (m *merge) Push(any)      {} // never called, because clients are only removed
func (m *merge) Pop() any {
	m.heads = m.heads[:len(m.heads)-1]
	return nil
}
