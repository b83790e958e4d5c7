package telemetry

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
)

// A response that crashes the process must not crash the leader and the standby at the same time. A standby therefore opens no connection
// to any source. After it becomes the leader, it must have readings within a few seconds.
func TestOnlyTheLeaderPollsDataSources(t *testing.T) {
	var queries atomic.Int64
	prometheus := newFaulty(t)
	prometheus.does(func(w http.ResponseWriter, _ *http.Request) {
		queries.Add(1)
		fmt.Fprint(w, answerOf("5"))
	})
	server := miniredis.RunT(t)
	if _, err := server.Push("jobs", "a", "b"); err != nil {
		t.Fatal(err)
	}
	var leading atomic.Bool
	w := compiled("chat", "llama", listOf("jobs"), querySource())
	p := newPoller(t, Options{Leading: leading.Load})
	p.SetPolicies([]*policy.Compiled{w}, platformOf(redisSource(server.Addr()), promSource(prometheus.URL)))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = p.Run(ctx) }()
	defer func() { stop(); <-ended }()

	time.Sleep(3 * standbyInterval)
	if server.TotalConnectionCount() != 0 || queries.Load() != 0 {
		t.Errorf("a standby opened %d connections to Redis and sent %d queries", server.TotalConnectionCount(), queries.Load())
	}
	leading.Store(true)
	began := time.Now()
	for r := read(p, w); !r[0].Known || !r[1].Known; r = read(p, w) {
		if time.Since(began) > time.Minute {
			t.Fatalf("a minute after it became the leader: %+v", r)
		}
		time.Sleep(10 * time.Millisecond)
	}
	if r := read(p, w); r[0].Value != 2 || r[1].Value != 5 {
		t.Errorf("%+v", r)
	}
}
