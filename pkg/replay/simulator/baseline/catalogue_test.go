package baseline

import (
	"slices"
	"testing"
)

// The targets of a baseline are for a replica with 8 slots. For a replica with 64 slots they must be 8 times as high. Otherwise a target of
// 5 requests per replica would start a replica for every 5 requests, although each replica can serve 64.
func TestBaselinesAreScaledToTheService(t *testing.T) {
	for _, c := range []struct {
		baseline, knob string
		want           float64 // default for 64 slots and a quarter of the rate
		last           float64 // the last value of Tries
	}{
		{"hpa-queue", "target", 40, 320},
		{"hpa-concurrency", "target", 32, 256},
		{"keda", "target", 40, 256},
		{"knative", "target", 44.8, 96},
		{"skyserve", "target_qps_per_replica", 0.25, 0.325},
		{"hpa-gpu", "target", 0.7, 0.95},
		{"keda", "cooldownPeriod, s", 300, 60},
	} {
		i := slices.IndexFunc(All(), func(b Baseline) bool { return b.Name == c.baseline })
		scaled := All()[i].ScaledTo(8, 0.25)
		k := scaled.Knobs[slices.IndexFunc(scaled.Knobs, func(k Knob) bool { return k.Name == c.knob })]
		if k.Default != c.want || k.Tries[len(k.Tries)-1] != c.last {
			t.Errorf("%s, %s: %v, %v; want %v and a last try of %v", c.baseline, c.knob, k.Default, k.Tries, c.want, c.last)
		}
	}
	for _, b := range All() {
		same := b.ScaledTo(1, 1)
		for i, k := range b.Knobs {
			if same.Knobs[i].Default != k.Default || !slices.Equal(same.Knobs[i].Tries, k.Tries) {
				t.Errorf("%s, %s: the reference service has %v instead of %v", b.Name, k.Name, same.Knobs[i], k)
			}
		}
	}
}
