package scaling

import (
	"errors"
	"slices"

	"github.com/gpuscaler/gpuscaler/pkg/scaling/history"
	"github.com/gpuscaler/gpuscaler/pkg/scaling/objective"
	"github.com/gpuscaler/gpuscaler/pkg/scaling/planner"
)

// Packed is a State in a compact encoding. A State always has the size for the maximum number of signals and schedules, but most policies
// need only a tenth of this memory. A caller with thousands of states therefore stores them packed. The zero Packed is the zero State. Pack
// and Unpack reuse memory.
type Packed struct {
	policy  *Policy
	planner *planner.Planner // the same pointer as in the State: the planner is shared and not copied
	words   []int64
}

// Pack encodes s in p. It reuses the memory of p.
func (p *Packed) Pack(s *State) {
	schedules := 0
	if s.policy != nil {
		schedules = min(len(s.policy.Schedules), MaxSchedules)
	}
	words := s.appendWords(p.words[:0], schedules)
	if cap(words) > cap(p.words) {
		words = slices.Clone(words) // without Clone, the slice could have reserved twice the memory that the words need
	}
	p.policy, p.planner, p.words = s.policy, s.planner, words
}

// Unpack sets s to the state that was packed in p.
func (p *Packed) Unpack(s *State) {
	*s = State{policy: p.policy, planner: p.planner}
	if len(p.words) > 0 {
		s.readWords(&history.Reader{Words: p.words})
	}
}

// Copy sets p to a copy of q. It reuses the memory of p.
func (p *Packed) Copy(q *Packed) {
	p.policy, p.planner, p.words = q.policy, q.planner, append(p.words[:0], q.words...)
}

// Learned returns the model of the objective in the packed state, or nil if there is none. The caller must not change it.
func (p *Packed) Learned() *objective.Model { return p.planner.Model() }

// Numbers returns the state encoded as integers. A recording that starts while the controller runs contains these integers. They do not
// include the schedule cache, because Decide can compute it again from the policy.
func (s *State) Numbers() []int64 {
	out := s.appendWords(nil, 0)
	if s.planner != nil {
		out = s.planner.Append(out)
	}
	return out
}

// StateOf decodes the result of Numbers. p must be the policy of the encoded state.
func StateOf(p *Policy, numbers []int64) (State, error) {
	r := history.Reader{Words: numbers}
	s := State{policy: p}
	s.readWords(&r)
	var err error
	if p.Objective != nil && len(r.Words) > 0 {
		s.planner, err = planner.Read(&r)
	}
	complete := s.seeded() == !s.down.Empty() && s.seeded() == !s.up.Empty()
	if err != nil || r.Invalid || len(r.Words) > 0 || !complete || s.schedules != (scheduleCache{}) {
		return State{}, errors.New("the numbers are not an encoded state")
	}
	return s, nil
}

// appendWords appends the encoded state, without the policy and the planner, to the slice words. The parameter schedules is the number of
// entries of the schedule cache to encode. Pack uses this encoding for states in memory, and Numbers for recordings.
func (s *State) appendWords(words []int64, schedules int) []int64 {
	var trends, forecasts int64 // one bit for each trend and forecast that has a value
	for i := range MaxSignals {
		if s.trends[i].Known {
			trends |= 1 << i
		}
		if s.forecasts[i].Known {
			forecasts |= 1 << i
		}
	}
	words = append(words, history.Pair(s.lastTarget, s.extra), s.at, s.activeAt, s.panicUntil,
		int64(schedules)<<16|trends<<8|forecasts)
	for i := range s.trends {
		if s.trends[i].Known {
			words = s.trends[i].Append(words)
		}
	}
	for i := range s.forecasts {
		if s.forecasts[i].Known {
			words = s.forecasts[i].Append(words)
		}
	}
	words = s.steps.Append(s.up.Append(s.down.Append(words)))
	if schedules > 0 {
		words = append(words, s.schedules.from, s.schedules.until,
			int64(s.schedules.learned)<<32|int64(s.schedules.open)<<16|int64(s.schedules.ahead))
		words = append(words, s.schedules.change[:schedules]...)
	}
	return words
}

// readWords decodes the result of appendWords into s. All fields of s except policy and planner must be zero.
func (s *State) readWords(r *history.Reader) {
	head := r.Take(5)
	if len(head) < 5 {
		return
	}
	s.lastTarget, s.extra = history.Halves(head[0])
	s.at, s.activeAt, s.panicUntil = head[1], head[2], head[3]
	known := head[4]
	for i := range s.trends {
		if known>>8&(1<<i) != 0 {
			s.trends[i].Read(r)
		}
	}
	for i := range s.forecasts {
		if known&(1<<i) != 0 {
			s.forecasts[i].Read(r)
		}
	}
	s.down.Read(r)
	s.up.Read(r)
	s.steps.Read(r)
	schedules := known >> 16
	if schedules < 0 || schedules > MaxSchedules {
		r.Invalid = true
	} else if schedules > 0 {
		s.schedules.from, s.schedules.until = r.Next(), r.Next()
		bits := r.Next()
		s.schedules.learned, s.schedules.open, s.schedules.ahead = uint16(bits>>32), uint16(bits>>16), uint16(bits)
		for i := range schedules {
			s.schedules.change[i] = r.Next()
		}
	}
}
