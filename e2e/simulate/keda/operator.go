// Package keda is a model of the part of KEDA's operator that receives messages from an external scaler. For a ScaledObject with a trigger
// of type external-push, the operator keeps one stream of StreamIsActive open. When the stream ends, the operator opens a new one (KEDA
// v2.21, pkg/scalers/external_scaler.go). The model works in a bubble of testing/synctest.
package keda

import (
	"context"
	"errors"
	"time"

	"github.com/kedacore/keda/v2/pkg/scalers/externalscaler"
	"google.golang.org/grpc"
)

const (
	// firstPause is the pause before the second stream. The pause doubles after each stream, up to longestPause. In the model, only a
	// restart of the operator resets the pause. KEDA also resets it after a stream that the server ends without an error, but gpuscaler's
	// server ends its streams with an error.
	firstPause = 2 * time.Second
	// longestPause is the longest pause between two streams.
	longestPause = time.Minute
	// connectionAge is the age at which gpuscaler's server closes a connection: 5 minutes, and 10 more seconds for open streams.
	connectionAge = 5*time.Minute + 10*time.Second
)

// Reconnects is the longest time from the end of a failure to the next stream: the longest pause plus up to a second, because an operator
// connects only at its offset after a full second.
const Reconnects = longestPause + time.Second

// Stream is the server's side of a stream.
type Stream = grpc.ServerStreamingServer[externalscaler.IsActiveResponse]

// Server is the process of gpuscaler to which a new connection is forwarded.
type Server interface {
	// StreamIsActive sends messages to a stream until the stream's context ends.
	StreamIsActive(*externalscaler.ScaledObjectRef, Stream) error
}

// Surroundings is the part of the simulation that an Operator needs.
type Surroundings interface {
	// Exclusively calls f while no other goroutine uses the simulation.
	Exclusively(f func())
	// Connect returns the server of a new connection; nil: the connection fails. The operator calls it inside Exclusively.
	Connect() Server
	// Received handles a message that a server sent. The operator calls it inside Exclusively.
	Received(from Server, active bool)
}

// Operator receives the messages for one ScaledObject. A caller of its methods, except Run, must ensure that no other goroutine uses the
// simulation at the same time.
type Operator struct {
	around Surroundings
	ref    *externalscaler.ScaledObjectRef
	offset time.Duration // time after a full second at which the operator opens its connections

	open   *stream   // nil: no stream is open
	opened time.Time // time at which the last stream was opened
	closed []*stream // closed streams whose handlers still run
	pause  time.Duration
	wake   chan struct{} // a value in this channel ends the current pause
	left   chan struct{} // Stop closes this channel
}

// NewOperator returns an operator that connects at the given offset after full seconds. If all operators have different offsets, no two
// operators act at the same instant, and the events of a run always have the same order.
func NewOperator(around Surroundings, ref *externalscaler.ScaledObjectRef, offset time.Duration) *Operator {
	return &Operator{around: around, ref: ref, offset: offset, pause: firstPause, wake: make(chan struct{}, 1), left: make(chan struct{})}
}

// Run keeps a stream open until Stop is called.
func (o *Operator) Run() {
	for pause := time.Duration(0); o.waits(pause); {
		var s *stream
		o.around.Exclusively(func() { s = o.connect() })
		if s != nil {
			select {
			case <-s.ctx.Done():
			case <-time.After(connectionAge):
				o.around.Exclusively(s.close)
			}
		}
		o.around.Exclusively(func() { pause, o.pause = o.pause, min(2*o.pause, longestPause) })
	}
}

// waits waits for the given pause and then until the operator's next offset. It returns false if the operator was stopped.
func (o *Operator) waits(pause time.Duration) bool {
	now := time.Now()
	select {
	case <-time.After(now.Add(pause).Truncate(time.Second).Add(time.Second + o.offset).Sub(now)):
	case <-o.wake:
		return o.waits(0)
	case <-o.left:
		return false
	}
	select {
	case <-o.left:
		return false
	default:
		return true
	}
}

// connect opens a stream. It returns nil if the stream cannot be opened.
func (o *Operator) connect() *stream {
	server := o.around.Connect()
	if server == nil {
		return nil
	}
	s := &stream{operator: o, server: server, opened: time.Now()}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	o.open, o.opened = s, s.opened
	go s.serve()
	return s
}

// Open returns the server of the open stream, and the time at which the stream was opened. The server is nil if no stream is open.
func (o *Operator) Open() (Server, time.Time) {
	if o.open == nil {
		return nil, time.Time{}
	}
	return o.open.server, o.open.opened
}

// LastOpened returns the time at which the last stream was opened, even if the stream is closed.
func (o *Operator) LastOpened() time.Time { return o.opened }

// Break closes the open stream, as a failing network does.
func (o *Operator) Break() {
	if o.open != nil {
		o.open.close()
	}
}

// Silence makes all later messages of the open stream disappear, so that neither the server nor the operator detects the loss.
func (o *Operator) Silence() {
	if o.open != nil {
		o.open.silent = true
	}
}

// Silent reports whether the open stream loses its messages.
func (o *Operator) Silent() bool { return o.open != nil && o.open.silent }

// Restart simulates a restart of KEDA's operator. The new process connects at the next offset, without a pause.
func (o *Operator) Restart() {
	o.Break()
	o.pause = firstPause
	select {
	case o.wake <- struct{}{}:
	default: // the operator has not handled the previous restart yet
	}
}

// Stop closes the open stream and ends Run.
func (o *Operator) Stop() {
	o.Break()
	close(o.left)
}

// Unreturned returns the servers whose handler still runs for a stream that was closed before the given time.
func (o *Operator) Unreturned(before time.Time) (servers []Server) {
	for _, s := range o.closed {
		if s.ended.Before(before) {
			servers = append(servers, s.server)
		}
	}
	return servers
}

// stream is one stream from a server to the operator. It implements Stream, the interface that the server uses.
type stream struct {
	grpc.ServerStream
	operator *Operator
	server   Server
	ctx      context.Context
	cancel   context.CancelFunc
	opened   time.Time
	ended    time.Time // when the stream was closed
	returned bool      // the server's handler has returned
	silent   bool
}

// serve runs the server's handler. If the process of the server is killed, the handler ends by runtime.Goexit.
func (s *stream) serve() {
	defer s.operator.around.Exclusively(func() {
		s.returned = true
		s.close()
		o := s.operator
		for i, other := range o.closed {
			if other == s {
				o.closed = append(o.closed[:i:i], o.closed[i+1:]...)
				return
			}
		}
	})
	_ = s.server.StreamIsActive(s.operator.ref, s) // KEDA logs the error and connects again
}

// close closes the stream. A second call has no effect.
func (s *stream) close() {
	if s.ctx.Err() != nil {
		return
	}
	s.cancel()
	s.ended = time.Now()
	o := s.operator
	if o.open == s {
		o.open = nil
	}
	if !s.returned {
		o.closed = append(o.closed, s)
	}
}

// Context implements grpc.ServerStream.
func (s *stream) Context() context.Context { return s.ctx }

// errClosed is the error that Send returns on a closed stream.
var errClosed = errors.New("transport is closing")

// Send implements grpc.ServerStreamingServer.
func (s *stream) Send(r *externalscaler.IsActiveResponse) (err error) {
	s.operator.around.Exclusively(func() {
		switch {
		case s.ctx.Err() != nil:
			err = errClosed
		case !s.silent:
			s.operator.around.Received(s.server, r.Result)
		}
	})
	return err
}
