package annotations

import (
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
)

func FuzzOperator(f *testing.F) {
	for _, seed := range []string{"min=12 until=2026-11-22T06:00Z", "max=0 until=2026-11-22T06:00:00+01:00", "min=1", "until=",
		"min=-1 until=2026-11-22T06:00Z", "min=3 max=2 until=2026-11-22T06:00Z"} {
		f.Add("true", seed)
	}
	f.Fuzz(func(t *testing.T, paused, override string) {
		o, problems := ParseOperator(map[string]string{Paused: paused, Override: override})
		acts := o.Min >= 0 || o.Max >= 0
		if o.Min < -1 || o.Max < -1 || o.Min > policy.ReplicaLimit || o.Max > policy.ReplicaLimit ||
			acts != (o.Until.After(time.Unix(0, 0))) || o.Min >= 0 && o.Max >= 0 && o.Min > o.Max {
			t.Errorf("%q is %+v", override, o)
		}
		if acts == (len(problems) > 0 && problems[len(problems)-1].Field == Override) {
			t.Errorf("%q is %+v with %v", override, o, problems)
		}
		if paused == "true" && !o.Paused || paused == "false" && o.Paused {
			t.Errorf("paused %q is %v", paused, o.Paused)
		}
	})
}
