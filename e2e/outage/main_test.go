// Package outage tests gpuscaler with failing inputs: sources that stop, hang or return invalid data, and invalid policies. Missing data
// must never lower a target.
package outage

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/e2e/controller"
	"github.com/gpuscaler/gpuscaler/e2e/faults"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
)

// pollEvery is the poll interval of the data sources in these tests. Only one data source has another interval, sharedInterval.
const pollEvery = 2 * time.Second

var (
	suite controller.Suite
	// broken contains, for each fault, a proxy in front of the stack's only Prometheus that can inject this fault. Because of the separate
	// proxies, all faults can be tested in parallel.
	broken = map[faults.Fault]*faults.Prometheus{}
	// addresses maps each fault to the URL of its proxy.
	addresses = map[faults.Fault]string{}
)

func TestMain(m *testing.M) {
	os.Exit(suite.Run(m, controller.Setup{
		Nodes:    24,
		Prepare:  func(_ context.Context, s *stack.Stack) error { return breakable(s) },
		Platform: platform,
	}))
}

// breakable starts a proxy for each fault.
func breakable(s *stack.Stack) error {
	for _, f := range faults.All() {
		port, err := s.Port()
		if err != nil {
			return err
		}
		l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port))
		if err != nil {
			return err
		}
		if broken[f], err = faults.NewPrometheus(s.Prometheus.URL); err != nil {
			return err
		}
		addresses[f] = "http://" + l.Addr().String()
		go http.Serve(l, broken[f]) //nolint:errcheck // it ends with the process
	}
	return nil
}

// sourceOf returns the name of the data source that reads through the proxy of the given fault.
func sourceOf(f faults.Fault) string { return "prom-" + slug(f) }

func slug(f faults.Fault) string { return strings.ToLower(strings.ReplaceAll(f.String(), " ", "-")) }

func platform(s *stack.Stack) string {
	text := fmt.Sprintf("dataSources:\n- {name: prom, type: prometheus, default: true, address: %q, interval: %s}\n", s.Prometheus.URL,
		pollEvery)
	for _, f := range faults.All() {
		text += fmt.Sprintf("- {name: %s, type: prometheus, address: %q, interval: %s, maxBytes: 4Mi}\n", sourceOf(f), addresses[f], pollEvery)
	}
	text += fmt.Sprintf("- {name: shared, type: prometheus, address: %q, interval: %s}\n", s.Prometheus.URL, sharedInterval)
	return text + fmt.Sprintf("- {name: engines, type: scrape, profile: vllm, port: %d, interval: %s}\n", enginePort, pollEvery)
}

// sharedInterval is the poll interval of the data source that TestNamespacesThatOverloadPrometheusDoNotAffectOthers uses.
const sharedInterval = 5 * time.Second

// enginePort is the port on which each replica of a workload serves its metrics.
const enginePort = 8000

// spec returns a policy whose signal is the queue length from the given data source. Its target decreases after the signal has requested
// fewer replicas for two seconds. A reading is stale after four seconds.
func spec(source string) string {
	return fmt.Sprintf(`
maxReplicas: 12
signals:
- {name: queue, type: vllm, source: %s, metric: requestsWaiting, target: 10, maxAge: 4s}
behavior:
  scaleUp: {tolerance: 0}
  scaleDown: {tolerance: 0, stabilizationWindowSeconds: 2}
`, source)
}
