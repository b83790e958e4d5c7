package findings

import (
	"fmt"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/cache"
)

// PodsRejected is the name of the check for scale targets whose pods the API server rejects. The name must not change, because alerts and
// runbooks can refer to it.
const PodsRejected = "PodsRejected"

// rejectedPods returns the scale targets of policies whose pods the API server rejects.
func (r *Reporter) rejectedPods() (all []cache.Problem) {
	for _, w := range r.options.Policies.Current() {
		view, ok := r.options.Cache.View(&w)
		if !ok || view.Rejected == 0 {
			continue
		}
		if about, ok := r.options.Cache.Reference(cache.RefOfWorkload(&w)); ok {
			all = append(all, cache.Problem{About: about, Text: fmt.Sprintf("%s rejects pods of %s %s (policy %s): %s; %s",
				view.Rejection.By(), about.Kind, about.Name, w.Key, view.Rejection.Text, view.Rejection.NextStep(w.Key.Namespace))})
		}
	}
	return all
}
