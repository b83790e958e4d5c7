package scaling

import (
	"encoding/binary"
	"errors"

	"github.com/gpuscaler/gpuscaler/pkg/scaling/objective"
)

// Numbers encodes a state as integers, for a recording that starts while the controller runs. It omits the schedule cache, which follows
// from the policy.
func (s *State) Numbers() []int64 {
	out := []int64{truth(s.seeded()), s.at, int64(s.lastTarget), int64(s.extra), s.activeAt, s.panicUntil}
	for _, t := range s.trends {
		out = append(out, truth(t.known), word(t.fast), word(t.slow))
	}
	for _, o := range s.forecasts {
		out = append(out, truth(o.known), word(o.level), word(o.mean), word(o.spread))
	}
	for _, w := range []*window{&s.down, &s.up} {
		out = append(out, int64(w.n))
		for _, e := range w.list[:w.n] {
			out = append(out, e.at, pair(e.late, e.value))
		}
	}
	out = append(out, int64(s.steps.n))
	for _, e := range s.steps.list[:s.steps.n] {
		out = append(out, e.at, int64(e.low), int64(e.high))
	}
	if s.learner != nil {
		out = s.learner.numbers(out)
	}
	return out
}

// numbers appends what was learned: the time of the last observation, the replicas that are kept, the starts, and the bytes of the model,
// eight in a number. It omits the plan, which the next tick computes.
func (l *learner) numbers(out []int64) []int64 {
	b := &l.starts
	out = append(out, l.at, int64(l.keep.replicas), l.keep.until)
	out = append(out, truth(b.known), int64(b.ready), int64(b.pending), int64(b.target), b.targetAt, int64(b.n))
	for _, e := range b.list[:b.n] {
		out = append(out, e.at, e.placed, int64(e.count), truth(e.whole))
	}
	data, _ := l.model.AppendBinary(nil) // never fails
	out = append(out, int64(len(data)))
	for len(data) > 0 {
		var eight [8]byte
		data = data[copy(eight[:], data):]
		out = append(out, int64(binary.LittleEndian.Uint64(eight[:])))
	}
	return out
}

func truth(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// maxModel limits the bytes of an encoded model.
const maxModel = 1 << 16

// learner decodes the result of numbers.
func (r *reader) learner() (*learner, error) {
	l := &learner{model: objective.New(), at: r.next(), keep: keep{int32(r.next()), r.next()}}
	b := &l.starts
	b.known, b.ready, b.pending, b.target, b.targetAt = r.next() == 1, int32(r.next()), int32(r.next()), int32(r.next()), r.next()
	b.n = int8(r.count(len(b.list)))
	for i := range b.n {
		b.list[i] = start{r.next(), r.next(), int32(r.next()), r.next() == 1}
	}
	data := make([]byte, 0, 4096)
	size := int(r.count(maxModel))
	for len(data) < size && !r.bad {
		data = binary.LittleEndian.AppendUint64(data, uint64(r.next()))
	}
	if r.bad {
		return l, nil
	}
	return l, l.model.UnmarshalBinary(data[:size])
}

// StateOf decodes the result of Numbers. p must be the policy of the encoded state.
func StateOf(p *Policy, numbers []int64) (State, error) {
	r := reader{left: numbers}
	seeded := r.next() == 1
	s := State{policy: p, at: r.next(), lastTarget: int32(r.next()), extra: int32(r.next()), activeAt: r.next(), panicUntil: r.next()}
	for i := range s.trends {
		s.trends[i] = trend{r.next() == 1, number(r.next()), number(r.next())}
	}
	for i := range s.forecasts {
		s.forecasts[i] = forecastState{r.next() == 1, number(r.next()), number(r.next()), number(r.next())}
	}
	for _, w := range []*window{&s.down, &s.up} {
		w.n = int8(r.count(len(w.list)))
		for i := range w.n {
			at := r.next()
			late, value := halves(r.next())
			w.list[i] = sample{at, value, late}
		}
	}
	s.steps.n = int8(r.count(len(s.steps.list)))
	for i := range s.steps.n {
		s.steps.list[i] = step{r.next(), int32(r.next()), int32(r.next())}
	}
	var err error
	if p.Objective != nil && len(r.left) > 0 {
		s.learner, err = r.learner()
	}
	if err != nil || r.bad || len(r.left) > 0 || seeded != s.seeded() || seeded && (s.down.n == 0 || s.up.n == 0) {
		return State{}, errors.New("the numbers are not an encoded state")
	}
	return s, nil
}

// reader reads integers from a list. bad is true after a read beyond its end.
type reader struct {
	left []int64
	bad  bool
}

func (r *reader) next() int64 {
	if len(r.left) == 0 {
		r.bad = true
		return 0
	}
	v := r.left[0]
	r.left = r.left[1:]
	return v
}

func (r *reader) count(most int) int64 {
	n := r.next()
	if n < 0 || n > int64(most) {
		r.bad = true
		return 0
	}
	return n
}
