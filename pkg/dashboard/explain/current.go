package explain

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
)

// Current explains the newest record of a workload. served and unserved are the results of engine.LookupNow: the target that gpuscaler
// serves, or the error that it returns to readers.
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

// Outdated reports whether the newest record is not a current decision: its scale target is gone or was replaced, the policy changed, or
// the decision is too old. unserved is the error of the store's lookup, or nil.
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

// WhyOutdated returns why the newest record is not a current decision, or "" if it is a current decision.
func WhyOutdated(r *engine.Record, unserved error) string {
	if why := notDecided(r); why != "" || unserved == nil {
		return why
	}
	return unserved.Error()
}

// notDecided returns why a workload has no decision, or why its last decision was made under another version of the policy. It returns ""
// if the last tick decided under the current policy.
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
