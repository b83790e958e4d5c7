package promql

import (
	"testing"
)

// PerSecond must return the value of a query's result for a rate of one event per second. The expected value is 0 if the query does not
// compute the rate of a counter.
func TestPerSecond(t *testing.T) {
	for query, want := range map[string]float64{
		`rate(gateway_requests_total[1m])`:                                             1,
		`sum(rate(gateway_requests_total{namespace="team"}[1m]))`:                      1,
		`sum by (namespace, pool) (irate(gateway_requests_total[1m]))`:                 1,
		`max by (pool) (sum by (pool, pod) (rate(requests_total[5m])))`:                1,
		`sum(increase(gateway_requests_total[1m]))`:                                    60,
		`sum(increase(rate:five[10m:1m]))`:                                             600,
		`sum(increase(gateway_requests_total[5m])) / 300`:                              1,
		`60 * sum(rate(gateway_requests_total[1m]))`:                                   60,
		`(sum(rate(a[1m]))) * (0.5)`:                                                   0.5,
		`label_replace(sum by (a) (rate(x_total[1m])), "b", "$1", "a", "(.*)")`:        1,
		`sum by (ns) (rate(x_total[1m])) or vector(0)`:                                 1,
		`clamp_min(sum(rate(x_total[1m])), 1)`:                                         1,
		`sum(rate(seconds_sum[1m])) / sum(rate(seconds_count[1m]))`:                    0, // a mean wait, not a rate
		`1 - sum(rate(errors_total[1m]))`:                                              0,
		`count(rate(x_total[1m]))`:                                                     0, // the number of series, not a rate
		`topk(1, rate(x_total[1m]))`:                                                   0,
		`histogram_quantile(0.9, sum by (le) (rate(x_bucket[1m])))`:                    0,
		`sum(gateway_queue_size)`:                                                      0,
		`sum(gateway_queue_size) + sum(rate(x_total[1m]))`:                             0,
		`avg_over_time(sum(rate(x_total[1m]))[5m:])`:                                   0,
		`sum(deriv(x[1m]))`:                                                            0,
		`sum(rate(x_total[1m])) or sum(queue)`:                                         0,
		`sum(rate(`:                                                                    0,
		``:                                                                             0,
		`sum(max_over_time(queue[1m])) > 0`:                                            0,
		`0 * sum(rate(x_total[1m]))`:                                                   0,
		`Inf * sum(rate(x_total[1m]))`:                                                 0,
		`NaN * sum(rate(x_total[1m]))`:                                                 0,
		`sum(rate(x_total[1m])) / 0`:                                                   0,
		`sum(rate(x_total[1m] offset 1w))`:                                             1,
		`sum(rate(x_total[1m] @ end()))`:                                               1,
		`sum without (pod) (rate({__name__="gateway:requests_total", pool="a"}[30s]))`: 1,
	} {
		if g, is := PerSecond(query); g.PerSecond != want || is != (want > 0) {
			t.Errorf("%s: %v, %v; want %v", query, g.PerSecond, is, want)
		}
	}
}

// A sum over pods is Total. A mean, maximum or minimum over several series is PerSeries, because it is the rate of one pod. A mean, maximum
// or minimum of a single series, such as a sum, does not change the result.
func TestPerSecondReturnsTheAggregation(t *testing.T) {
	for query, want := range map[string]Aggregation{
		`rate(x_total[1m])`: Unaggregated,
		`label_replace(rate(x_total[1m]), "b", "$1", "a", "(.*)") * 60`: Unaggregated,
		`sum(rate(x_total[1m]))`:                                        Total,
		`60 * (sum by (ns) (rate(x_total[1m]))) or vector(0)`:           Total,
		`sum(avg by (pod) (rate(x_total[1m])))`:                         Total,
		`avg(rate(x_total[1m]))`:                                        PerSeries,
		`clamp_min(avg by (ns) (increase(x_total[1m])) / 60, 0)`:        PerSeries,
		`max(rate(x_total[1m]))`:                                        PerSeries,
		`min by (ns) (rate(x_total[1m]))`:                               PerSeries,
		`max by (pool) (sum by (pool, pod) (rate(x_total[1m])))`:        PerSeries,
		`avg(sum without (le) (rate(x_total[1m])))`:                     PerSeries,
		`max(sum(rate(x_total[1m])))`:                                   Total, // the maximum of a single series, which is a sum
		`avg by (ns, pool) ((sum by (ns) (rate(x_total[1m]))))`:         Total,
		`sum by (ns) (avg by (ns) (rate(x_total[1m])))`:                 PerSeries,
		`label_replace(avg(rate(x_total[1m])), "b", "$1", "a", "(.*)")`: PerSeries,
	} {
		if g, is := PerSecond(query); !is || g.Aggregation != want {
			t.Errorf("%s: %v, %v; want %v", query, g.Aggregation, is, want)
		}
	}
}
