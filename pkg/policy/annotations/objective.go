package annotations

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gpuscaler/gpuscaler/pkg/policy/decode"
	"github.com/gpuscaler/gpuscaler/pkg/policy/spec"
	"github.com/gpuscaler/gpuscaler/pkg/policy/wording"
)

const objectiveAllowed = `"wait=10s percentile=99"; or timeToFirstToken, interTokenLatency or deadline in place of wait`

// applyObjective sets the objective of the policy from the annotation Objective. Package compile checks the values of the objective.
func (f overlay) applyObjective(written *spec.Policy, w Layer) {
	text, ok := w.Values[Objective]
	if !ok {
		return
	}
	o, err := parseObjective(text)
	if err != nil {
		f.RejectText(w.Field(Objective), text, err.Error(), objectiveAllowed)
		return
	}
	written.Objective = o
	f.origin(decode.Spec.Key("objective"), w, Objective)
}

// parseObjective parses key=value pairs. The keys are the fields of spec.Objective.
func parseObjective(text string) (*spec.Objective, error) {
	var o spec.Objective
	var percentile spec.Percentile
	var times [4]spec.Duration
	fields := map[string]spec.Scalar{"wait": &times[0], "timeToFirstToken": &times[1], "interTokenLatency": &times[2],
		"deadline": &times[3], "percentile": &percentile}
	used := map[string]bool{}
	for _, word := range strings.Fields(text) {
		key, value, ok := strings.Cut(word, "=")
		scalar := fields[key]
		switch {
		case !ok:
			return nil, fmt.Errorf("%s is not key=value", wording.Quote(word))
		case scalar == nil:
			names := slices.Sorted(maps.Keys(fields))
			return nil, fmt.Errorf("there is no such key %s%s", wording.Quote(key), wording.DidYouMean(key, names))
		case used[key]:
			return nil, fmt.Errorf("%s is written twice", key)
		}
		used[key] = true
		if err := scalar.Parse(value); err != nil {
			return nil, fmt.Errorf("%s %w", key, err)
		}
	}
	for i, field := range []**spec.Duration{&o.Wait, &o.TimeToFirstToken, &o.InterTokenLatency, &o.Deadline} {
		if used[[]string{"wait", "timeToFirstToken", "interTokenLatency", "deadline"}[i]] {
			*field = &times[i]
		}
	}
	if used["percentile"] {
		o.Percentile = &percentile
	}
	return &o, nil
}
