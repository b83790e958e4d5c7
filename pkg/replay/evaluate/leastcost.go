package evaluate

import (
	"context"

	"github.com/gpuscaler/gpuscaler/pkg/replay/lowerbound"
)

// LeastCost returns the request-level bound of a case: no first-in-first-out run that meets the SLO costs less, with
// any autoscaler. Of the policy it uses only maxReplicas and, with AutoInitial, minReplicas. If no schedule meets the SLO, the bound
// has a Problem.
func LeastCost(ctx context.Context, c Case, progress Progress) (Bound, error) {
	if progress == nil {
		progress = func(string, float64) {}
	}
	t, err := gather([]Case{c})
	if err != nil {
		return Bound{}, err
	}
	requests, err := t[0].requests()
	if err != nil {
		return Bound{}, err
	}
	out, err := requestBound(requests, t[0].setup(), boundProgress{ctx, func(kind string, p lowerbound.Progress) {
		progress(kind, float64(p.Slot)/float64(max(1, p.Slots)))
	}})
	out.empty(len(requests), c.SLO.Wait)
	return out, err
}
