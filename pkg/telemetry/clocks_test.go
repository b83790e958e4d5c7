package telemetry

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/client-go/rest"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// dated sets the Date header of a response to a time that is ahead of the current time by the given duration.
func dated(w http.ResponseWriter, ahead time.Duration) {
	w.Header().Set("Date", time.Now().Add(ahead).UTC().Format(http.TimeFormat))
}

// skewed returns a test Prometheus whose clock is ahead of gpuscaler's clock. It takes the times of its samples and its Date headers from
// its own clock.
func skewed(t testing.TB, ahead time.Duration) *testPrometheus {
	p := newTestPrometheus(t)
	p.now = func() time.Time { return time.Now().Add(ahead) }
	serve := p.Config.Handler
	p.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		dated(w, ahead)
		serve.ServeHTTP(w, r)
	})
	return p
}

// certain records five responses within a minute that all show the same difference between the clocks. This is enough to correct a clock
// that is behind, for which one response is not sufficient.
func certain(t testing.TB, p *Poller, d policy.DataSource, ahead time.Duration) {
	t.Helper()
	c := &p.sources.get(d).clock
	for i := range 5 {
		at := time.Now().Add(time.Duration(i-5) * 15 * time.Second)
		c.Observe(http.Header{"Date": {at.Add(ahead).UTC().Format(http.TimeFormat)}}, at, at)
	}
}

func TestSampleAgesAreCorrectedByTheClockOfPrometheus(t *testing.T) {
	pods := readyPods("llama-0")
	for _, how := range []struct {
		name   string
		source policy.Source
		series []string
	}{
		{"query", querySource(), []string{`queue_size{namespace="chat",pool="llama"}`}},
		{"selector", policy.Source{Type: policy.SourcePrometheus, DataSource: "prom",
			Query: `sum by (namespace) (queue_size{namespace="chat",pool="llama"})`, NamespaceLabel: "namespace"},
			[]string{`queue_size{namespace="chat",pool="llama"}`}},
		{"gauges", policy.Source{Type: policy.SourceVLLM, DataSource: "prom", Metric: "requestsWaiting"},
			[]string{`{__name__="vllm:num_requests_waiting",namespace="chat",pod="llama-0"}`}},
		{"dcgm", policy.Source{Type: policy.SourceDCGM, DataSource: "prom", Metric: "activity"},
			[]string{`DCGM_FI_DEV_GPU_UTIL{UUID="GPU-0",gpu="0",namespace="gpu-operator",pod="dcgm-n",exported_namespace="chat",` +
				`exported_pod="llama-0"}`}},
		{"kueue", policy.Source{Type: policy.SourceKueue, DataSource: "prom", LocalQueue: "q"},
			[]string{`kueue_local_queue_pending_workloads{namespace="kueue-system",exported_namespace="chat",name="q",status="active"}`}},
		{"latency", policy.Source{Type: policy.SourceVLLM, DataSource: "prom", Metric: "timeToFirstToken", Window: 5 * time.Minute,
			Quantile: 0.9}, []string{
			`{__name__="vllm:time_to_first_token_seconds_count",namespace="chat",pod="llama-0"}`,
			`{__name__="vllm:time_to_first_token_seconds_bucket",le="+Inf",namespace="chat",pod="llama-0"}`,
			`{__name__="vllm:time_to_first_token_seconds_bucket",le="1",namespace="chat",pod="llama-0"}`}},
	} {
		for _, ahead := range []time.Duration{2 * time.Minute, -40 * time.Second} {
			t.Run(fmt.Sprintf("%s %v", how.name, ahead), func(t *testing.T) {
				const age = 100 * time.Second // age of the newest sample: its exporter stopped at that time
				began := time.Now()
				server := skewed(t, ahead)
				for _, s := range how.series {
					for i := range 20 {
						server.put(s, time.Now().Add(ahead-age-time.Duration(19-i)*5*time.Second), float64(i))
					}
				}
				w := compiled("chat", "llama", how.source)
				p := newPoller(t, Options{Pods: testPods{w.Workload.Key: pods}, Exporters: onNodeN})
				d := promSource(server.URL)
				p.SetPolicies([]*policy.Compiled{w}, platformOf(d))
				if ahead < 0 {
					p.sources.update(platformOf(d))
					certain(t, p, d, ahead)
				}
				pollOnce(t, p)
				r := read(p, w)[0]
				if got := time.Since(r.At); !r.Known || (got-age).Abs() > 3*time.Second+time.Since(began) {
					t.Errorf("a sample %v old reads %v old: %+v", age, got.Round(time.Second), r)
				}
			})
		}
	}
}

// The clock of Prometheus is two minutes ahead, and an exporter stopped 100 s ago. The last sample of this exporter has the value 0.
// Without the correction of the clock, this sample would look fresh and lower the target.
func TestStoppedExporterWithAClockAheadLowersNoTarget(t *testing.T) {
	server := skewed(t, 2*time.Minute)
	died := time.Now().Add(-100 * time.Second)
	server.put(`queue_size{namespace="chat",pool="llama"}`, died.Add(2*time.Minute), 0)
	w := compiled("chat", "llama", querySource())
	w.Workload.Policy.Signals[0].MaxAge = 30 * time.Second
	w.Workload.Policy.MaxReplicas = 20
	p := newPoller(t, Options{})
	p.SetPolicies([]*policy.Compiled{w}, platformOf(promSource(server.URL)))
	state := scaling.Seed(w.Workload.Policy, 12, time.Now())
	for range 3 {
		pollOnce(t, p)
		o := scaling.Observation{Replicas: 12, Ready: 12, Readings: read(p, w), Advice: scaling.NoAdvice, Operator: scaling.NoOperator}
		if d := state.Decide(w.Workload.Policy, &o, time.Now()); d.Replicas < 12 || d.Status[0] != scaling.SignalStale {
			t.Fatalf("target %d, signal %d: the sample is 100 s old and lowers nothing", d.Replicas, d.Status[0])
		}
	}
}

