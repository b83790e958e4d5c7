package externalmetrics

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kedacore/keda/v2/pkg/scalers/externalscaler"
	"google.golang.org/grpc"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
)

// told is a stream that writes down what it is sent, and when.
type told struct {
	grpc.ServerStream
	ctx   context.Context
	began time.Time
	at    []time.Duration
	said  []bool
}

func (s *told) Context() context.Context { return s.ctx }

func (s *told) Send(r *externalscaler.IsActiveResponse) error {
	s.at, s.said = append(s.at, time.Since(s.began).Truncate(time.Second)), append(s.said, r.Result)
	return nil
}

// KEDA acts on each `true` and forgets it when it restarts: an active workload is told again every 15 s, a sleeping one once.
func TestAnActiveWorkloadIsToldAgainEveryFifteenSecondsAndASleepingOneOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, leave := context.WithCancel(context.Background())
		board, stream, ended := &moving{}, &told{ctx: ctx, began: time.Now()}, make(chan error, 1)
		board.set(2, nil)
		go func() { ended <- NewScaler(board, time.Now).StreamIsActive(ref("chat"), stream) }()
		time.Sleep(50 * time.Second)
		board.set(0, nil)
		time.Sleep(50 * time.Second)
		board.set(0, engine.ErrStale) // no news is no message
		time.Sleep(20 * time.Second)
		board.set(1, nil)
		time.Sleep(20 * time.Second)
		leave()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		second := time.Second
		if want := []time.Duration{0, 15 * second, 30 * second, 45 * second, 50 * second, 120 * second, 135 * second}; !slices.Equal(stream.at, want) {
			t.Errorf("told at %v, want %v", stream.at, want)
		}
		if want := []bool{true, true, true, true, false, true, true}; !slices.Equal(stream.said, want) {
			t.Errorf("told %v, want %v", stream.said, want)
		}
	})
}
