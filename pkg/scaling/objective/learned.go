package objective

import "time"

// Learned is a summary of what a Model has learned, for explain texts, the web page and metrics.
type Learned struct {
	Capacity  Distribution         // work per second that a replica serves
	ColdStart Distribution         // seconds from the decision to a ready replica
	Phase     [Phases]Distribution // seconds of each part of the cold start
	Attained  float64              // share of the work that was served within the limit, over the objective's window
	Budget    float64              // share of the late budget of the window that is left, 0..1
	Load      float64              // work per second, mean of the last minutes
	// Burstiness is the standard deviation of the load within an hour, relative to its mean.
	Burstiness float64
	// IdleGap is the typical time without work before the next arrival; 0: no such gap was observed.
	IdleGap time.Duration
	// Observed is the time with evidence since the model was created or the workload's version changed.
	Observed time.Duration
}

// Distribution summarizes what was learned about one quantity.
type Distribution struct {
	P10, P50, P90, P95 float64
	Count              int64 // observations
}
