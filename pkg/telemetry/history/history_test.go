package history

import (
	"compress/gzip"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/config"

	"github.com/gpuscaler/gpuscaler/pkg/telemetry/promtest"
)

func open(t *testing.T, url string, l Limits) *Server {
	t.Helper()
	s, err := Open(url, config.DefaultHTTPClientConfig, l)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestQueriesAreEvaluatedByPrometheusEngine(t *testing.T) {
	web := promtest.Serve(t, time.Unix(0, 0), "up{job=\"a\"} 1x60\nup{job=\"b\"} 0x60")
	web.Kinds = map[string]string{"up": "gauge"}
	s := open(t, web.URL, Limits{})
	hour := v1.Range{Start: time.Unix(600, 0), End: time.Unix(3600, 0), Step: 10 * time.Minute}
	m, err := s.Range(t.Context(), "up", hour)
	if err != nil || len(m) != 2 || len(m[0].Values) != 6 {
		t.Errorf("%v, %v", m, err)
	}
	v, err := s.Instant(t.Context(), "sum(up)", time.Unix(60, 0))
	if err != nil || len(v) != 1 || v[0].Value != 1 {
		t.Errorf("%v, %v", v, err)
	}
	names, err := s.Names(t.Context(), `{__name__=~"u.|down"}`, time.Unix(0, 0), time.Unix(60, 0))
	if err != nil || fmt.Sprint(names) != "[up]" {
		t.Errorf("%v, %v", names, err)
	}
	jobs, err := s.Values(t.Context(), "job", "up", time.Unix(0, 0), time.Unix(60, 0))
	if err != nil || fmt.Sprint(jobs) != "[a b]" {
		t.Errorf("%v, %v", jobs, err)
	}
	if none, err := s.Values(t.Context(), "instance", "up", time.Unix(0, 0), time.Unix(60, 0)); err != nil || len(none) != 0 {
		t.Errorf("a label that no series has: %v, %v", none, err)
	}
	sets, err := s.Series(t.Context(), `up{job="a"}`, time.Unix(0, 0), time.Unix(60, 0))
	if err != nil || len(sets) != 1 || sets[0]["job"] != "a" {
		t.Errorf("%v, %v", sets, err)
	}
	kind, err := s.Kind(t.Context(), "up")
	other, _ := s.Kind(t.Context(), "down")
	if version, e := s.Version(t.Context()); kind != "gauge" || other != "" || version != "3.5.0" || err != nil || e != nil {
		t.Errorf("%q %q %q, %v, %v", kind, other, version, err, e)
	}
	if _, err := s.Instant(t.Context(), "1", time.Unix(60, 0)); err == nil {
		t.Error("a scalar is returned as a vector")
	}
	if _, err := s.Instant(t.Context(), "sum(", time.Unix(60, 0)); err == nil || !strings.Contains(err.Error(), "the query was: sum(") {
		t.Errorf("%v", err)
	}
}

func TestAnswerIsBounded(t *testing.T) {
	var series []string
	for i := range 30 {
		series = append(series, fmt.Sprintf(`up{job="%d"} 1x10`, i))
	}
	web := promtest.Serve(t, time.Unix(0, 0), strings.Join(series, "\n"))
	if _, err := open(t, web.URL, Limits{Series: 20}).Instant(t.Context(), "up", time.Unix(60, 0)); !errors.Is(err, ErrTooLarge) {
		t.Errorf("30 series of 20: %v", err)
	}
	if _, err := open(t, web.URL, Limits{Bytes: 500}).Instant(t.Context(), "up", time.Unix(60, 0)); !errors.Is(err, ErrTooLarge) {
		t.Errorf("more than 500 bytes: %v", err)
	}
	slow := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm() // the server detects that the client is gone only after it has read the request
		<-r.Context().Done()
	}))
	defer slow.Close()
	// The server never answers, so only the time limit ends the query.
	if _, err := open(t, slow.URL, Limits{Time: 100 * time.Millisecond}).Instant(t.Context(), "up", time.Unix(60, 0)); err == nil {
		t.Error("no error for a server that never answers")
	}
}

// The client accepts compressed responses, and the limit applies to the decompressed response.
func TestCompressedAnswerIsBounded(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept-Encoding") != "gzip" {
			t.Errorf("Accept-Encoding %q", r.Header.Get("Accept-Encoding"))
		}
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		defer z.Close()
		fmt.Fprintf(z, `{"padding":"%s","status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[60,"1"]}]}}`,
			strings.Repeat("x", 1<<20))
	}))
	defer web.Close()
	if v, err := open(t, web.URL, Limits{}).Instant(t.Context(), "up", time.Unix(60, 0)); err != nil || len(v) != 1 {
		t.Errorf("%v, %v", v, err)
	}
	if _, err := open(t, web.URL, Limits{Bytes: 1 << 19}).Instant(t.Context(), "up", time.Unix(60, 0)); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a megabyte, and the limit is half of it: %v", err)
	}
}

// Open refuses an address that is not an HTTP URL with a host. A request to the metadata service of a cloud is refused when it is sent.
func TestInvalidAddressesAreRefused(t *testing.T) {
	for _, address := range []string{"", "prometheus:9090", "ftp://prometheus", "http://", "://"} {
		if _, err := Open(address, config.DefaultHTTPClientConfig, Limits{}); err == nil || !strings.Contains(err.Error(), "http://HOST:PORT") {
			t.Errorf("%q: %v", address, err)
		}
	}
	if _, err := open(t, "http://169.254.169.254", Limits{}).Version(t.Context()); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("the cloud's metadata service: %v", err)
	}
}

func TestPartialAnswersAreRefusedAndWarningsAreKept(t *testing.T) {
	var partial string
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		partial = r.FormValue("partial_response")
		fmt.Fprint(w, `{"status":"success","warnings":["a store is away"],"data":{"resultType":"vector","result":[]}}`)
	}))
	defer web.Close()
	s := open(t, web.URL+"/prefix/", Limits{})
	for range 2 {
		if _, err := s.Instant(t.Context(), "up", time.Unix(60, 0)); err != nil {
			t.Fatal(err)
		}
	}
	if got := fmt.Sprint(s.Warnings()); partial != "false" || got != "[a store is away]" {
		t.Errorf("partial_response=%q, warnings %s", partial, got)
	}
}
