package explain

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
)

// Current explains the newest record of a workload. served and unserved are the results of engine.LookupNow: the target that gpuscaler
// serves to the HPA and to KEDA, or the error that gpuscaler returns to them.
func Current(r engine.Record, cluster string, served engine.Served, unserved error) Explanation {
	e := FromRecord(r, cluster)
	switch {
	case e.At.IsZero():
	case unserved != nil:
		e.Served = unserved.Error()
		if e.NotDecided == "" && Outdated(&r, unserved) {
			e.NotDecided = "no current decision: " + unserved.Error()
		}
	case r.Superseded:
		e.NotDecided += fmt.Sprintf("; until the next decision, %d replicas are served (the last target within the new bounds)", served.Replicas)
	}
	return e
}

// Outdated reports whether the newest record of a workload is not a current decision: the scale target was deleted or replaced, the policy
// changed, or the decision is too old. unserved is the error of engine.LookupNow, or nil.
func Outdated(r *engine.Record, unserved error) bool {
	if r.Unseen || r.Superseded {
		return true
	}
	for _, err := range []error{engine.ErrUnseen, engine.ErrReplaced, engine.ErrFuture, engine.ErrStale} {
		if errors.Is(unserved, err) {
			return true
		}
	}
	return false
}

// WhyOutdated returns the reason why the newest record of a workload is not a current decision, or "" if it is a current decision.
func WhyOutdated(r *engine.Record, unserved error) string {
	if why := notDecided(r); why != "" || unserved == nil {
		return why
	}
	return unserved.Error()
}

// notDecided returns the reason why the last tick made no decision with the current version of the workload's policy. It returns "" if the
// last tick made a decision.
func notDecided(r *engine.Record) string {
	t := &r.Workload.Target
	missing := fmt.Sprintf("%s %s/%s is not in the cluster", cmp.Or(t.Kind, "Deployment"), r.Workload.Key.Namespace, t.Name)
	why := cmp.Or(r.Refusal, missing)
	switch {
	case r.Unseen && r.At.IsZero():
		return "not decided: " + why
	case r.Unseen:
		return "no longer decided: " + why
	case r.At.IsZero():
		return engine.ErrUndecided.Error()
	case r.Superseded:
		return "not decided under the policy in force: the last decision used " + cmp.Or(r.Workload.Origin, "the previous version of the policy")
	}
	return ""
}
