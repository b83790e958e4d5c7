package measure

import (
	"math"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

func TestWhatSignalsMean(t *testing.T) {
	for _, c := range []struct {
		source policy.Source
		want   string
	}{
		{policy.Source{Type: policy.SourcePrometheus, Query: "sum(rate(x_total[1m]))"}, "arrivals: requests per second over 1m"},
		{policy.Source{Type: policy.SourcePrometheus, Query: "sum(increase(x_total[1m]))"}, "arrivals: requests per second over 1m, times 60"},
		{policy.Source{Type: policy.SourcePrometheus, Query: "avg(increase(x_total[1m]))"},
			"arrivals: requests per second per ready replica over 1m, times 60"},
		{policy.Source{Type: policy.SourcePrometheus, Query: "sum(irate(x_total[1m]))"}, "arrivals: requests per second"},
		{policy.Source{Type: policy.SourcePrometheus, Query: "sum(x)"}, "queue: waiting requests"},
		{policy.Source{Type: policy.SourcePrometheus, Query: "histogram_quantile(0.9, x)", Window: time.Minute, Quantile: 0.9},
			"queueTime: wait of the requests that started recently"},
		{policy.Source{Type: policy.SourceRedis}, "queue: waiting requests"},
		{policy.Source{Type: policy.SourceDCGM}, "activity: mean GPU activity"},
		{policy.Source{Type: policy.SourceVLLM, Metric: "kvCacheUsage"}, "cacheUse: mean usage of the KV caches"},
		{policy.Source{Type: policy.SourceVLLM, Metric: "unheard of"}, "nothing"},
	} {
		p := &policy.Compiled{Sources: []policy.Source{c.source}, Workload: scaling.Workload{Policy: &scaling.Policy{
			Signals: []scaling.Signal{{Name: "load", Type: "prometheus", Target: 1}}}}}
		if got := Of(p, 0, nil); got.String() != c.want || got.Why == "" || math.IsNaN(got.Units) {
			t.Errorf("%+v means %s by %q, want %s", c.source, got, got.Why, c.want)
		}
		if got := Of(p, 0, map[string]Measure{"load": InSystem}); got.Measure != InSystem || got.Why != "set by name" {
			t.Errorf("set by name: %+v", got)
		}
	}
}
