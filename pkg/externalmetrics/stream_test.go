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

// KEDA acts on each `true` and forgets it when it restarts: an active workload is told again every 15 s for a minute and once a minute
// from then on, for each is a write of KEDA's; a sleeping one is told once.
func TestAnActiveWorkloadIsToldAgainOftenAtFirstAndASleepingOneOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, leave := context.WithCancel(context.Background())
		board, stream, ended := &moving{}, &told{ctx: ctx, began: time.Now()}, make(chan error, 1)
		board.set(2, nil)
		go func() { ended <- NewScaler(board, time.Now).StreamIsActive(ref("chat"), stream) }()
		time.Sleep(200 * time.Second)
		board.set(0, nil)
		time.Sleep(100 * time.Second)
		board.set(0, engine.ErrStale) // no news is no message
		time.Sleep(20 * time.Second)
		board.set(1, nil)
		time.Sleep(20 * time.Second)
		leave()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		var want []time.Duration
		for _, at := range []int{0, 15, 30, 45, 60, 120, 180, 200, 320, 335} {
			want = append(want, time.Duration(at)*time.Second)
		}
		if !slices.Equal(stream.at, want) {
			t.Errorf("told at %v, want %v", stream.at, want)
		}
		if want := []bool{true, true, true, true, true, true, true, false, true, true}; !slices.Equal(stream.said, want) {
			t.Errorf("told %v, want %v", stream.said, want)
		}
	})
}
