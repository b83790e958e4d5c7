package outage

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/e2e/controller"
	"github.com/gpuscaler/gpuscaler/e2e/exporter"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
	"github.com/gpuscaler/gpuscaler/e2e/workload"
)

// overload is a namespace that exceeds one limit of the data source that it shares with others.
type overload struct {
	namespace string
	limit     string // part of the message of the expected Event
	policies  int
	spec      func(i int) string // returns the spec of policy i; only the first policy of the namespace evil-series has a Deployment
}

// overloads returns one namespace for each limit. Each namespace exceeds a default limit of data sources: 50,000 series in a response, and
// 32 selectors and 256 KiB of label values for each namespace.
func overloads() []overload {
	selector := func(metric, queue, kind string) string {
		return fmt.Sprintf("maxReplicas: 2\nsignals:\n- {name: q, type: prometheus, source: shared, metric: %s, matchLabels: {queue: %q, "+
			"kind: %q}, target: 10}",
			metric, queue, kind)
	}
	return []overload{
		{"evil-series", tooManySeries, 1, func(int) string {
			return "maxReplicas: 2\nsignals:\n- {name: q, type: vllm, source: shared, metric: requestsWaiting, target: 10}"
		}},
		{"evil-pairs", tooManySeries, pairs, func(i int) string {
			return selector("jobs", fmt.Sprint("q", i), fmt.Sprint("k", i))
		}},
		{"evil-values", "bytes", 998, func(i int) string {
			return selector("jobs", fmt.Sprintf("%04d", i)+strings.Repeat("x", 8000), "a")
		}},
		{"evil-metrics", "distinct selectors", 3000, func(i int) string {
			return selector(fmt.Sprint("metric_", i), "x", "a")
		}},
	}
}

// freshFor is the greatest allowed age of a reading in the namespace that exceeds no limit. It is the sum of two poll intervals of the data
// source named "shared", one second for a scrape, and 30 seconds in case this machine stalls.
const freshFor = 2*sharedInterval + 1*time.Second + 30*time.Second

// pairs is the number of policies that each have a queue and a kind. Their namespace exports a series for each queue with each kind,
// which are 90,000 series.
const pairs = 300

// tenantPages serves the pages of the tenants' exporters.
func tenantPages(jobs *atomic.Int64) http.Handler {
	mux := http.NewServeMux()
	page := func(path string, write func(w *bufio.Writer)) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain; version=0.0.4")
			b := bufio.NewWriter(w)
			write(b)
			_ = b.Flush() // ignored, because it fails only if Prometheus has closed the connection
		})
	}
	page("/victim", func(w *bufio.Writer) { fmt.Fprintf(w, "jobs{queue=\"x\",kind=\"a\"} %d\n", jobs.Load()) })
	page("/evil-series", func(w *bufio.Writer) {
		for i := range 50_001 {
			fmt.Fprintf(w, "vllm:num_requests_waiting{model_name=\"m%d\"} 1\n", i)
		}
	})
	page("/evil-pairs", func(w *bufio.Writer) {
		for i := range pairs * pairs {
			fmt.Fprintf(w, "jobs{queue=\"q%d\",kind=\"k%d\"} 1\n", i%pairs, i/pairs)
		}
	})
	return mux
}

