// Package night shows what happens to gpuscaler's two replicas, and what people
// do with it, at 3 a.m.: a leader that dies or hangs, a rollout, a drain, a
// registration that somebody takes, a pause and an override.
package night

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/e2e/controller"
	"github.com/gpuscaler/gpuscaler/e2e/exporter"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
	"github.com/gpuscaler/gpuscaler/e2e/workload"
)

// lease is how long a silent leader is believed here, longer than afterLease;
// upstream's 15 s would only make the tests longer.
const lease = 8 * time.Second

var suite controller.Suite

func TestMain(m *testing.M) {
	os.Exit(suite.Run(m, controller.Setup{
		Nodes:      4,
		Controller: controller.Options{Replicas: 2, LeaseDuration: lease},
		Platform: func(s *stack.Stack) string {
			return fmt.Sprintf("dataSources:\n- {name: prom, type: prometheus, default: true, address: %q, interval: 1s}\n", s.Prometheus.URL)
		},
	}))
}

// nervous falls two seconds after the last reason not to, so that a number that
// is lost for a moment is seen in the replicas.
const nervous = `
maxReplicas: 12
signals:
- {name: queue, type: vllm, metric: requestsWaiting, target: 10, maxAge: 10s}
behavior:
  scaleUp: {tolerance: 0}
  scaleDown: {tolerance: 0, stabilizationWindowSeconds: 2}
`

// busy is a Deployment of so many replicas with as much work as they can do.
func busy(t *testing.T, namespace string, replicas int32) (controller.Workload, *exporter.Total) {
	t.Helper()
	ns, load := suite.Namespace(t, namespace), &exporter.Total{}
	load.Set(float64(replicas)*10 - 3)
	suite.Export(t, workload.Metrics(ns, "chat", load))
	s := suite.Workload(t, workload.Deployment(ns, "chat", replicas), nervous)
	stack.Eventually(t, 30*time.Second, fmt.Sprintf("%d replicas", replicas), s.HasTarget(replicas))
	stack.Eventually(t, 30*time.Second, "their HPA follows", s.Followed(replicas))
	return s, load
}

// still fails if the number, the HPA or the replicas moved since then.
func still(t *testing.T, s controller.Workload, since time.Time) {
	t.Helper()
	if moved := s.Targets(t).Since(since); len(moved) > 1 {
		t.Errorf("the target moved: %v", moved)
	}
	hpa, err := s.HPA.Steps()
	if err != nil {
		t.Fatal(err)
	}
	if moved := hpa.Since(since); len(moved) > 1 {
		t.Errorf("the HPA moved: %v", moved)
	}
	replicas, err := s.Replicas.Steps()
	if err != nil {
		t.Fatal(err)
	}
	if moved := replicas.Since(since); len(moved) > 1 {
		t.Errorf("the replicas moved: %v", moved)
	}
}

// outages measures for how long nobody could read a number.
type outages struct {
	stop    context.CancelFunc
	done    chan struct{}
	longest time.Duration
	answers int
	last    error // of a question without an answer
	wrong   error // an answer with another number
}

// watchServing asks for a policy's number, which is to stay, again and again. It
// returns after the first answer.
func watchServing(t *testing.T, s controller.Workload, want int32) *outages {
	t.Helper()
	stack.Eventually(t, 30*time.Second, "the number is served", func(ctx context.Context) error {
		_, err := suite.ServedTarget(ctx, s.Namespace, s.Name)
		return err
	})
	ctx, stop := context.WithCancel(t.Context())
	o := &outages{stop: stop, done: make(chan struct{})}
	go func() {
		defer close(o.done)
		last := time.Now()
		for ctx.Err() == nil {
			n, err := suite.ServedTarget(ctx, s.Namespace, s.Name)
			now := time.Now()
			switch {
			case err != nil:
				o.last = err
			case n != want:
				o.wrong = fmt.Errorf("at %s %d was served, not %d", now.Format("15:04:05.000"), n, want)
				fallthrough
			default:
				o.longest, last, o.answers = max(o.longest, now.Sub(last)), now, o.answers+1
			}
			time.Sleep(100 * time.Millisecond)
		}
	}()
	return o
}

// end wants the longest time without an answer to be at most that.
func (o *outages) end(t *testing.T, most time.Duration) {
	t.Helper()
	o.stop()
	<-o.done
	if o.wrong != nil {
		t.Error(o.wrong)
	}
	if o.answers == 0 || o.longest > most {
		t.Errorf("for %s nobody served (%d answers), want at most %s: %v", o.longest, o.answers, most, o.last)
	} else {
		t.Logf("for %s nobody served", o.longest.Round(100*time.Millisecond))
	}
}
