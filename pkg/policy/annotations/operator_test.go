package annotations_test

import (
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/annotations"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

func TestParseOperator(t *testing.T) {
	six := time.Date(2026, 11, 22, 6, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		paused, override string // "-" means that the annotation is not set
		want             scaling.Operator
		says             string
	}{
		{"-", "-", scaling.NoOperator, ""},
		{"true", "-", scaling.Operator{Paused: true, Min: -1, Max: -1}, ""},
		{"false", "-", scaling.NoOperator, ""},
		{"yes", "-", scaling.Operator{Paused: true, Min: -1, Max: -1},
			`gpuscaler.io/paused: is neither true nor false, so it counts as true; found "yes"; allowed: "true" or "false"`},
		{"", "-", scaling.Operator{Paused: true, Min: -1, Max: -1}, "so it counts as true"},
		{"-", "min=12 until=2026-11-22T06:00Z", scaling.Operator{Min: 12, Max: -1, Until: six}, ""},
		{"-", " until=2026-11-22T07:00:00+01:00   max=3 min=3 ", scaling.Operator{Min: 3, Max: 3, Until: six}, ""},
		{"-", "max=0 until=2026-11-22T06:00Z", scaling.Operator{Min: -1, Max: 0, Until: six}, ""},
		{"true", "min=2 until=2026-11-22T06:00Z", scaling.Operator{Paused: true, Min: 2, Max: -1, Until: six}, ""},
		{"-", "min=12", scaling.NoOperator, `gpuscaler.io/override: until is missing: an override needs an end, so it has no effect; ` +
			`found "min=12"; allowed: "min=12 until=2026-11-22T06:00Z": min, max or both, and an end with its zone`},
		{"-", "until=2026-11-22T06:00Z", scaling.NoOperator, "neither min nor max"},
		{"-", "min=5 max=4 until=2026-11-22T06:00Z", scaling.NoOperator, "min is above max"},
		{"-", "min=12 until=2026-11-22T06:00", scaling.NoOperator, `until: "2026-11-22T06:00" is not a time with a time zone`},
		{"-", "min=12 until=tomorrow", scaling.NoOperator, "is not a time with a time zone"},
		{"-", "min=12 until=9999-12-31T23:59:59Z", scaling.Operator{Min: 12, Max: -1, Until: time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)},
			""},
		{"-", "min=12 until=9999-12-31T23:59:59-01:00", scaling.NoOperator,
			`until: "9999-12-31T23:59:59-01:00" is outside of the years 1971 to 9999 in UTC`},
		{"-", "min=12 until=0001-01-01T00:00:00+01:00", scaling.NoOperator, "is outside of the years 1971 to 9999 in UTC"},
		{"-", "min=twelve until=2026-11-22T06:00Z", scaling.NoOperator, `min: "twelve" is not a number of replicas`},
		{"-", "min=-1 until=2026-11-22T06:00Z", scaling.NoOperator, "is not a number of replicas"},
		{"-", "min=9999999999 until=2026-11-22T06:00Z", scaling.NoOperator, "is not a number of replicas"},
		{"-", "min=1 min=2 until=2026-11-22T06:00Z", scaling.NoOperator, "min is written twice"},
		{"-", "mim=1 until=2026-11-22T06:00Z", scaling.NoOperator, `mim: there is no such key, did you mean "min"?`},
		{"-", "12", scaling.NoOperator, "is not key=value"},
		{"-", "", scaling.NoOperator, "until is missing"},
		{"true", "min=12", scaling.Operator{Paused: true, Min: -1, Max: -1}, "until is missing"},
	} {
		values := map[string]string{"other": "x"}
		if c.paused != "-" {
			values[annotations.Paused] = c.paused
		}
		if c.override != "-" {
			values[annotations.Override] = c.override
		}
		got, problems := annotations.ParseOperator(values)
		if got != c.want {
			t.Errorf("%q %q: %+v, want %+v", c.paused, c.override, got, c.want)
		}
		if said := policy.Render(problems); c.says == "" && said != "" || !strings.Contains(said, c.says) {
			t.Errorf("%q %q: problems %q, want %q", c.paused, c.override, said, c.says)
		}
	}
}
