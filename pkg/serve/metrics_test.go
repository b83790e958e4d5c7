package serve

import (
	"compress/gzip"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"
)

// clock is a simulated clock that a test advances.
type clock struct{ nanoseconds atomic.Int64 }

func (c *clock) now() time.Time          { return time.Unix(1_800_000_000, c.nanoseconds.Load()) }
func (c *clock) advance(d time.Duration) { c.nanoseconds.Add(int64(d)) }

// many returns a gatherer of one gauge with n series. It increments gathered at each call.
func many(name string, n int, gathered *atomic.Int32) prometheus.Gatherer {
	r := prometheus.NewRegistry()
	g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: "A gauge."}, []string{"policy"})
	for i := range n {
		g.WithLabelValues(fmt.Sprint("policy-", i)).Set(float64(i))
	}
	r.MustRegister(g)
	return prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		gathered.Add(1)
		return r.Gather()
	})
}

// 4000 connections request the metrics of 10,000 policies and never read the response. All responses must share one text in memory, and a
// scraper must get its response.
func TestClientsThatNeverReadShareOneTextAndDoNotBlockTheScraper(t *testing.T) {
	var gathered, closed atomic.Int32
	clock := &clock{}
	m := NewMetrics(clock.now, many("first", 10_000, &gathered), many("second", 10_000, &gathered))
	address := start(t, listen(t), MetricsServer{Metrics: m, Closed: func() { closed.Add(1) }}.Serve)
	const attackers = 4000
	hold(t, address, "127.0.0.2", "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", attackers)
	eventually(t, "all but the limit are closed", func() bool { return closed.Load() >= attackers-maxMetricsRequests })
	code, body := get(t, "http://"+address+"/metrics")
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(body))
	if code != http.StatusOK || err != nil || len(families["first"].GetMetric()) != 10_000 || len(families["second"].GetMetric()) != 10_000 {
		t.Errorf("the scraper got %d with %d families (%v)", code, len(families), err)
	}
	if n := gathered.Load(); n != 2 {
		t.Errorf("two gatherers gathered %d times for %d requests in one second", n, attackers+1)
	}
}

func TestMetricsAreGatheredAtMostOnceASecond(t *testing.T) {
	registry, clock := prometheus.NewRegistry(), &clock{}
	value := prometheus.NewGauge(prometheus.GaugeOpts{Name: "value", Help: "A gauge."})
	registry.MustRegister(value)
	m := NewMetrics(clock.now, registry)
	read := func() string {
		w := httptest.NewRecorder()
		m.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		return w.Body.String()
	}
	for _, step := range []struct {
		set     float64
		advance time.Duration
		want    string
	}{
		{1, 0, "value 1\n"},
		{2, maxSnapshotAge - 1, "value 1\n"},
		{3, 1, "value 3\n"},
		{4, -time.Hour, "value 4\n"}, // the clock was set back: the text has a time in the future
	} {
		value.Set(step.set)
		clock.advance(step.advance)
		if got := read(); !strings.HasSuffix(got, step.want) {
			t.Errorf("after %s: %q, want %q", step.advance, got, step.want)
		}
	}
}

func TestMetricsAreCompressedOnRequest(t *testing.T) {
	var gathered atomic.Int32
	m := NewMetrics((&clock{}).now, many("first", 500, &gathered))
	address := start(t, listen(t), MetricsServer{Metrics: m}.Serve)
	_, plain := get(t, "http://"+address+"/metrics")
	_, compressed := get(t, "http://"+address+"/metrics", "Accept-Encoding", "gzip")
	r, err := gzip.NewReader(strings.NewReader(compressed))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r)
	if err != nil || string(text) != plain || len(compressed) > len(plain)/4 {
		t.Errorf("%d bytes compressed, %d plain, %v", len(compressed), len(plain), err)
	}
}

func TestFailedGathererIsAnErrorAndNotAPartialAnswer(t *testing.T) {
	var gathered atomic.Int32
	broken := prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) { return nil, errors.New("collected twice") })
	w := httptest.NewRecorder()
	NewMetrics((&clock{}).now, many("first", 5, &gathered), broken).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusInternalServerError || !strings.Contains(w.Body.String(), "collected twice") ||
		strings.Contains(w.Body.String(), "first{") {
		t.Errorf("%d %q", w.Code, w.Body)
	}
}

func TestMetricsPortServesOnlyGETOfMetrics(t *testing.T) {
	var gathered atomic.Int32
	address := start(t, listen(t), MetricsServer{Metrics: NewMetrics((&clock{}).now, many("first", 1, &gathered))}.Serve)
	for path, want := range map[string]int{"/metrics": 200, "/healthz": 404, "/readyz": 404, "/debug/pprof/heap": 404} {
		if code, _ := get(t, "http://"+address+path); code != want {
			t.Errorf("%s: %d, want %d", path, code, want)
		}
	}
	answer, err := http.Post("http://"+address+"/metrics", "text/plain", strings.NewReader("x"))
	if err != nil || answer.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("POST: %v, %v", answer, err)
	}
	answer.Body.Close()
}

// cluster returns the configuration of a test API server. It accepts the tokens "scraper" and "tenant", and only the scraper may get
// /metrics. The map contains the tokens that were reviewed.
func cluster(t *testing.T) (*rest.Config, *sync.Map) {
	t.Helper()
	asked := &sync.Map{}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /apis/authentication.k8s.io/v1/tokenreviews", func(w http.ResponseWriter, r *http.Request) {
		var review authenticationv1.TokenReview
		_ = json.NewDecoder(r.Body).Decode(&review)
		asked.Store(review.Spec.Token, true)
		review.Status.User.Username = review.Spec.Token
		review.Status.Authenticated = review.Spec.Token == "scraper" || review.Spec.Token == "tenant"
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(review)
	})
	mux.HandleFunc("POST /apis/authorization.k8s.io/v1/subjectaccessreviews", func(w http.ResponseWriter, r *http.Request) {
		var review authorizationv1.SubjectAccessReview
		_ = json.NewDecoder(r.Body).Decode(&review)
		at := review.Spec.NonResourceAttributes
		review.Status.Allowed = review.Spec.User == "scraper" && at != nil && at.Path == "/metrics" && at.Verb == "get"
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(review)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}, asked
}

func TestOnlyAuthorizedScrapersReadTheMetrics(t *testing.T) {
	var gathered atomic.Int32
	kube, asked := cluster(t)
	guarded, err := Authorized(kube, NewMetrics((&clock{}).now, many("first", 1, &gathered)))
	if err != nil {
		t.Fatal(err)
	}
	certificate, key, err := cert.GenerateSelfSignedCertKey("gpuscaler-metrics", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		t.Fatal(err)
	}
	address := start(t, listen(t), MetricsServer{Metrics: guarded,
		Certificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &pair, nil }}.Serve)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}}
	t.Cleanup(client.CloseIdleConnections)
	for token, want := range map[string]int{"": 401, "made-up": 500, "tenant": 403, "scraper": 200} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+address+"/metrics", nil)
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		answer, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(answer.Body)
		answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("token %q: %d, want %d", token, answer.StatusCode, want)
		}
		if served := strings.Contains(string(body), "first{"); served != (token == "scraper") {
			t.Errorf("token %q: metrics are served: %v", token, served)
		}
		if answer.ProtoMajor != 1 {
			t.Errorf("HTTP/%d: with HTTP/2 one connection has many requests", answer.ProtoMajor)
		}
	}
	if _, ok := asked.Load("scraper"); !ok {
		t.Error("the cluster received no TokenReview")
	}
}
