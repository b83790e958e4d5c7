// Package night tests gpuscaler with two replicas during operational events: a leader that crashes or hangs, a rollout, a node drain,
// another server that registers the external metrics API, a pause, and an override of a target.
package night

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscaler/gpuscaler/e2e/controller"
	"github.com/gpuscaler/gpuscaler/e2e/exporter"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
	"github.com/gpuscaler/gpuscaler/e2e/workload"
)

// lease is the lease duration of these tests. The default of 15 s would only make them longer.
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

// nervous is a policy with a very short stabilization window: its target decreases when the signal has needed fewer replicas for two
// seconds. If a target is missing for a short time, the HPA therefore removes replicas, and the test detects this.
const nervous = `
maxReplicas: 12
signals:
- {name: queue, type: vllm, metric: requestsWaiting, target: 10, maxAge: 10s}
behavior:
  scaleUp: {tolerance: 0}
  scaleDown: {tolerance: 0, stabilizationWindowSeconds: 2}
`

// busy creates a Deployment with a policy and a queue that is long enough for the given number of replicas. It waits until the HPA has that
// number.
func busy(t *testing.T, namespace string, replicas int32) (controller.Workload, *exporter.Total) {
	t.Helper()
	ns, load := suite.Namespace(t, namespace), &exporter.Total{}
	load.Set(float64(replicas)*10 - 3)
	suite.Export(t, workload.Metrics(ns, "chat", load))
	s := suite.Workload(t, workload.Deployment(ns, "chat", replicas), nervous)
	stack.Eventually(t, time.Minute, fmt.Sprintf("%d replicas", replicas), s.HasTarget(replicas))
	stack.Eventually(t, time.Minute, "the HPA follows", s.Followed(replicas))
	return s, load
}

// still fails the test if the target, the HPA's desired replicas or the Deployment's replicas have changed since the given time.
func still(t *testing.T, s controller.Workload, since time.Time) {
	t.Helper()
	if moved := s.Targets(t).Since(since); len(moved) > 1 {
		t.Errorf("the target changed: %v", moved)
	}
	hpa, err := s.HPA.Steps()
	if err != nil {
		t.Fatal(err)
	}
	if moved := hpa.Since(since); len(moved) > 1 {
		t.Errorf("the HPA changed: %v", moved)
	}
	replicas, err := s.Replicas.Steps()
	if err != nil {
		t.Fatal(err)
	}
	if moved := replicas.Since(since); len(moved) > 1 {
		t.Errorf("the replicas changed: %v", moved)
	}
}

// outages measures how long a target could not be read.
type outages struct {
	stop    context.CancelFunc
	done    chan struct{}
	longest time.Duration
	answers int
	last    error // error of the last failed read
	wrong   error // describes a read that returned another target
}

// watchServing reads a policy's target repeatedly and requires that it does not change. It returns after the first successful read, and the
// reads continue until end is called.
func watchServing(t *testing.T, s controller.Workload, want int32) *outages {
	t.Helper()
	stack.Eventually(t, time.Minute, "the target is served", func(ctx context.Context) error {
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
				o.wrong = fmt.Errorf("at %s the target %d was served, want %d", now.Format("15:04:05.000"), n, want)
				fallthrough
			default:
				o.longest, last, o.answers = max(o.longest, now.Sub(last)), now, o.answers+1
			}
			time.Sleep(100 * time.Millisecond)
		}
	}()
	return o
}

// end stops the reads. It fails the test if a read returned another target, or if more than the given time passed between two successful
// reads.
func (o *outages) end(t *testing.T, most time.Duration) {
	t.Helper()
	o.stop()
	<-o.done
	if o.wrong != nil {
		t.Error(o.wrong)
	}
	if o.answers == 0 || o.longest > most {
		t.Errorf("the target could not be read for %s (%d successful reads), want at most %s: %v", o.longest, o.answers, most, o.last)
	} else {
		t.Logf("the target could not be read for %s", o.longest.Round(100*time.Millisecond))
	}
}

// holders records the holders of the Lease. An empty name means that the previous leader released it.
type holders struct {
	mu    sync.Mutex
	names []string
}

// watchLease records the holders of the Lease until the test ends.
func watchLease(t *testing.T) *holders {
	t.Helper()
	w, err := suite.Stack.Client.Watch(t.Context(), &coordinationv1.LeaseList{}, client.InNamespace(controller.Namespace))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	h := &holders{}
	go func() {
		for e := range w.ResultChan() {
			l, ok := e.Object.(*coordinationv1.Lease)
			if !ok || l.Name != controller.Name {
				continue
			}
			holder := ptr.Deref(l.Spec.HolderIdentity, "")
			h.mu.Lock()
			if n := len(h.names); n == 0 || h.names[n-1] != holder {
				h.names = append(h.names, holder)
			}
			h.mu.Unlock()
		}
	}()
	return h
}

// released fails the test unless the Lease had at least two holders and each holder released it before the next holder acquired it. In
// this case the next holder did not wait for the Lease to expire.
func (h *holders) released(t *testing.T) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := 1; i < len(h.names); i++ {
		if h.names[i-1] != "" && h.names[i] != "" {
			t.Errorf("%q led after %q, which did not release the Lease: %q", h.names[i], h.names[i-1], h.names)
		}
	}
	if len(h.names) < 3 {
		t.Errorf("the Lease was not handed over: %q", h.names)
	}
}
