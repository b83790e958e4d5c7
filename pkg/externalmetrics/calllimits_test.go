package externalmetrics

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kedacore/keda/v2/pkg/scalers/externalscaler"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

// limitedScaler serves a scaler with the limits in c until the test ends, and returns its address.
func limitedScaler(t *testing.T, c ScalerConfig) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- ServeScaler(ctx, l, c, NewScaler(decisions, func() time.Time { return nine })) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return l.Addr().String()
}

// reads reads a target over a new connection, as KEDA does, and fails the test if that is not possible.
func reads(t *testing.T, address string) {
	t.Helper()
	keda := connect(t, address, insecure.NewCredentials())
	got, err := keda.GetMetrics(soon(t), &externalscaler.GetMetricsRequest{ScaledObjectRef: ref("chat"), MetricName: MetricName})
	if err != nil || got.MetricValues[0].MetricValueFloat != 9 {
		t.Errorf("KEDA reads %v, %v", got, err)
	}
}

// An attacker opens thousands of streams. The server must refuse streams beyond the limit and accept a new stream when another stream ends.
// KEDA must be able to read targets at any time.
func TestStreamsAreLimitedAndTargetsAreRead(t *testing.T) {
	const limit, attempts = 50, 5000
	var refused atomic.Int32
	address := limitedScaler(t, ScalerConfig{MaxStreams: limit, Refused: func() { refused.Add(1) }})
	attacker := connect(t, address, insecure.NewCredentials())
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	held := make(chan error, attempts)
	for range attempts {
		stream, err := attacker.StreamIsActive(ctx, ref("chat"))
		if err != nil {
			t.Fatal(err)
		}
		go func() { _, err := stream.Recv(); held <- err }()
	}
	opened := 0
	for range attempts {
		if err := <-held; err == nil {
			opened++
		} else if status.Code(err) != codes.ResourceExhausted {
			t.Fatal(err)
		}
	}
	if opened != limit || refused.Load() != attempts-limit {
		t.Errorf("%d streams are open and %d refused, of %d with a limit of %d", opened, refused.Load(), attempts, limit)
	}
	reads(t, address)
	if _, err := attacker.IsActive(soon(t), ref("chat")); err != nil {
		t.Errorf("over the connection that holds all streams: %v", err)
	}
	leave()
	keda := connect(t, address, insecure.NewCredentials())
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		stream, err := keda.StreamIsActive(soon(t), ref("chat"))
		if err == nil {
			_, err = stream.Recv()
		}
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("no stream is accepted although all others ended: %v", err)
		}
	}
}

// An attacker sends the headers of calls but no requests. gRPC runs no handler and no interceptor for these calls, but each call needs a
// goroutine. The server must limit the number of these calls, and the calls must time out.
func TestCallsWithoutRequestTimeOut(t *testing.T) {
	var refused atomic.Int32
	address := limitedScaler(t, ScalerConfig{MaxStreams: 10, Refused: func() { refused.Add(1) }})
	const attempts = maxCalls + 400 // below gRPC's limit for one connection
	ended := headersOnly(t, address, "/externalscaler.ExternalScaler/GetMetrics", attempts)
	for range attempts - maxCalls {
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
	}
	if n := refused.Load(); n != attempts-maxCalls {
		t.Errorf("%d calls are refused, want %d", n, attempts-maxCalls)
	}
	for range maxCalls { // these calls end after requestTimeout
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
	}
	reads(t, address)
}

// headersOnly opens calls and sends only their headers. The channel receives nil for each call that the server ends.
func headersOnly(t *testing.T, address, method string, n int) <-chan error {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if _, err := io.WriteString(c, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	framer := http2.NewFramer(c, c)
	if err := framer.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	fields := [][2]string{{":method", "POST"}, {":scheme", "http"}, {":path", method}, {":authority", "x"},
		{"content-type", "application/grpc"}, {"te", "trailers"}}
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for i := range n {
		block.Reset()
		for _, f := range fields {
			if err := encoder.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}); err != nil {
				t.Fatal(err)
			}
		}
		if err := framer.WriteHeaders(http2.HeadersFrameParam{StreamID: uint32(2*i + 1), BlockFragment: block.Bytes(),
			EndHeaders: true}); err != nil {
			t.Fatal(err)
		}
	}
	ended := make(chan error, n)
	go func() {
		for {
			f, err := framer.ReadFrame()
			if err != nil {
				if !errors.Is(err, net.ErrClosed) {
					ended <- err
				}
				return
			}
			switch f := f.(type) {
			case *http2.HeadersFrame:
				if f.StreamEnded() {
					ended <- nil
				}
			case *http2.RSTStreamFrame:
				if f.ErrCode != http2.ErrCodeNo {
					ended <- nil
				}
			}
		}
	}()
	return ended
}

// An attacker opens thousands of connections from one address and does not finish their handshakes. The server must close the excess
// connections, and KEDA must be able to connect.
func TestConnectionsAreLimitedAndKEDAConnects(t *testing.T) {
	var closed atomic.Int32
	address := limitedScaler(t, ScalerConfig{Closed: func() { closed.Add(1) }})
	const attempts = 2000
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	for range attempts {
		c, err := dialer.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
	}
	reads(t, address)
	for deadline := time.Now().Add(time.Minute); closed.Load() < attempts-maxScalerConnections; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d connections are closed", closed.Load(), attempts)
		}
	}
}
