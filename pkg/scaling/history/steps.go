package history

import "math"

// stepsSize is the maximum number of steps that are stored. If a new step exceeds it, two successive steps are merged into one step with a
// range of replicas. The duration of a merged step is at most one seventh (1/overhold) of the longest period of the rates.
const stepsSize = 16

// Steps is the history of a target. A rate limit uses it to find the number of replicas at the start of its period. An HPA computes the
// same number from its scale events: current replicas - added + deleted within the period.
type Steps struct {
	n    int8
	list [stepsSize]Step
}

// Step is a number of replicas that was the target from Start until the next step. Low and High differ only if steps were merged. An
// increase is compared with Low and a decrease with High, so that merged steps never permit a greater change than exact steps.
type Step struct {
	Start     int64
	Low, High int32
}

// Empty reports whether no step was added.
func (s *Steps) Empty() bool { return s.n == 0 }

// All returns the steps, with the oldest first. The slice shares memory with s.
func (s *Steps) All() []Step { return s.list[:s.n] }

// Last returns the newest number of replicas. s must not be empty. Low and High of the newest step are always equal, because the newest
// step is never merged.
func (s *Steps) Last() int32 { return s.list[s.n-1].Low }

// Push adds a step of n replicas. The parameter at is the time at which the step begins. The parameter keep is the longest period of the
// rate limits, in milliseconds. Push drops the steps that ended earlier than keep before the new step begins.
func (s *Steps) Push(at int64, n int32, keep int64) {
	var k int8
	for k+1 < s.n && s.list[k+1].Start <= at-keep {
		k++
	}
	if k > 0 {
		copy(s.list[:], s.list[k:s.n])
		s.n -= k
	}
	if s.n == stepsSize {
		s.merge(at)
	}
	s.list[s.n] = Step{at, n, n}
	s.n++
}

// merge replaces two successive steps with one step whose range of replicas contains both. It selects the pair with the shortest total
// duration. The parameter end is the end of the last step. This duration is at most a seventh of the longest period: 15 of the 16 steps
// began within the longest period, and contain 7 disjoint pairs, whose durations add up to at most this period.
func (s *Steps) merge(end int64) {
	best, least := 0, int64(math.MaxInt64)
	for i := range stepsSize - 1 {
		ends := end
		if i+2 < stepsSize {
			ends = s.list[i+2].Start
		}
		if lasts := ends - s.list[i].Start; lasts < least {
			best, least = i, lasts
		}
	}
	a, b := s.list[best], s.list[best+1]
	s.list[best] = Step{a.Start, min(a.Low, b.Low), max(a.High, b.High)}
	copy(s.list[best+1:], s.list[best+2:])
	s.n--
}

// At returns the step at the time at. If at is before the oldest step, it returns the oldest step.
func (s *Steps) At(at int64) Step {
	for i := s.n - 1; i > 0; i-- {
		if s.list[i].Start <= at {
			return s.list[i]
		}
	}
	return s.list[0]
}

// Shift moves the times of all steps by the given number of milliseconds. It is called after the clock was set back.
func (s *Steps) Shift(by int64) {
	for i := range s.n {
		s.list[i].Start += by
	}
}
