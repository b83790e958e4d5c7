package history

import "math"

// Forecast is the history of a signal's proposals, in replicas: exponential moving averages of the mean and of the squared deviation. The
// zero value is a forecast without history.
type Forecast struct {
	Known bool
	// Level is the mean of the most recent proposals; a single scrape counts the arrivals of a few seconds, which are mostly noise.
	Level float64
	Mean  float64
	// Spread is the mean square of the level's deviation above the mean, doubled: the variance of a symmetric distribution.
	Spread float64
}

// StartForecast returns a forecast whose mean is the given number of replicas, without deviations.
func StartForecast(replicas float64) Forecast {
	return Forecast{Known: true, Level: replicas, Mean: replicas}
}

// Averages are the time constants of a Forecast in milliseconds: of the mean, at least 1, and of the level.
type Averages struct{ Mean, Level int64 }

// Next returns the forecast after the proposal of a tick. elapsed is the number of milliseconds since the previous tick. Only values above
// the mean count as deviations. If values below it counted, too, the forecast would increase when demand ends.
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

// Highest returns a forecast that is at least as great as each later one if demand ends now: after a rise of demand, the mean still
// increases to the level.
func (f Forecast) Highest() Forecast {
	above := max(f.Level-f.Mean, 0)
	f.Mean, f.Spread = f.Mean+above, f.Spread+float64(2*above*above)
	return f
}
