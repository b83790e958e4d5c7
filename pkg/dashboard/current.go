package dashboard

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
)

// explainNow is Explain for the newest record of a workload: served and unserved are what the board returns for it at present.
func explainNow(r engine.Record, cluster string, served engine.Served, unserved error) Explanation {
	e := Explain(r, cluster)
	switch {
	case e.At.IsZero():
	case unserved != nil:
		e.Served = unserved.Error()
		if e.NotDecided == "" && outdated(&r, unserved) {
			e.NotDecided = "no current decision: " + unserved.Error()
		}
	case r.Superseded:
		e.NotDecided += fmt.Sprintf("; until then its bounds make %d of it", served.Replicas)
	}
	return e
}

// outdated reports whether the newest record is not a decision for the present scale target under the policy in force: its numbers are
// those of the past.
func outdated(r *engine.Record, unserved error) bool {
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

// whyOutdated returns the reason in words.
func whyOutdated(r *engine.Record, unserved error) string {
	if why := notDecided(r); why != "" || unserved == nil {
		return why
	}
	return unserved.Error()
}

// notDecided returns why a workload has no decision, or no current one; it is empty where the last tick decided under the policy in force.
func notDecided(r *engine.Record) string {
	t := &r.Workload.Target
	target := cmp.Or(r.Refusal, fmt.Sprintf("%s %s/%s is not seen in the cluster", cmp.Or(t.Kind, "Deployment"), r.Workload.Key.Namespace, t.Name))
	switch {
	case r.Unseen && r.At.IsZero():
		return "not decided: " + target
	case r.Unseen:
		return "not decided any more: " + target
	case r.At.IsZero():
		return engine.ErrUndecided.Error()
	case r.Superseded:
		return "not decided under the policy in force: the last decision is of " + cmp.Or(r.Workload.Origin, "its former version")
	}
	return ""
}
