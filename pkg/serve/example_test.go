package serve_test

import (
	"fmt"
	"io"
	"net/http/httptest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuscaler/gpuscaler/pkg/serve"
)

func ExampleNewMetrics() {
	registry := prometheus.NewRegistry()
	ready := prometheus.NewGauge(prometheus.GaugeOpts{Name: "ready_replicas", Help: "Replicas that are Ready."})
	registry.MustRegister(ready)
	ready.Set(3)

	answer := httptest.NewRecorder()
	serve.NewMetrics(time.Now, registry).ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
	text, _ := io.ReadAll(answer.Body)
	fmt.Print(string(text))
	// Output:
	// # HELP ready_replicas Replicas that are Ready.
	// # TYPE ready_replicas gauge
	// ready_replicas 3
}
