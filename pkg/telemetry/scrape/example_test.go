package scrape_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/fetch"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/pods"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/scrape"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/source"
)

// onePod is a workload with one ready pod.
type onePod struct{}

func (onePod) Pods(*scaling.Workload) []engine.Pod {
	return []engine.Pod{{Name: "chat-0", IP: "127.0.0.1", Node: "node", Ready: true, Leader: true}}
}

// A vLLM server has 7 waiting requests. Engines reads this number from the page of its pod.
func ExampleEngines_Fetch() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "# TYPE vllm:num_requests_waiting gauge")
		fmt.Fprintln(w, `vllm:num_requests_waiting{model_name="chat"} 7`)
	}))
	defer server.Close()
	_, text, _ := net.SplitHostPort(server.Listener.Addr().String())
	port, _ := strconv.Atoi(text)

	engines, err := scrape.NewEngines(&policy.DataSource{Type: policy.DataScrape, Profile: policy.SourceVLLM, Port: port,
		Timeout: time.Minute, MaxBytes: 1 << 20}, policy.SourceVLLM, pods.Cluster{Pods: onePod{}}, fetch.Guard{Loopback: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer engines.Close()
	requests := []source.Request{{Workload: &scaling.Workload{Key: scaling.Key{Namespace: "team", Name: "chat"}},
		Signal: &scaling.Signal{Kind: scaling.Total, MaxAge: time.Minute},
		Source: &policy.Source{Type: policy.SourceVLLM, Metric: "requestsWaiting"}}}
	readings := make([]scaling.Reading, 1)
	_, err = engines.Fetch(context.Background(), requests, readings)
	fmt.Println(readings[0].Value, readings[0].Coverage, err)
	// Output: 7 1 <nil>
}
