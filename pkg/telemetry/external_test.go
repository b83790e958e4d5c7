package telemetry

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// metricItem returns one item of an external metric list.
func metricItem(value string, at time.Time) string {
	return fmt.Sprintf(`{"metricName":"m","metricLabels":{},"timestamp":%q,"value":%q}`, at.UTC().Format(time.RFC3339), value)
}

func metricList(items ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"kind":"ExternalMetricValueList","apiVersion":"external.metrics.k8s.io/v1beta1","metadata":{},"items":[%s]}`,
			strings.Join(items, ","))
	}
}

func kubeStatus(code int, reason string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code})
	}
}

func externalSource(metric, selector string) policy.Source {
	return policy.Source{Type: policy.SourceExternal, Metric: metric, Selector: selector}
}

func TestExternalMetricsAreAskedOnceEachAndSummed(t *testing.T) {
	server := newFaulty(t)
	at := time.Now().Add(-30 * time.Second).Truncate(time.Second)
	asked := map[string]int{}
	server.does(func(w http.ResponseWriter, r *http.Request) {
		asked[r.URL.Path+"?"+r.URL.Query().Get("labelSelector")]++
		metricList(metricItem("1500m", at), metricItem("2", at.Add(time.Second)))(w, r)
	})
	a := compiled("embed", "a", externalSource("backlog", "queue=x"))
	b := compiled("embed", "b", externalSource("backlog", "queue=x"))
	p := newPoller(t, Options{Kubernetes: &rest.Config{Host: server.URL}})
	p.SetPolicies([]*policy.Compiled{a, b}, nil)
	pollOnce(t, p)
	for _, w := range []*policy.Compiled{a, b} {
		if r := read(p, w)[0]; !r.Known || r.Value != 3.5 || !r.At.Equal(at) || r.Coverage != 1 {
			t.Errorf("%s: %+v, want 3.5 as of the older item", w.Workload.Key, r)
		}
	}
	if n := asked["/apis/external.metrics.k8s.io/v1beta1/namespaces/embed/backlog?queue=x"]; n != 1 || len(asked) != 1 {
		t.Errorf("requests %v, want one request for the metric", asked)
	}
}

// Namespace evil uses a thousand external metrics, and the adapter never responds to requests for them. Without a limit for each namespace,
// these requests would use all concurrent requests of a poll.
func TestExternalMetricsThatHangDoNotDelayOtherNamespaces(t *testing.T) {
	t.Parallel()
	server := newFaulty(t)
	at := time.Now().Add(-30 * time.Second).Truncate(time.Second)
	server.does(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "/namespaces/evil/") {
			<-r.Context().Done()
			return
		}
		metricList(metricItem("7", at))(w, r)
	})
	var all []*policy.Compiled
	for i := range 1000 {
		all = append(all, compiled("evil", fmt.Sprintf("w%d", i), externalSource(fmt.Sprintf("m%d", i), "")))
	}
	victim := compiled("victim", "w", externalSource("backlog", ""), externalSource("other", ""))
	p := newPoller(t, Options{Kubernetes: &rest.Config{Host: server.URL, QPS: -1}})
	p.SetPolicies(append(all, victim), nil)
	p.mu.Lock()
	for key, g := range p.plan.groups {
		g.source.Timeout = 3 * time.Second // the adapter never responds, so each poll takes this long
		p.plan.groups[key] = g
	}
	p.mu.Unlock()
	for round := range 3 {
		pollOnce(t, p)
		for i, r := range read(p, victim) {
			if !r.Known || r.Value != 7 || r.Failures != 0 {
				t.Errorf("round %d: signal %d of the victim reads %+v", round, i, r)
			}
		}
	}
	if r := read(p, all[0])[0]; r.Known || r.Cause != scaling.CauseTimeout {
		t.Errorf("the offender reads %+v", r)
	}
}

func TestReadingOfAFaultyAdapter(t *testing.T) {
	for _, c := range []struct {
		name  string
		serve http.HandlerFunc
		known bool
		cause scaling.Cause
	}{
		{"no items", metricList(), false, scaling.CauseEmpty},
		{"negative", metricList(metricItem("-5", time.Now()), metricItem("50", time.Now())), false, scaling.CauseInvalid},
		{"absurd", metricList(metricItem("9E", time.Now())), false, scaling.CauseInvalid},
		{"unknown metric", kubeStatus(404, "NotFound"), false, scaling.CauseNoMetric},
		{"forbidden", kubeStatus(403, "Forbidden"), true, scaling.CauseForbidden},
		{"asks the client to wait for a second, ten times", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Retry-After", "1")
			kubeStatus(429, "TooManyRequests")(w, r)
		}, true, scaling.CauseHTTPError},
		{"adapter is down", kubeStatus(503, "ServiceUnavailable"), true, scaling.CauseHTTPError},
		{"redirect", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/elsewhere", http.StatusFound)
		}, true, scaling.CauseHTTPError},
		{"huge", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			for chunk := strings.Repeat(" ", 1<<16); ; {
				if _, err := fmt.Fprint(w, chunk); err != nil {
					return
				}
			}
		}, false, scaling.CauseTruncated},
		{"slow", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, true, scaling.CauseTimeout},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			server := newFaulty(t)
			w := compiled("embed", "a", policy.Source{Type: policy.SourceExternal, DataSource: "api", Metric: "backlog"})
			p := newPoller(t, Options{Kubernetes: &rest.Config{Host: server.URL}})
			source := policy.DataSource{Name: "api", Type: policy.DataExternal, Interval: time.Minute, Timeout: time.Minute}
			p.SetPolicies([]*policy.Compiled{w}, platformOf(source))
			server.does(metricList(metricItem("5", time.Now())))
			pollOnce(t, p)
			if r := read(p, w)[0]; !r.Known || r.Value != 5 {
				t.Fatalf("before: %+v", r)
			}
			server.does(c.serve)
			if c.name == "slow" {
				source.Timeout = 300 * time.Millisecond
				p.SetPolicies([]*policy.Compiled{w}, platformOf(source))
				clear(p.runners) // new runners get clients with the new timeout
			}
			pollOnce(t, p)
			if r := read(p, w)[0]; r.Known != c.known || r.Cause != c.cause || r.Failures != 1 {
				t.Errorf("during: %+v, want known %t, cause %d", r, c.known, c.cause)
			}
		})
	}
}

// testTriggers maps the name of a KEDA trigger to the name of its external metric. It implements external.Triggers.
type testTriggers map[string]string

func (f testTriggers) TriggerMetric(w *scaling.Workload, trigger string) (metric, selector string, ok bool) {
	metric, ok = f[trigger]
	return metric, "scaledobject.keda.sh/name=" + w.Key.Name, ok
}

func TestTriggersOfAScaledObjectAreReadThroughKEDAsMetrics(t *testing.T) {
	server := newFaulty(t)
	asked := ""
	server.does(func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.Path + "?" + r.URL.Query().Get("labelSelector")
		metricList(metricItem("7", time.Now()))(w, r)
	})
	keda := func(trigger string) policy.Source { return policy.Source{Type: policy.SourceKEDA, Trigger: trigger} }
	w := compiled("embed", "worker", keda("sqs"), keda("unpublished"), externalSource("gpuscaler-desired-replicas", ""))
	p := newPoller(t, Options{Kubernetes: &rest.Config{Host: server.URL}, Triggers: testTriggers{"sqs": "s0-aws-sqs-queue-embed"}})
	p.SetPolicies([]*policy.Compiled{w}, nil)
	pollOnce(t, p)
	r := read(p, w)
	if !r[0].Known || r[0].Value != 7 {
		t.Errorf("trigger: %+v", r[0])
	}
	want := "/apis/external.metrics.k8s.io/v1beta1/namespaces/embed/s0-aws-sqs-queue-embed?scaledobject.keda.sh/name=worker"
	if asked != want {
		t.Errorf("requested %s, want the metric of the KEDA trigger", asked)
	}
	if r[1].Known || r[1].Cause != scaling.CauseUnpublished {
		t.Errorf("a trigger that KEDA has not published: %+v", r[1])
	}
	if r[2].Known || r[2].Cause != scaling.CauseInvalid {
		t.Errorf("our own target as a signal: %+v", r[2])
	}
}

// The API server rejects the request for one metric with 403. The leader logs the signal once, and once more when the request is permitted.
// The log contains no text of the response.
func TestRejectedRequestOfASignalIsLoggedOnce(t *testing.T) {
	var log bytes.Buffer
	server := newFaulty(t)
	w := compiled("embed", "a", externalSource("backlog", ""), externalSource("secret", ""))
	p := newPoller(t, Options{Kubernetes: &rest.Config{Host: server.URL}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	p.SetPolicies([]*policy.Compiled{w}, platformOf(policy.DataSource{Name: "api", Type: policy.DataExternal, Interval: time.Minute}))
	server.does(func(rw http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/secret") {
			kubeStatus(403, "Forbidden")(rw, r)
			return
		}
		metricList(metricItem("5", time.Now()))(rw, r)
	})
	for range 3 {
		pollOnce(t, p)
	}
	if n := strings.Count(log.String(), "rejects the requests"); n != 1 || !strings.Contains(log.String(), "of embed/a: forbidden") {
		t.Errorf("%d lines: %s", n, &log)
	}
	server.does(metricList(metricItem("5", time.Now())))
	pollOnce(t, p)
	if !strings.Contains(log.String(), "does not reject requests of signals any more") {
		t.Errorf("%s", &log)
	}
}