func TestSampleTimesOfAPageAreCorrectedByThePodsClock(t *testing.T) {
	server := newPodServer(t)
	const age, ahead = 50 * time.Second, 2 * time.Minute
	began := time.Now()
	server.does(func(w http.ResponseWriter, _ *http.Request) {
		dated(w, ahead)
		fmt.Fprintf(w, "vllm:num_requests_waiting 6 %d\n", time.Now().Add(ahead-age).UnixMilli())
	})
	c := compiled("chat", "llama", policy.Source{Type: policy.SourceVLLM, DataSource: "pods", Metric: "requestsWaiting"})
	p := scrapePoller(t, c, server.source(policy.SourceVLLM), readyPods("llama-0"))
	pollOnce(t, p)
	if got := time.Since(read(p, c)[0].At); (got - age).Abs() > 3*time.Second+time.Since(began) {
		t.Errorf("a sample %v old reads %v old", age, got.Round(time.Second))
	}
	if s := statuses(p); len(s) != 1 || (s[0].Skew-ahead).Abs() > 2*time.Second+time.Since(began) {
		t.Errorf("status %+v does not have the skew of the clock", s)
	}
	server.does(func(w http.ResponseWriter, _ *http.Request) { // a page without sample times: the time of the request is used
		dated(w, ahead)
		fmt.Fprint(w, "vllm:num_requests_waiting 6\n")
	})
	before := time.Now()
	pollOnce(t, p)
	if r := read(p, c)[0]; r.At.Before(before) {
		t.Errorf("%+v: the sample time is before the poll at %v", r, before)
	}
	if s := statuses(p); s[0].Skew != 0 {
		t.Errorf("the skew of a clock that stamps no samples is reported: %v", s[0].Skew)
	}
}

func TestItemTimesOfAnAdapterAreCorrectedByItsClock(t *testing.T) {
	server := newFaulty(t)
	const age, ahead = 50 * time.Second, 2 * time.Minute
	began := time.Now()
	server.does(func(w http.ResponseWriter, r *http.Request) {
		dated(w, ahead)
		metricList(metricItem("7", time.Now().Add(ahead-age)))(w, r)
	})
	c := compiled("embed", "a", externalSource("backlog", ""))
	p := newPoller(t, Options{Kubernetes: &rest.Config{Host: server.URL}})
	p.SetPolicies([]*policy.Compiled{c}, nil)
	pollOnce(t, p)
	if got := time.Since(read(p, c)[0].At); (got - age).Abs() > 3*time.Second+time.Since(began) {
		t.Errorf("a sample %v old reads %v old", age, got.Round(time.Second))
	}
}

func TestClockSkewIsLoggedWhenItStartsAndWhenItEnds(t *testing.T) {
	var log bytes.Buffer
	registry := prometheus.NewRegistry()
	server := newFaulty(t)
	ahead := time.Duration(0)
	server.does(func(w http.ResponseWriter, _ *http.Request) {
		dated(w, ahead)
		fmt.Fprint(w, answerOf("5"))
	})
	second := querySource()
	second.QueryName, second.Query = "r", `sum by (namespace, pool) (other)`
	w := compiled("chat", "llama", querySource(), second) // two signals, so that two polls read the same server
	p := newPoller(t, Options{Registerer: registry, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	p.SetPolicies([]*policy.Compiled{w}, platformOf(promSource(server.URL)))
	for _, phase := range []struct {
		ahead      time.Duration
		warn, info int // number of log lines of each level so far
	}{{0, 0, 0}, {3 * time.Second, 0, 0}, {time.Minute, 1, 0}, {time.Minute, 1, 0}, {0, 1, 1}, {0, 1, 1}, {-time.Minute, 2, 1}} {
		ahead = phase.ahead
		pollOnce(t, p)
		pollOnce(t, p)
		warn, info := strings.Count(log.String(), "differs from gpuscaler's"), strings.Count(log.String(), "agrees with gpuscaler's clock again")
		if warn != phase.warn || info != phase.info {
			t.Errorf("%v ahead: %d warnings and %d ends, want %d and %d\n%s", phase.ahead, warn, info, phase.warn, phase.info, log.String())
		}
		if got := testutil.ToFloat64(p.metrics.skew.WithLabelValues("prom", "query")); got < phase.ahead.Seconds()-3 ||
			got > phase.ahead.Seconds()+1 {
			t.Errorf("%v ahead: the gauge is %g s", phase.ahead, got)
		}
	}
	if n := testutil.CollectAndCount(p.metrics.skew); n != 1 {
		t.Errorf("%d series", n)
	}
	for _, r := range p.runners {
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		r.run(ended)
	}
	if n := testutil.CollectAndCount(p.metrics.skew); n != 0 {
		t.Errorf("%d series of polls that ended", n)
	}
}
