package history

import "math"

// Forecast contains exponential moving averages of a signal's proposals, in replicas: their mean and their squared deviation. The zero
// value is a forecast without history.
type Forecast struct {
	Known bool
	// Level is the mean of the most recent proposals. A single proposal is not used, because it contains the arrivals of only a few seconds,
	// which vary randomly.
	Level float64
	Mean  float64
	// Spread is twice the mean square of the amount by which Level exceeds Mean. For a symmetric distribution, this is the variance.
	Spread float64
}

// StartForecast returns a forecast without deviations, whose mean is the given number of replicas.
func StartForecast(replicas float64) Forecast {
	return Forecast{Known: true, Level: replicas, Mean: replicas}
}

// Averages contains the time constants of a Forecast in milliseconds: for Mean, which must be at least 1, and for Level.
type Averages struct{ Mean, Level int64 }

// Next returns the forecast after one more tick. elapsed is the time since the previous tick in milliseconds. Only values above the mean
// count as deviations. If values below the mean counted too, the forecast would increase when demand ends.
func (f Forecast) Next(proposal float64, elapsed int64, over Averages) Forecast {
	level := toward(f.Level, proposal, elapsed, over.Level)
	above := max(level-f.Mean, 0)
	weight := float64(elapsed) / float64(elapsed+over.Mean)
	square := float64(2 * above * above)
	return Forecast{Known: true, Level: level, Mean: toward(f.Mean, level, elapsed, over.Mean),
		Spread: float64((1 - weight) * (f.Spread + float64(weight*square)))}
}

// Upper returns the number of replicas to keep, before rounding: the mean plus the given number of standard deviations.
func (f Forecast) Upper(deviations float64) float64 {
	return f.Mean + float64(deviations*math.Sqrt(f.Spread))
}

// Highest returns a forecast that is at least as great as every later forecast if demand ends now. It differs from f only while Mean is
// less than Level, as after a rise of demand, because Mean then still increases to Level.
func (f Forecast) Highest() Forecast {
	above := max(f.Level-f.Mean, 0)
	f.Mean, f.Spread = f.Mean+above, f.Spread+float64(2*above*above)
	return f
}
