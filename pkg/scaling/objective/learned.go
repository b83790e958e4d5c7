package objective

import "time"

// Learned is a summary of what a Model has learned. The command explain, the web page and metrics show it.
type Learned struct {
	Capacity  Distribution         // work per second that a replica serves
	ColdStart Distribution         // seconds from the decision to a ready replica
	Node      Distribution         // seconds from the decision until the pod was assigned to a node, of cold starts that waited for a new node
	Phase     [Phases]Distribution // seconds that each phase of a cold start takes, of cold starts in which the phase was observed
	Attained  float64              // share of the work that was served within the objective's limit, 0..1, over about the objective's window
	Budget    float64              // share of the late budget (the late work that the SLO permits in the window) that is not used, 0..1
	Load      float64              // work per second, as a mean of the last minutes
	// LoadAge is the mean time from the arrival of work until a tick reads the load that contains it.
	LoadAge time.Duration
	// Burstiness is the standard deviation of the load within an hour, divided by its mean.
	Burstiness float64
	// IdleGap is the mean length of the times without work; 0 if there was no such time.
	IdleGap time.Duration
	// Observed is for how long, in total, the load was measured since the model was created or the version of the workload changed.
	Observed time.Duration
}

// Distribution contains the quantiles of the measurements of one quantity.
type Distribution struct {
	P10, P50, P90, P95 float64
	Count              int64 // number of measurements
}

// attained contains the late work and all work of the workload. Older work has less weight, with the objective's window as time constant.
type attained struct{ Late, Work float64 }

// add adds a time slot, whose length is the given part of the window.
func (a *attained) add(late, work, part float64) {
	keep := max(1-part, 0)
	a.Late, a.Work = float64(keep*a.Late)+late, float64(keep*a.Work)+work
}
