package promapi

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/common/config"
	"github.com/prometheus/common/model"

	"github.com/gpuscaler/gpuscaler/pkg/telemetry/fetch"
)

func TestQuerySendsItsTimeLimitInPrometheusFormat(t *testing.T) {
	var sent string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent = r.FormValue("timeout")
		_, _ = w.Write([]byte(`{"status":"success","data":{"resultType":"vector","result":[]}}`))
	}))
	defer server.Close()
	h, err := fetch.NewClient(fetch.Config{HTTP: config.DefaultHTTPClientConfig, Guard: fetch.Guard{Loopback: true}})
	if err != nil {
		t.Fatal(err)
	}
	c := New(h, server.URL, Limits{Bytes: 1 << 20, Series: 10, Labels: 1 << 10}, nil)
	for _, allowed := range []time.Duration{10 * time.Minute, 90500 * time.Millisecond} {
		ctx, cancel := context.WithTimeout(t.Context(), allowed)
		_, err := c.Query(ctx, "up", func(*Series) error { return nil })
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		// Parse the timeout as Prometheus does, because Prometheus rejects a query whose timeout it cannot parse.
		got, err := model.ParseDuration(sent)
		if err != nil || time.Duration(got) > allowed || time.Duration(got) < allowed/2 {
			t.Errorf("of %s it sent %q, %v", allowed, sent, err)
		}
	}
}
