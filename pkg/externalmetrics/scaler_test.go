package externalmetrics

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/kedacore/keda/v2/pkg/scalers/externalscaler"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// moving is a decision store with one target that a test changes.
type moving struct {
	mu     sync.Mutex
	served engine.Served
	err    error
}

func (m *moving) set(n int32, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.served, m.err = engine.Served{Replicas: n, Active: n > 0, At: nine}, err
}

func (m *moving) Lookup(scaling.Key, time.Time) (engine.Served, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.served, m.err
}

// dial serves d on loopback and connects to it.
func dial(t *testing.T, d Decisions, server ScalerTLS, client credentials.TransportCredentials) externalscaler.ExternalScalerClient {
	t.Helper()
	return connect(t, serveScaler(t, d, server), client)
}

// serveScaler serves d on loopback until the test ends and returns its address.
func serveScaler(t *testing.T, d Decisions, server ScalerTLS) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- ServeScaler(ctx, l, ScalerConfig{TLS: server}, NewScaler(d, func() time.Time { return nine }))
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return l.Addr().String()
}

func connect(t *testing.T, address string, client credentials.TransportCredentials) externalscaler.ExternalScalerClient {
	t.Helper()
	connection, err := grpc.NewClient(address, grpc.WithTransportCredentials(client))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { connection.Close() })
	return externalscaler.NewExternalScalerClient(connection)
}

func ref(name string) *externalscaler.ScaledObjectRef {
	return &externalscaler.ScaledObjectRef{Namespace: "team-chat", Name: name}
}

func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func TestCallsOfKEDA(t *testing.T) {
	c := dial(t, decisions, ScalerTLS{}, insecure.NewCredentials())
	ctx := soon(t)
	spec, err := c.GetMetricSpec(ctx, ref("chat"))
	if err != nil || len(spec.MetricSpecs) != 1 || spec.MetricSpecs[0].MetricName != MetricName || spec.MetricSpecs[0].TargetSizeFloat != 1 {
		t.Errorf("spec %v, %v", spec, err)
	}
	if whole := spec.MetricSpecs[0].TargetSize; whole != 1 { //nolint:staticcheck // KEDA up to 2.16 knows no other
		t.Errorf("for KEDA up to 2.16 the target is %d", whole)
	}
	byName := ref("keda-calls-it-otherwise")
	byName.ScalerMetadata = map[string]string{"scalerAddress": "dns:///x:9090", PolicyMetadata: "chat"}
	for _, c2 := range []struct {
		name   string
		ref    *externalscaler.ScaledObjectRef
		code   codes.Code
		value  float64
		active bool
	}{
		{"a policy of the ScaledObject's name", ref("chat"), codes.OK, 9, true},
		{"a policy named in the trigger", byName, codes.OK, 9, true},
		{"zero is a decision too", ref("night"), codes.OK, 0, false},
		{"no such policy", ref("typo"), codes.NotFound, 0, false},
		{"never decided", ref("new"), codes.Unavailable, 0, false},
		{"decided too long ago", ref("old"), codes.Unavailable, 0, false},
		{"held", ref("held"), codes.Unavailable, 0, false},
	} {
		m, err := c.GetMetrics(ctx, &externalscaler.GetMetricsRequest{ScaledObjectRef: c2.ref, MetricName: MetricName})
		if status.Code(err) != c2.code || err == nil && m.MetricValues[0].MetricValueFloat != c2.value {
			t.Errorf("%s: GetMetrics %v, %v, want %v", c2.name, m, err, c2.code)
		}
		if err == nil && float64(m.MetricValues[0].MetricValue) != c2.value { //nolint:staticcheck // KEDA up to 2.16 knows no other
			t.Errorf("%s: for KEDA up to 2.16 the number is %d", c2.name, m.MetricValues[0].MetricValue) //nolint:staticcheck // the same
		}
		a, err := c.IsActive(ctx, c2.ref)
		if status.Code(err) != c2.code || err == nil && a.Result != c2.active {
			t.Errorf("%s: IsActive %v, %v, want %v", c2.name, a, err, c2.code)
		}
	}
}

func TestStreamSendsTheStateAndEachChange(t *testing.T) {
	decisions := &moving{}
	decisions.set(0, engine.ErrUndecided)
	c := dial(t, decisions, ScalerTLS{}, insecure.NewCredentials())
	stream, err := c.StreamIsActive(soon(t), ref("chat"))
	if err != nil {
		t.Fatal(err)
	}
	decisions.set(0, nil) // the first target is 0
	for i, want := range []bool{false, true, false} {
		got, err := stream.Recv()
		if err != nil || got.Result != want {
			t.Fatalf("message %d: %v, %v, want %v", i, got, err, want)
		}
		decisions.set(int32(1-i%2), engine.ErrStale) // the stream sends nothing while the target must not be used
		time.Sleep(2 * pushInterval)
		decisions.set(int32((i+1)%2), nil)
	}
}

// KEDA calls GetMetricSpec only after it lost the streamed specs. The stream of this ScaledObject must then repeat the specs, and the
// streams of other ScaledObjects must not.
func TestSpecsAreStreamedAgainOnlyWhenKEDALostThem(t *testing.T) {
	c := dial(t, decisions, ScalerTLS{}, insecure.NewCredentials())
	chat, err := c.StreamMetricSpec(soon(t), ref("chat"))
	if err != nil {
		t.Fatal(err)
	}
	other, err := c.StreamMetricSpec(soon(t), ref("other"))
	if err != nil {
		t.Fatal(err)
	}
	for _, stream := range []grpc.ServerStreamingClient[externalscaler.GetMetricSpecResponse]{chat, other} {
		if _, err := stream.Recv(); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		if _, err := c.GetMetricSpec(soon(t), ref("chat")); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := chat.Recv(); err != nil || got.MetricSpecs[0].MetricName != MetricName {
		t.Fatalf("%v, %v", got, err)
	}
	done := make(chan struct{})
	go func() {
		if _, err := other.Recv(); err == nil {
			close(done)
		}
	}()
	select {
	case <-done:
		t.Error("specs were sent again although KEDA did not lose them")
	case <-time.After(100 * time.Millisecond):
	}
}

func TestSpecsAreStreamedOnce(t *testing.T) {
	c := dial(t, decisions, ScalerTLS{}, insecure.NewCredentials())
	ctx, cancel := context.WithCancel(soon(t))
	stream, err := c.StreamMetricSpec(ctx, ref("chat"))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := stream.Recv(); err != nil || got.MetricSpecs[0].MetricName != MetricName {
		t.Fatalf("%v, %v", got, err)
	}
	cancel()
	if _, err := stream.Recv(); status.Code(err) != codes.Canceled {
		t.Errorf("after the client left: %v", err)
	}
}

func BenchmarkScalerGetMetrics(b *testing.B) {
	s := NewScaler(decisions, func() time.Time { return nine })
	request := &externalscaler.GetMetricsRequest{ScaledObjectRef: ref("chat"), MetricName: MetricName}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.GetMetrics(context.Background(), request); err != nil {
			b.Fatal(err)
		}
	}
}
