package annotations

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/wording"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// Annotations by which a human operator pauses scaling or overrides the replicas. They are set on a workload, its HPA or its ScaledObject.
const (
	Paused   = "gpuscaler.io/paused"
	Override = "gpuscaler.io/override"
)

const overrideAllowed = `"min=12 until=2026-11-22T06:00Z": min, max or both, and an end with its zone`

// untilLayouts contains the accepted formats of a time: RFC 3339 with seconds and without seconds.
var untilLayouts = []string{time.RFC3339, "2006-01-02T15:04Z07:00"}

// ParseOperator parses the annotations Paused and Override, and ignores other annotations. An override that cannot be parsed has no effect.
// A pause that cannot be parsed counts as true: the author of `paused: "yes"` intended to pause, and keeping the replicas does the least
// harm. In both cases the problems contain the reason.
func ParseOperator(values map[string]string) (scaling.Operator, []policy.Problem) {
	o, problems := scaling.NoOperator, []policy.Problem(nil)
	if text, set := values[Paused]; set {
		paused, err := strconv.ParseBool(strings.TrimSpace(text))
		o.Paused = paused || err != nil
		if err != nil {
			problems = append(problems, policy.Problem{Field: Paused, Message: "is neither true nor false, so it counts as true",
				Found: wording.Quote(text), Allowed: `"true" or "false"`})
		}
	}
	if text, set := values[Override]; set {
		override, err := parseOverride(text)
		if err != nil {
			problems = append(problems, policy.Problem{Field: Override, Message: err.Error() + ", so it has no effect",
				Found: wording.Quote(text), Allowed: overrideAllowed})
		} else {
			o.Min, o.Max, o.Until = override.Min, override.Max, override.Until
		}
	}
	return o, problems
}

func parseOverride(text string) (scaling.Operator, error) {
	o := scaling.NoOperator
	used := map[string]bool{}
	for _, word := range strings.Fields(text) {
		key, value, ok := strings.Cut(word, "=")
		if !ok {
			return o, fmt.Errorf("%s is not key=value", wording.Quote(word))
		}
		if used[key] {
			return o, fmt.Errorf("%s is written twice", key)
		}
		used[key] = true
		var err error
		switch key {
		case "min":
			o.Min, err = replicas(value)
		case "max":
			o.Max, err = replicas(value)
		case "until":
			o.Until, err = until(value)
		default:
			err = fmt.Errorf("there is no such key%s", wording.DidYouMean(key, []string{"min", "max", "until"}))
		}
		if err != nil {
			return o, fmt.Errorf("%s: %w", key, err)
		}
	}
	switch {
	case o.Until.IsZero():
		return o, fmt.Errorf("until is missing: an override needs an end")
	case o.Min < 0 && o.Max < 0:
		return o, fmt.Errorf("neither min nor max is set")
	case o.Min >= 0 && o.Max >= 0 && o.Min > o.Max:
		return o, fmt.Errorf("min is above max")
	}
	return o, nil
}

func replicas(text string) (int32, error) {
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < 0 || n > int64(policy.ReplicaLimit) {
		return -1, fmt.Errorf("%s is not a number of replicas", wording.Quote(text))
	}
	return int32(n), nil
}

func until(text string) (time.Time, error) {
	for _, layout := range untilLayouts {
		t, err := time.Parse(layout, text)
		if err != nil {
			continue
		}
		// The year is checked in UTC, because 9999-12-31T23:59:59-01:00 is in the year 10000, which JSON cannot represent.
		if t = t.UTC(); t.Year() <= 1970 || t.Year() > 9999 {
			return time.Time{}, fmt.Errorf("%s is outside of the years 1971 to 9999 in UTC", wording.Quote(text))
		}
		return t, nil
	}
	return time.Time{}, fmt.Errorf("%s is not a time with a time zone", wording.Quote(text))
}
