package faults_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/e2e/faults"
)

const vector = `{"status":"success","data":{"resultType":"vector","result":[` +
	`{"metric":{"pod":"a"},"value":[1700000000.1,"5"]},{"metric":{"pod":"b"},"value":[1700000000.1,"7"]},` +
	`{"metric":{"part":"age"},"value":[1700000000.1,"1699999999"]}]}}`

func TestQueryFailsAsTheSwitchIsSet(t *testing.T) {
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, vector)
	}))
	defer upstream.Close()
	proxy, err := faults.NewPrometheus(upstream.URL)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(proxy)
	defer server.Close()

	for _, c := range []struct {
		fault         faults.Fault
		status        int
		body          string // expected content
		absent        string // content that must be missing
		length        int    // expected length in bytes; 0: any length
		broken, hangs bool
	}{
		{fault: faults.None, status: 200, body: vector},
		{fault: faults.Empty, status: 200, body: `"result":[]`, absent: "metric"},
		{fault: faults.NaN, status: 200, body: `"value":[1700000000.1,"NaN"]`, absent: `"5"`},
		{fault: faults.Inf, status: 200, body: `"value":[1700000000.1,"+Inf"]`, absent: `"7"`},
		{fault: faults.HalfPods, status: 200, body: `"pod":"a"`, absent: `"pod":"b"`},
		{fault: faults.Truncated, status: 200, length: len(vector) / 2, broken: true},
		{fault: faults.Error, status: 500},
		{fault: faults.Huge, status: 200, body: `"pod":"filler"`},
		{fault: faults.Hang, hangs: true},
		{fault: faults.HTML, status: 200, body: "<html>"},
		{fault: faults.Unauthorized, status: 401},
		{fault: faults.TooMany, status: 429},
		{fault: faults.Unavailable, status: 503, body: "<html>"},
		{fault: faults.Failure, status: 200, body: `"status":"error"`},
		{fault: faults.Scalar, status: 200, body: `"scalar"`},
		{fault: faults.Stale, status: 200, body: `"value":[1699999400.1,"5"]`},
		{fault: faults.Future, status: 200, body: `"value":[1700000600.1,"5"]`},
		{fault: faults.ClockBehind, status: 200, body: `"value":[1699999400.1,"1699999399"]`},
		{fault: faults.ClockAhead, status: 200, body: `"value":[1700000600.1,"1700000599"]`},
		{fault: faults.Duplicate, status: 200, body: `"7"]},{"metric":{"pod":"b"}`},
		{fault: faults.Relabeled, status: 200, body: `"pod":"a-other"`, absent: `"pod":"a"`},
		{fault: faults.Slow, hangs: true},
	} {
		t.Run(c.fault.String(), func(t *testing.T) {
			proxy.Set(c.fault)
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			request, _ := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+"/api/v1/query", strings.NewReader("query=up"))
			response, err := http.DefaultClient.Do(request)
			if c.hangs {
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("answered: %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			body, err := io.ReadAll(response.Body)
			if response.StatusCode != c.status || (err != nil) != c.broken {
				t.Errorf("status %d, error %v", response.StatusCode, err)
			}
			if !strings.Contains(string(body), c.body) || c.absent != "" && strings.Contains(string(body), c.absent) {
				t.Errorf("body %.200s", body)
			}
			if c.length > 0 && c.fault == faults.Truncated && len(body) > len(vector)/2+64 {
				t.Errorf("received %d bytes of %d", len(body), len(vector))
			}
			if c.fault == faults.Huge && len(body) < faults.HugeBytes {
				t.Errorf("only %d bytes", len(body))
			}
		})
	}
	if n := proxy.Queries(); n != 22 {
		t.Errorf("%d queries counted, want 22", n)
	}
}

// The client does not follow redirects, like a client with credentials. With the fault Flapping, every second query fails.
func TestRedirectAndFlapping(t *testing.T) {
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, vector) }))
	defer upstream.Close()
	proxy, err := faults.NewPrometheus(upstream.URL)
	if err != nil {
		t.Fatal(err)
	}
	status := func(f faults.Fault) int {
		proxy.Set(f)
		answer := httptest.NewRecorder()
		proxy.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/api/v1/query?query=up", nil))
		return answer.Code
	}
	if got := status(faults.Redirect); got != http.StatusFound {
		t.Errorf("status %d, want 302", got)
	}
	if a, b := status(faults.Flapping), status(faults.Flapping); a+b != http.StatusOK+http.StatusInternalServerError {
		t.Errorf("status %d and %d, want 200 and 500", a, b)
	}
}

func TestTheDateHeaderHasTheWrongClock(t *testing.T) {
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, vector) }))
	defer upstream.Close()
	proxy, err := faults.NewPrometheus(upstream.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy.Set(faults.ClockAhead)
	server := httptest.NewServer(proxy)
	defer server.Close()
	answer, err := http.Get(server.URL + "/api/v1/query?query=up")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	date, err := http.ParseTime(answer.Header.Get("Date"))
	if ahead := time.Until(date); err != nil || ahead < 9*time.Minute || ahead > 10*time.Minute {
		t.Errorf("the Date header is %s ahead (%v), want ten minutes", ahead, err)
	}
}
