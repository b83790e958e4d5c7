package scaling

import "math"

// Packed is a State in a compact encoding. A State has a fixed size, which is that of a policy with the maximum number of signals and
// schedules. Most policies use a tenth of it, so a caller with thousands of states keeps them packed. The zero Packed is the zero State.
// Pack and Unpack reuse memory.
type Packed struct {
	policy  *Policy
	learner *learner // the same pointer as in the State
	words   []int64
}

// packedHead is the number of words before the variable part (trends, forecasts, windows, steps and schedules).
const packedHead = 6

// Pack encodes s in p. It reuses the memory of p.
func (p *Packed) Pack(s *State) {
	w := append(p.words[:0], pair(s.lastTarget, s.extra), s.at, s.activeAt, s.panicUntil, 0, 0)
	var known, expected int64 // one bit for each signal or forecast
	for i := range s.trends {
		if t := &s.trends[i]; t.known {
			known |= 1 << i
			w = append(w, word(t.fast), word(t.slow))
		}
	}
	for i := range s.forecasts {
		if o := &s.forecasts[i]; o.known {
			expected |= 1 << i
			w = append(w, word(o.level), word(o.mean), word(o.spread))
		}
	}
	for _, e := range s.down.list[:s.down.n] {
		w = append(w, e.at, pair(e.late, e.value))
	}
	for _, e := range s.up.list[:s.up.n] {
		w = append(w, e.at, pair(e.late, e.value))
	}
	for _, e := range s.steps.list[:s.steps.n] {
		w = append(w, e.at, pair(e.low, e.high))
	}
	schedules := 0
	if s.policy != nil {
		schedules = min(len(s.policy.Schedules), MaxSchedules)
	}
	if schedules > 0 {
		w = append(w, s.schedules.from, s.schedules.until, int64(s.schedules.open)<<16|int64(s.schedules.ahead))
		w = append(w, s.schedules.change[:schedules]...)
	}
	w[4] = known<<8 | expected
	w[5] = int64(s.down.n) | int64(s.up.n)<<8 | int64(s.steps.n)<<16 | int64(schedules)<<24
	p.policy, p.learner, p.words = s.policy, s.learner, w
}

// Unpack sets s to the state that was packed.
func (p *Packed) Unpack(s *State) {
	*s = State{policy: p.policy, learner: p.learner}
	if len(p.words) == 0 {
		return
	}
	w := p.words
	s.lastTarget, s.extra = halves(w[0])
	s.at, s.activeAt, s.panicUntil = w[1], w[2], w[3]
	flags, counts := w[4], w[5]
	w = w[packedHead:]
	for i := range s.trends {
		if flags>>8&(1<<i) != 0 {
			s.trends[i], w = trend{true, number(w[0]), number(w[1])}, w[2:]
		}
	}
	for i := range s.forecasts {
		if flags&(1<<i) != 0 {
			s.forecasts[i], w = forecastState{true, number(w[0]), number(w[1]), number(w[2])}, w[3:]
		}
	}
	s.down.n, s.up.n, s.steps.n = int8(counts), int8(counts>>8), int8(counts>>16)
	for _, list := range [2][]sample{s.down.list[:s.down.n], s.up.list[:s.up.n]} {
		for i := range list {
			late, value := halves(w[1])
			list[i], w = sample{w[0], value, late}, w[2:]
		}
	}
	for i := range s.steps.n {
		low, high := halves(w[1])
		s.steps.list[i], w = step{w[0], low, high}, w[2:]
	}
	if n := int(counts >> 24); n > 0 {
		s.schedules.from, s.schedules.until, s.schedules.open, s.schedules.ahead = w[0], w[1], uint16(w[2]>>16), uint16(w[2])
		copy(s.schedules.change[:], w[3:3+n])
	}
}

// Copy sets p to q and reuses the memory of p.
func (p *Packed) Copy(q *Packed) {
	p.policy, p.learner, p.words = q.policy, q.learner, append(p.words[:0], q.words...)
}

func word(v float64) int64        { return int64(math.Float64bits(v)) }
func number(v int64) float64      { return math.Float64frombits(uint64(v)) }
func pair(a, b int32) int64       { return int64(a)<<32 | int64(uint32(b)) }
func halves(v int64) (a, b int32) { return int32(v >> 32), int32(v) }
