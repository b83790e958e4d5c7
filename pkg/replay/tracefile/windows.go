package tracefile

import (
	"fmt"
	"math"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/reproducible"
	"github.com/gpuscaler/gpuscaler/pkg/replay/trace"
	"github.com/gpuscaler/gpuscaler/pkg/replay/tracefile/input"
)

// windowLength returns the length of a window. It is the most frequent time between the starts of two successive windows. If several times
// are equally frequent, it is the shortest of them. If no client has two windows, it is Options.Window.
func (b *rateBuilder) windowLength() time.Duration {
	if b.step > 0 {
		return b.step
	}
	seen := map[int64]int{}
	best := int64(0)
	for _, own := range b.samples {
		for i := 1; i < len(own); i++ {
			d := own[i].ns - own[i-1].ns
			seen[d]++
			if seen[d] > seen[best] || seen[d] == seen[best] && d < best {
				best = d
			}
		}
	}
	if best == 0 {
		return b.o.Window
	}
	return time.Duration(best)
}

// windows returns the window of each sample of a client, with its length and its number of requests. If the time between two successive
// samples is longer than step, a gap with an unknown rate follows the window of the earlier sample.
func (b *rateBuilder) windows(p input.Place, own []sample, origin int64, step time.Duration) ([]trace.ClientWindow, *trace.Error) {
	out := make([]trace.ClientWindow, 0, len(own))
	for i, s := range own {
		length := step
		if i+1 < len(own) {
			apart := time.Duration(own[i+1].ns - s.ns)
			p.Line = own[i+1].line
			var err *trace.Error
			if length, err = b.length(p, apart, step, b.clock.Text(own[i+1].ns)); err != nil {
				return nil, err
			}
		}
		p.Line = s.line
		n, err := b.count(p, s, length, step)
		if err != nil {
			return nil, err
		}
		out = append(out, trace.ClientWindow{At: time.Duration(s.ns - origin), Length: length, Requests: n, CV: s.cv, Family: s.family})
	}
	return out, nil
}

// length returns the length of a window. The parameter apart is the time from the start of the window to the start of the next window, and
// step is the usual time between two starts. If apart is longer than step, a gap follows the window. Depending on Options.Gaps, the window
// is extended to the end of the gap, or ends before the gap, or the gap is an error.
func (b *rateBuilder) length(p input.Place, apart, step time.Duration, next string) (time.Duration, *trace.Error) {
	hole := apart - step
	switch {
	case hole <= 0:
		return apart, nil
	case b.o.Gaps == ZeroGaps:
		return step, nil
	case b.o.Gaps == HoldGaps || hole <= heldGap:
		b.seen.held++
		return apart, nil
	}
	return 0, p.Refuse(fmt.Sprintf("a gap of %v without a rate before %s", hole, next),
		fmt.Sprintf("windows %v apart, or gaps of up to %v; set gaps: hold or gaps: zero for longer ones", step, heldGap))
}

// count returns the number of requests in a window, multiplied by Options.Scale.
func (b *rateBuilder) count(p input.Place, s sample, length, step time.Duration) (float64, *trace.Error) {
	per := time.Second
	switch b.o.Unit {
	case PerMinute:
		per = time.Minute
	case PerWindow:
		per = step
	}
	rate := s.rate / per.Seconds()
	n := reproducible.Mul(s.rate, length.Seconds()/per.Seconds())
	if whole := math.Round(n); math.Abs(n-whole) < 1e-6 {
		n = whole // the recorded rate is a whole number divided by the length: 1.3316666666666668/s in 600 s is 799
	}
	n = reproducible.Mul(n, b.o.Scale)
	if !(rate <= trace.MaxRate) || !(n <= maxPerWindow) {
		return 0, p.Refuse(fmt.Sprintf("%g requests in a window of %v", n, length),
			fmt.Sprintf("up to %g requests/s and %d a window; or another unit", trace.MaxRate, maxPerWindow))
	}
	return n, nil
}

func (b *rateBuilder) notes() []string {
	var n notes
	if b.clock.NoZone {
		n.say("timestamps without a time zone are read as " + b.o.Location.String())
	}
	n.count(b.seen.rows.headers, "repeated header lines, skipped")
	n.count(b.seen.rows.filtered, "rows filtered out")
	n.count(b.seen.noFamily, fmt.Sprintf("windows without a family, read as %s", b.o.Family))
	n.count(b.seen.services, "files with a column of service times, which is not used for rates")
	n.count(b.seen.unknown, "samples that are NaN: treated as missing")
	n.count(b.seen.held, "gaps in the rates, filled with the previous rate")
	n.count(b.seen.shorter, "clients that begin later or end earlier than others: no traffic in the missing time")
	return n
}
