package scaling

import (
	"errors"
)

// Numbers encodes a state as integers, for a recording that starts while the controller runs. It omits the schedule cache, which follows
// from the policy.
func (s *State) Numbers() []int64 {
	flag := func(b bool) int64 {
		if b {
			return 1
		}
		return 0
	}
	out := []int64{flag(s.seeded()), s.at, int64(s.lastTarget), int64(s.extra), s.activeAt, s.panicUntil}
	for _, t := range s.trends {
		out = append(out, flag(t.known), word(t.fast), word(t.slow))
	}
	for _, o := range s.forecasts {
		out = append(out, flag(o.known), word(o.level), word(o.mean), word(o.spread))
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
	return out
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
	if r.bad || len(r.left) > 0 || seeded != s.seeded() || seeded && (s.down.n == 0 || s.up.n == 0) {
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
