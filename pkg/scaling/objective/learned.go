package objective

import "time"

// Learned is a summary of what a Model has learned. It is shown by explain, on the web page and in metrics.
type Learned struct {
	Capacity  Distribution         // work per second that a replica serves
	ColdStart Distribution         // seconds from the decision to a ready replica
	Node      Distribution         // seconds from the decision until the pod was assigned to a node, of the starts that had to wait for one
	Phase     [Phases]Distribution // seconds that each phase of the cold start takes, of the starts in which it was observed
	Attained  float64              // share of the work in the objective's window that was served within the limit
	Budget    float64              // share of the late budget of the window that is not used yet, 0..1
	Load      float64              // work per second, as a mean of the last minutes
	// Burstiness is the standard deviation of the load within an hour, divided by its mean.
	Burstiness float64
	// IdleGap is the typical length of a time without work. It is 0 if there was no such time.
	IdleGap time.Duration
	// Observed is the time for which there was evidence since the model was created or since the version of the workload changed.
	Observed time.Duration
}

// Distribution contains the quantiles of what was learned about one quantity.
type Distribution struct {
	P10, P50, P90, P95 float64
	Count              int64 // number of observations
}
