package telemetry

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

var causeWords = [...]string{"ok", "never", "empty", "unreachable", "invalid", "truncated", "forbidden", "sentinel", "undeclared", "quota", "untimed"}

// pollMetrics is what the poller says of itself.
type pollMetrics struct {
	polls    *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	bytes    *prometheus.CounterVec
	failures *prometheus.CounterVec
	skew     *prometheus.GaugeVec
}

func newPollMetrics(r prometheus.Registerer) (*pollMetrics, error) {
	source := []string{"source", "poll"}
	m := &pollMetrics{
		polls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gpuscaler_source_polls_total", Help: "Polls of a data source by result."}, append(source, "result")),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "gpuscaler_source_poll_duration_seconds", Help: "Time that a poll of a data source took.",
			Buckets: []float64{.005, .025, .1, .25, .5, 1, 2.5, 5, 10, 30}}, source),
		bytes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gpuscaler_source_received_bytes_total", Help: "Bytes received from a data source, decompressed."}, source),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gpuscaler_source_unusable_readings_total", Help: "Readings that a poll did not bring, by cause."}, append(source, "cause")),
		skew: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "gpuscaler_source_clock_skew_seconds",
			Help: "How far the clock of a data source stands ahead of ours, negative for behind, by the Date of its answers; 0 for less than 2 s. Sample times are corrected by it. Of scraped pods that stamp their samples the greatest."}, source),
	}
	if r == nil {
		return m, nil
	}
	var err error
	for _, c := range []prometheus.Collector{m.polls, m.seconds, m.bytes, m.failures, m.skew} {
		err = errors.Join(err, r.Register(c))
	}
	return m, err
}

// observe counts one poll. out is what its slots got when err is nil.
func (m *pollMetrics) observe(g *group, took time.Duration, bytes int64, out []scaling.Reading, err error) {
	source, how := g.source.Name, g.key.how.String()
	result := causeOf(err)
	m.polls.WithLabelValues(source, how, causeWords[result]).Inc()
	m.seconds.WithLabelValues(source, how).Observe(took.Seconds())
	m.bytes.WithLabelValues(source, how).Add(float64(bytes))
	if err != nil {
		m.failures.WithLabelValues(source, how, causeWords[result]).Add(float64(len(out)))
		return
	}
	var by [len(causeWords)]int
	for i := range out {
		if !out[i].Known {
			by[out[i].Cause]++
		}
	}
	for cause, n := range by {
		if n > 0 {
			m.failures.WithLabelValues(source, how, causeWords[cause]).Add(float64(n))
		}
	}
}
