package redis

import (
	"context"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/redisqueue"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/source"
)

// recorder is a client whose queues have the length 7. It records which lengths the server sent.
type recorder struct{ replied []int }

func (r *recorder) Length(string) int                         { return 7 }
func (r *recorder) Replied(_ string, length int, _ time.Time) { r.replied = append(r.replied, length) }
func (r *recorder) Exclusively(f func())                      { f() }

// The test checks the model with gpuscaler's own client. During each failure, the client must read the same result as from a real Redis
// server with this failure. The model must record a length only if the client may use it.
func TestTheClientReadsTheQueuesDuringEveryFailure(t *testing.T) {
	const missing = -1
	sources := []policy.Source{{ListName: "jobs"}, {Stream: "jobs"}, {Stream: "jobs", ConsumerGroup: "workers"}}
	for f := Works; f < numFaults; f++ {
		t.Run(f.String(), func(t *testing.T) {
			want := []float64{missing, missing, missing}
			switch f {
			case Works, Slow:
				want = []float64{7, 7, 7}
			case Negative: // package redisqueue returns a negative length, which package telemetry later refuses
				want = []float64{-1, -1, missing}
			case NoLag:
				want = []float64{7, 7, missing}
			case Deleted, FailedOver:
				want = []float64{0, 0, missing}
			}
			synctest.Test(t, func(t *testing.T) {
				server, client := New(), &recorder{}
				defer server.CloseOf(client)
				server.Fail(f, time.Now().Add(time.Hour), map[string]int{"jobs": 5})
				got := make([]float64, 0, len(sources))
				for i := range sources {
					got = append(got, fetch(t, server, client, &sources[i]))
				}
				if !slices.Equal(got, want) {
					t.Errorf("read %v, want %v", got, want)
				}
				for _, length := range client.replied {
					if !slices.Contains(want, float64(length)) {
						t.Errorf("the server recorded %d as sent; the client read %v", length, got)
					}
				}
			})
		})
	}
}

// fetch reads a queue once, as a poll does, and returns its length; -1: the reading is missing.
func fetch(t *testing.T, s *Server, c Client, queue *policy.Source) float64 {
	t.Helper()
	f, err := redisqueue.New(&policy.DataSource{Address: "redis:6379"}, func(ctx context.Context, _, _ string) (net.Conn, error) {
		return s.Dial(ctx, c)
	})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 1700*time.Millisecond)
	defer cancel()
	out := make([]scaling.Reading, 1)
	if _, err := f.Fetch(ctx, []source.Request{{Source: queue}}, out); err != nil || !out[0].Known {
		return -1
	}
	return out[0].Value
}

func TestARestartedServerRefusesThenLoadsThenServes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, client := New(), &recorder{}
		defer server.CloseOf(client)
		queue := &policy.Source{ListName: "jobs"}
		server.Fail(Restarted, time.Now().Add(time.Hour), nil)
		for _, step := range []struct {
			wait time.Duration
			want float64
		}{{0, -1}, {refusesTime, -1}, {loadsTime, 7}} {
			time.Sleep(step.wait)
			if got := fetch(t, server, client, queue); got != step.want {
				t.Errorf("read %v after %s, want %v", got, step.wait, step.want)
			}
		}
	})
}
