package externalmetrics

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
)

const (
	// requestTimeout is the maximum duration of a call that is not a stream. The server responds from memory at once, so nearly all of this
	// time is available for receiving the request.
	requestTimeout = 5 * time.Second
	// refusalTimeout is the time after which a call that exceeds a limit is canceled if its request has not arrived.
	refusalTimeout = 100 * time.Millisecond
)

// callLimits limits the number of calls and of streams that are open at the same time on all connections. A call counts from the arrival of
// its headers, so that the limits also apply to a client that sends headers but no request. A call that exceeds a limit ends with
// ResourceExhausted. KEDA logs this error and retries the call.
//
// gRPC also has a limit, MaxConcurrentStreams, which applies to one connection. A client that reaches this limit waits without an error.
// MaxConcurrentStreams is therefore set above the sum of the limits of callLimits, so that it never applies.
type callLimits struct {
	maxStreams     int64
	streams, calls atomic.Int64
	refused        func()
}

func newCallLimits(maxStreams int, refused func()) *callLimits {
	if refused == nil {
		refused = func() {}
	}
	return &callLimits{maxStreams: int64(maxStreams), refused: refused}
}

func (l *callLimits) options() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.MaxConcurrentStreams(uint32(l.maxStreams + 2*maxCalls)),
		grpc.InTapHandle(l.count),
		grpc.UnaryInterceptor(func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
			if err := excess(ctx); err != nil {
				return nil, err
			}
			return handle(ctx, request)
		}),
		grpc.StreamInterceptor(func(server any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
			if err := excess(stream.Context()); err != nil {
				return err
			}
			return handle(server, stream)
		}),
	}
}

// excessKey marks the context of a call that exceeds a limit.
type excessKey struct{}

// count is called when the headers of a call have arrived, and returns the context of the call. For a call that exceeds a limit, count only
// marks the context, and an interceptor rejects the call later. If count rejected the call, gRPC would not count the call for the limit of
// the connection. A client that sends calls and does not read the rejections could then make the server buffer rejections without a limit.
func (l *callLimits) count(ctx context.Context, info *tap.Info) (context.Context, error) {
	open, limit := &l.calls, int64(maxCalls)
	streams := strings.Contains(info.FullMethodName, "/Stream")
	if streams {
		open, limit = &l.streams, l.maxStreams
	}
	if open.Add(1) > limit {
		open.Add(-1)
		l.refused()
		ended, end := context.WithCancel(context.WithValue(ctx, excessKey{}, limit))
		time.AfterFunc(refusalTimeout, end) // may use the clock: ends the call if its request never arrives
		return ended, nil
	}
	end := func() {}
	if !streams {
		ctx, end = context.WithTimeout(ctx, requestTimeout)
	}
	context.AfterFunc(ctx, func() { end(); open.Add(-1) })
	return ctx, nil
}

// excess returns the error for the context of a call that exceeds a limit, and nil for every other context.
func excess(ctx context.Context) error {
	if limit := ctx.Value(excessKey{}); limit != nil {
		return status.Errorf(codes.ResourceExhausted, "the limit of %d open calls of this kind is reached: raise --scaler-max-streams to "+
			"twice the number of ScaledObjects", limit)
	}
	return nil
}
