package externalmetrics

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kedacore/keda/v2/pkg/scalers/externalscaler"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// shop is a simulated cluster with one workload, its policy and its readings. It has an engine and the clock of the servers.
type shop struct {
	mu       sync.Mutex
	workload []scaling.Workload
	uid      string // UID of the Deployment; empty: the Deployment does not exist
	replicas int32
	backlog  float64
	panics   bool
	now      time.Time
	engine   *engine.Engine
}

func newShop(minReplicas, maxReplicas int32) *shop {
	s := &shop{uid: "a", replicas: 24, backlog: 240, now: nine}
	s.policy(minReplicas, maxReplicas)
	s.engine = engine.New(s, s, s, engine.Options{})
	s.tick()
	return s
}

func (s *shop) policy(minReplicas, maxReplicas int32) {
	s.workload = []scaling.Workload{{Key: key("chat"), Policy: &scaling.Policy{
		Signals:     []scaling.Signal{{Name: "queue", Target: 10, MaxAge: time.Minute, MinCoverage: 1}},
		MinReplicas: minReplicas, MaxReplicas: maxReplicas,
	}}}
}

func (s *shop) Current() []scaling.Workload { return s.workload }

func (s *shop) Read(_ *scaling.Workload, out []scaling.Reading) {
	if s.panics {
		panic("a defect in one workload")
	}
	out[0] = scaling.Reading{Value: s.backlog, At: s.now, Coverage: 1, Reported: -1, Known: true}
}

func (s *shop) View(*scaling.Workload) (engine.View, bool) {
	uid, ok := s.TargetUID(nil)
	return engine.View{UID: uid, Replicas: s.replicas, Ready: s.replicas, MinReplicas: -1, MaxReplicas: -1, Operator: scaling.NoOperator}, ok
}

func (s *shop) TargetUID(*scaling.Workload) (string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.uid, s.uid != ""
}

func (s *shop) Apply(context.Context, []engine.Change) error { return nil }

// is sets the Deployment's UID and replicas, and the backlog, which is the reading of the signal. An empty UID deletes the Deployment.
func (s *shop) is(uid string, replicas int32, backlog float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.uid, s.replicas, s.backlog = uid, replicas, backlog
}

func (s *shop) clock() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

func (s *shop) tick() {
	s.mu.Lock()
	s.now = s.now.Add(time.Second)
	now := s.now
	s.mu.Unlock()
	s.engine.Tick(context.Background(), now)
}

// Lookup returns the target that the engine serves at the time of the simulated clock.
func (s *shop) Lookup(k scaling.Key, _ time.Time) (engine.Served, error) {
	return s.engine.Decisions().Lookup(k, s.clock())
}

// entrances contains clients of all interfaces that serve a target: the external metrics API and the external scaler.
type entrances struct {
	t   *testing.T
	get func(path string, edit ...func(*http.Request)) (int, []byte)
	rpc externalscaler.ExternalScalerClient
}

func (s *shop) entrances(t *testing.T) entrances {
	return entrances{t, serveWith(t, NewProvider(s, s.clock)), dial(t, s, ScalerTLS{}, insecure.NewCredentials())}
}

// serve fails the test unless every interface serves the target n, and the push stream sends whether n is above 0.
func (e entrances) serve(when string, n int64) {
	e.t.Helper()
	code, body := e.get(metricPath(MetricName, PolicyLabel+"=chat"))
	if want := `"value":"` + strconv.FormatInt(n, 10) + `"`; code != http.StatusOK || !strings.Contains(string(body), want) {
		e.t.Errorf("%s: the external metrics API returns %d %s, want %s", when, code, body, want)
	}
	m, err := e.rpc.GetMetrics(soon(e.t), &externalscaler.GetMetricsRequest{ScaledObjectRef: ref("chat"), MetricName: MetricName})
	if err != nil || m.MetricValues[0].MetricValueFloat != float64(n) {
		e.t.Errorf("%s: GetMetrics returns %v, %v, want %d", when, m, err, n)
	}
	a, err := e.rpc.IsActive(soon(e.t), ref("chat"))
	if err != nil || a.Result != (n > 0) {
		e.t.Errorf("%s: IsActive returns %v, %v", when, a, err)
	}
	if pushed, got := e.pushed(time.Minute); !pushed || got != (n > 0) {
		e.t.Errorf("%s: the push stream sends something: %v, active %v", when, pushed, got)
	}
}

// refuse fails the test unless every interface returns an error with the reason why, and the push stream sends nothing.
func (e entrances) refuse(when, why string) {
	e.t.Helper()
	code, body := e.get(metricPath(MetricName, PolicyLabel+"=chat"))
	if code != http.StatusServiceUnavailable || !strings.Contains(string(body), why) {
		e.t.Errorf("%s: the external metrics API returns %d %s, want 503 with %q", when, code, body, why)
	}
	m, err := e.rpc.GetMetrics(soon(e.t), &externalscaler.GetMetricsRequest{ScaledObjectRef: ref("chat"), MetricName: MetricName})
	if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), why) {
		e.t.Errorf("%s: GetMetrics returns %v, %v, want Unavailable with %q", when, m, err, why)
	}
	if a, err := e.rpc.IsActive(soon(e.t), ref("chat")); status.Code(err) != codes.Unavailable {
		e.t.Errorf("%s: IsActive returns %v, %v, want Unavailable", when, a, err)
	}
	if pushed, active := e.pushed(4 * pushInterval); pushed {
		e.t.Errorf("%s: the push stream sends active %v", when, active)
	}
}

// pushed opens a push stream and returns the first value that the server sends within the given time. sent is false if the server sends
// none.
func (e entrances) pushed(within time.Duration) (sent, active bool) {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	stream, err := e.rpc.StreamIsActive(ctx, ref("chat"))
	if err != nil {
		e.t.Fatal(err)
	}
	r, err := stream.Recv()
	return err == nil, r.GetResult()
}

func TestTargetOfADeletedWorkloadIsNotServedToItsSuccessor(t *testing.T) {
	s := newShop(1, 40)
	e := s.entrances(t)
	e.serve("at first", 24)

	s.is("", 0, 240)
	e.refuse("deleted", engine.ErrUnseen.Error())
	s.tick()
	e.refuse("deleted, a tick later", engine.ErrUnseen.Error())
	s.is("b", 1, 10)
	e.refuse("created again, before its first tick", engine.ErrUnseen.Error())
	s.tick()
	e.serve("created again with one replica and little to do", 1)

	s.is("c", 1, 10)
	e.refuse("replaced between two ticks", engine.ErrReplaced.Error())
	s.tick()
	e.serve("replaced", 1)
}

func TestEditedPolicyLimitsTheServedTarget(t *testing.T) {
	s := newShop(1, 40)
	e := s.entrances(t)
	s.panics = true
	s.policy(1, 10)
	s.tick()
	e.serve("the workload panics under a maximum of 10", 10)
	s.policy(0, 0)
	s.tick()
	e.serve("the workload panics under a maximum of 0", 0)
	s.mu.Lock()
	s.now = s.now.Add(-time.Hour)
	s.mu.Unlock()
	e.refuse("the clock stepped back", engine.ErrFuture.Error())
	s.tick()
	e.refuse("the clock stepped back, a tick later", engine.ErrFuture.Error())
}