// Four namespaces share a data source with a fifth namespace, and exceed the default limits at the same time: with 50,001 series of one
// metric, with 300 selectors whose cross product has 90,000 series, with 998 label values of 8 kB, and with 3,000 selectors of different
// metrics. The readings of the fifth namespace must be at most freshFor old, and its target must follow them. Each of the four namespaces
// must get an Event that names its limit.
func TestNamespacesThatOverloadPrometheusDoNotAffectOthers(t *testing.T) {
	ns, load := suite.Namespace(t, "victim"), &exporter.Total{}
	load.Set(27)
	suite.Export(t, workload.Metrics(ns, "chat", load))
	var jobs atomic.Int64
	jobs.Store(17)
	server := httptest.NewServer(tenantPages(&jobs))
	defer server.Close()
	scrape := func(path, namespace, interval string) {
		t.Helper()
		target := stack.ScrapeTarget{Address: strings.TrimPrefix(server.URL, "http://"), Labels: map[string]string{"job": path,
			"namespace": namespace, "pod": "exporter-0", "__metrics_path__": "/" + path, "__scrape_interval__": interval,
			"__scrape_timeout__": interval}}
		if err := suite.Stack.Prometheus.Targets(path, target); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := suite.Stack.Prometheus.Targets(path); err != nil {
				t.Error(err)
			}
		})
	}
	scrape("victim", ns, "1s")
	suite.Namespace(t, "evil-series")
	// the Deployment has a pod, because gauges are queried only for workloads that have pods
	workload.Create(t, suite.Stack.Client, workload.Deployment("evil-series", "w0", 1))
	s := suite.Workload(t, workload.Deployment(ns, "chat", 3), `
maxReplicas: 12
signals:
- {name: queue, type: vllm, source: shared, metric: requestsWaiting, target: 10}
- {name: jobs, type: prometheus, source: shared, metric: jobs, matchLabels: {queue: x, kind: a}, target: 10}
behavior:
  scaleUp: {tolerance: 0}
  scaleDown: {tolerance: 0, stabilizationWindowSeconds: 2}
`)
	stack.Eventually(t, time.Minute, "three replicas for 27 requests", s.HasTarget(3))

	attack(t, scrape)
	attacked := time.Now()
	followed := func(target int32, set func()) {
		t.Helper()
		set()
		began := time.Now()
		for reached := false; !reached || time.Since(began) < 3*sharedInterval; time.Sleep(300 * time.Millisecond) {
			e := suite.Explanation(t, s.Policy())
			for _, signal := range e.Signals { // a signal of new pods can have partial coverage for a moment
				if signal.Value == nil || signal.Age > freshFor.Seconds() {
					t.Fatalf("%s after the attack the policy has no fresh reading: %+v", time.Since(attacked).Round(time.Second), signal)
				}
			}
			if reached = reached || e.Target == target; !reached && time.Since(began) > freshFor+time.Minute {
				t.Fatalf("the target is %d, want %d: %+v", e.Target, target, e.Signals)
			}
		}
	}
	followed(6, func() { jobs.Store(57) })
	stack.Eventually(t, time.Minute, "Prometheus has the series of the attack", func(ctx context.Context) error {
		n, err := suite.Stack.Prometheus.Value(ctx, `count({namespace=~"evil-.*",__name__=~"jobs|vllm:num_requests_waiting"})`)
		if err == nil && n < 50_001+pairs*pairs {
			err = fmt.Errorf("%g series", n)
		}
		return err
	})
	followed(9, func() { load.Set(83) })
	followed(2, func() { load.Set(13); jobs.Store(3) })
	for _, o := range overloads() {
		stack.Eventually(t, time.Minute, "an Event names the limit of namespace "+o.namespace, limitEvent(o.namespace, o.limit))
	}
	if limitEvent(ns, "")(t.Context()) == nil {
		t.Error("an Event says that the namespace within its limits exceeds one")
	}
	stack.Eventually(t, time.Minute, "the readings of a namespace over its limit are missing", func(ctx context.Context) error {
		e, err := suite.Explain(ctx, "evil-series/w0")
		if err == nil && (e.Signals[0].Value != nil || e.Signals[0].Note == "") {
			err = fmt.Errorf("%+v", e.Signals[0])
		}
		return err
	})
	followed(7, func() { load.Set(67) })
}

// attack creates the namespaces and policies of overloads, and makes Prometheus scrape their pods.
func attack(t *testing.T, scrape func(path, namespace, interval string)) {
	t.Helper()
	for _, o := range overloads() {
		if o.namespace != "evil-series" {
			suite.Namespace(t, o.namespace)
		}
		var text strings.Builder
		for i := range o.policies {
			fmt.Fprintf(&text, "---\n%s", controller.Policy(o.namespace, fmt.Sprint("w", i), o.spec(i)))
		}
		suite.Policies.Write(t, o.namespace, text.String())
	}
	for _, namespace := range []string{"evil-series", "evil-pairs"} {
		scrape(namespace, namespace, "10s")
	}
}

// tooManySeries is a part of the Event's message about a namespace that has more series than its share.
const tooManySeries = "more series than its share"

// limitEvent returns a check that an Event reports that a namespace exceeds a limit of a data source. On a busy machine, Prometheus may
// not finish a query for too many series in time. gpuscaler then cannot count the series, and the check accepts an Event that reports the
// failed query instead.
func limitEvent(namespace, limit string) func(context.Context) error {
	exceeded := suite.Event(namespace, "Namespace", namespace, "SourceLimitExceeded", limit)
	if limit != tooManySeries {
		return exceeded
	}
	unfinished := suite.Event(namespace, "Namespace", namespace, "SourceLimitExceeded", "does not finish the query for its series")
	return func(ctx context.Context) error {
		if unfinished(ctx) == nil {
			return nil
		}
		return exceeded(ctx)
	}
}
