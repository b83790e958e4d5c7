package keda

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kedacore/keda/v2/pkg/scalers/externalscaler"
)

// cluster is a simulation with one server, which sends `true` on each stream. If down is true, connections fail.
type cluster struct {
	turn     chan struct{}
	down     bool
	deaf     bool // the server's handler does not detect that a stream was closed
	began    time.Time
	connects []time.Duration // times at which the operator connected
	received []bool
}

func (c *cluster) Exclusively(f func()) {
	c.turn <- struct{}{}
	defer func() { <-c.turn }()
	f()
}

func (c *cluster) Connect() Server {
	c.connects = append(c.connects, time.Since(c.began))
	if c.down {
		return nil
	}
	return c
}

func (c *cluster) Received(_ Server, active bool) { c.received = append(c.received, active) }

func (c *cluster) StreamIsActive(_ *externalscaler.ScaledObjectRef, s Stream) error {
	if err := s.Send(&externalscaler.IsActiveResponse{Result: true}); err != nil {
		return err
	}
	if c.deaf {
		time.Sleep(10 * time.Second)
	}
	<-s.Context().Done()
	return nil
}

// run starts an operator and calls story. While story runs, no other goroutine uses the cluster.
func run(t *testing.T, story func(c *cluster, o *Operator, sleep func(time.Duration))) {
	t.Helper()
	synctest.Test(t, func(*testing.T) {
		c := &cluster{turn: make(chan struct{}, 1), began: time.Now()}
		o := NewOperator(c, &externalscaler.ScaledObjectRef{Name: "chat"}, 100*time.Millisecond)
		c.turn <- struct{}{}
		go o.Run()
		story(c, o, func(d time.Duration) {
			<-c.turn
			time.Sleep(d)
			c.turn <- struct{}{}
		})
		o.Stop()
		<-c.turn
	})
}

// KEDA must wait twice as long after each failure, but at most a minute.
func TestPausesBetweenConnectionsGrowToAMinute(t *testing.T) {
	run(t, func(c *cluster, _ *Operator, sleep func(time.Duration)) {
		c.down = true
		sleep(3 * time.Minute)
		var want []time.Duration
		for _, s := range []int{1, 4, 9, 18, 35, 68, 129} {
			want = append(want, time.Duration(s)*time.Second+100*time.Millisecond)
		}
		if !slices.Equal(c.connects, want) {
			t.Errorf("connected at %v, want %v", c.connects, want)
		}
	})
}

func TestAStreamIsOpenedAgainAfterItsEnd(t *testing.T) {
	run(t, func(c *cluster, o *Operator, sleep func(time.Duration)) {
		sleep(2 * time.Second)
		if server, _ := o.Open(); server != c || len(c.received) != 1 {
			t.Fatalf("server %v, received %v", server, c.received)
		}
		o.Break()
		if server, _ := o.Open(); server != nil {
			t.Error("a broken stream is open")
		}
		sleep(5 * time.Second)
		if len(c.received) != 2 {
			t.Errorf("received %v after the network broke the stream", c.received)
		}
		o.Restart()
		sleep(2 * time.Second)
		if len(c.received) != 3 {
			t.Errorf("received %v after the operator restarted", c.received)
		}
		if left := o.Unreturned(time.Now()); len(left) != 0 {
			t.Errorf("%d handlers did not return", len(left))
		}
		o.Silence()
		sleep(6 * time.Minute)
		if len(c.received) != 4 {
			t.Errorf("received %v, want one more message after the server closed the old connection", c.received)
		}
	})
}

func TestAHandlerThatDoesNotReturnIsFound(t *testing.T) {
	run(t, func(c *cluster, o *Operator, sleep func(time.Duration)) {
		c.deaf = true
		sleep(2 * time.Second)
		o.Break()
		sleep(2 * time.Second)
		if left := o.Unreturned(time.Now().Add(-time.Second)); len(left) != 1 {
			t.Errorf("%d handlers did not return, want 1", len(left))
		}
		c.deaf = false
		sleep(20 * time.Second)
		if left := o.Unreturned(time.Now()); len(left) != 0 {
			t.Errorf("%d handlers did not return after their sleep", len(left))
		}
	})
}
