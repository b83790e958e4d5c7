package history

// Trend contains the mean of a signal's values over the last half minute (Fast) and the last three minutes (Slow). The zero value is a
// trend without values.
type Trend struct {
	Known      bool
	Fast, Slow float64
}

// fastMillis, slowMillis and growth define when a signal grows: its mean over the last half minute must exceed its mean over the last three
// minutes by more than a tenth, and by more than a tenth of the target. For a value that rises steadily, this is growth of about 4% a
// minute. Means are compared instead of two samples, because a queue of 20 can change by 4 between two scrapes without growing. The
// condition on the target excludes queues that are almost empty.
const (
	fastMillis = 30_000
	slowMillis = 180_000
	growth     = 0.1
)

// Next returns the trend after a new value. elapsed is the time since the previous value in milliseconds.
func (r Trend) Next(value float64, elapsed int64) Trend {
	if !r.Known {
		return Trend{true, value, value}
	}
	return Trend{true, toward(r.Fast, value, elapsed, fastMillis), toward(r.Slow, value, elapsed, slowMillis)}
}

// Grows reports whether the signal grows. The parameter target is the target of the signal.
func (r Trend) Grows(target float64) bool {
	rise := r.Fast - r.Slow
	return r.Known && rise > float64(growth*r.Slow) && rise > float64(growth*target)
}

// toward returns an exponential moving average after a new value. The parameter from is the average before, and to is the new value. tau is
// the time constant of the average, and elapsed the time since the previous value, both in milliseconds. The weight of the new value is
// elapsed/(elapsed+tau) and not 1-exp(-elapsed/tau), because the result of math.Exp differs between CPU architectures.
func toward(from, to float64, elapsed, tau int64) float64 {
	weight := float64(elapsed) / float64(elapsed+tau)
	return from + float64(float64(to-from)*weight)
}
