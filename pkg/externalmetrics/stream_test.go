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

// recordedStream is a stream that records each sent value and the time.
type recordedStream struct {
	grpc.ServerStream
	ctx   context.Context
	began time.Time
	at    []time.Duration
	sent  []bool
}

func (s *recordedStream) Context() context.Context { return s.ctx }

func (s *recordedStream) Send(r *externalscaler.IsActiveResponse) error {
	s.at, s.sent = append(s.at, time.Since(s.began).Truncate(time.Second)), append(s.sent, r.Result)
	return nil
}

// The stream must repeat `true` every 15 s for a minute and then once a minute, because KEDA loses a `true` if its operator restarts. It
// must not send `true` more often, because KEDA writes a status for each `true`. It must send `false` once.
func TestActiveStateIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, leave := context.WithCancel(context.Background())
		decisions, stream, ended := &moving{}, &recordedStream{ctx: ctx, began: time.Now()}, make(chan error, 1)
		decisions.set(2, nil)
		go func() { ended <- NewScaler(decisions, time.Now).StreamIsActive(ref("chat"), stream) }()
		time.Sleep(200 * time.Second)
		decisions.set(0, nil)
		time.Sleep(100 * time.Second)
		decisions.set(0, engine.ErrStale) // while no target may be served, the stream sends nothing
		time.Sleep(20 * time.Second)
		decisions.set(1, nil)
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
			t.Errorf("sent at %v, want %v", stream.at, want)
		}
		if want := []bool{true, true, true, true, true, true, true, false, true, true}; !slices.Equal(stream.sent, want) {
			t.Errorf("sent %v, want %v", stream.sent, want)
		}
	})
}
