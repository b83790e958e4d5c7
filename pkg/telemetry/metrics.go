package telemetry

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/source"
)

// pollMetrics are the Prometheus metrics about the polls of data sources.
type pollMetrics struct {
	polls    *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	bytes    *prometheus.CounterVec
	failures *prometheus.CounterVec
	skew     *prometheus.GaugeVec
}

func newPollMetrics(r prometheus.Registerer) (*pollMetrics, error) {
	poll := []string{"source", "poll"}
	m := &pollMetrics{
		polls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gpuscaler_source_polls_total", Help: "Polls of a data source, by result."}, append(poll, "result")),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "gpuscaler_source_poll_duration_seconds", Help: "Duration of a poll of a data source.",
			Buckets: []float64{.005, .025, .1, .25, .5, 1, 2.5, 5, 10, 30}}, poll),
		bytes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gpuscaler_source_received_bytes_total", Help: "Bytes received from a data source, after decompression."}, poll),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gpuscaler_source_unusable_readings_total", Help: "Readings without a usable value, by cause."}, append(poll, "cause")),
		skew: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "gpuscaler_source_clock_skew_seconds",
			Help: "Seconds by which the clock of a data source is ahead of gpuscaler's clock, by the Date header of its answers; " +
				"negative where it is behind, 0 for less than 2 s. Sample times are corrected by it. For scraped pods, the greatest one of the pods " +
				"whose pages have sample times."}, poll),
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

// observe adds the result of one poll to the metrics: its duration, its bytes and the causes of missing readings.
func (m *pollMetrics) observe(g *group, p *pollResult) {
	name, kind := g.source.Name, g.key.kind.String()
	result := source.CauseOf(p.err).Label()
	m.polls.WithLabelValues(name, kind, result).Inc()
	m.seconds.WithLabelValues(name, kind).Observe(p.took.Seconds())
	m.bytes.WithLabelValues(name, kind).Add(float64(p.bytes))
	if p.err != nil {
		m.failures.WithLabelValues(name, kind, result).Add(float64(len(p.readings)))
		return
	}
	var count [scaling.Causes]int
	for i := range p.readings {
		if !p.readings[i].Known {
			count[p.readings[i].Cause]++
		}
	}
	for cause, n := range count {
		if n > 0 {
			m.failures.WithLabelValues(name, kind, scaling.Cause(cause).Label()).Add(float64(n))
		}
	}
}
