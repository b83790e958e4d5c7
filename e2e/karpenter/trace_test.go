package karpenter_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/gpuscaler/gpuscaler/e2e/components"
	"github.com/gpuscaler/gpuscaler/e2e/controller"
	"github.com/gpuscaler/gpuscaler/e2e/karpenter"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
	"github.com/gpuscaler/gpuscaler/pkg/replay/spotmarket"
)

// This test replays forty minutes of a recorded spot market: AWS's g4dn in the Bamboo traces, from 3:04 to 3:44. The market has ten
// machines, only two machines after 15 minutes, and ten again after half an hour. As on AWS, an interruption is announced two minutes
// before it occurs, and a launch without capacity fails. The clocks of gpuscaler and of the trace are thirty times as fast as real time,
// so forty minutes take eighty seconds. Karpenter and the scheduler use real time, so by the fast clocks a node takes thirty times as
// long to start.
func TestLongFortyMinutesOfARecordedMarket(t *testing.T) {
	if os.Getenv("GPUSCALER_E2E_LONG") == "" {
		t.Skip("three minutes: GPUSCALER_E2E_LONG=1, or make test-long")
	}
	const from, length, desired = 184 * time.Minute, 40 * time.Minute, 6
	market := bamboo(t)
	t.Parallel()
	spot := pool{name: "trace-spot", kind: "spot", weight: 80, nudge: allFields, by: clientSide}
	demand := pool{name: "trace-od", kind: "on-demand", weight: 20, nudge: allFields, by: updated, edit: atOnce}
	pools, contents := []pool{spot, demand}, map[string]string{}
	for _, p := range pools {
		p.create(t)
	}
	chat(t, "trace", nil)
	for _, p := range pools {
		contents[p.name] = p.content(t)
	}
	g := start(t, "trace", map[string]string{
		"platform.yaml": controller.Platform("capacityGroups:\n- {name: gpu, resource: nvidia.com/gpu, returnNodesPerHour: 60, nodePools: " +
			"{spot: trace-spot, on-demand: trace-od}}\n"),
		"chat.yaml": chatPolicy("trace"),
	})
	g.load(t, map[string]float64{"trace/chat": desired})
	g.group(t, time.Minute, "six spot nodes", on(desired, 0))

	m := replayMarket(t, spot, market, from)
	seen := m.watch(t, g, desired, length)
	if m.lost < 4 {
		t.Errorf("the market removed only %d nodes, so the test proves nothing", m.lost)
	}
	if !seen.atRisk {
		t.Error("no replacement was requested before an announced interruption")
	}
	t.Logf("%d nodes interrupted; ready %.1f%% of the demanded replica time, at least %d of %d", m.lost, 100*seen.ready, seen.least, desired)

	m.end(t)
	g.group(t, 5*time.Minute, "all nodes are on spot again", on(desired, 0))
	stack.Eventually(t, time.Minute, "the NodePools are restored", func(context.Context) error {
		for _, p := range pools {
			if content := p.content(t); content != contents[p.name] {
				return fmt.Errorf("%s by %s differs:\n%s\nbefore:\n%s", p.name, p.by, content, contents[p.name])
			}
		}
		return nil
	})
	undrifted(t, pools...)
	g.load(t, map[string]float64{"trace/chat": 0})
	g.explained(t, "nodes at risk: ", "spot fallback: ", "spot probe: ", "return to spot: ")
}

// bamboo reads the trace. It skips the test if the shared data are missing.
func bamboo(t *testing.T) *spotmarket.Trace {
	t.Helper()
	root, err := components.Root()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(filepath.Dir(root), "..", "shared", "data", "spot", "bamboo_aws_g4dn-trace.csv")
	spot, err := spotmarket.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		t.Skipf("the shared trace is missing: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return spot
}

// recorded is a market that follows a trace. At each time, the pool's instance type has as many spot machines as the trace.
type recorded struct {
	pool  pool
	trace *spotmarket.Trace
	from  time.Duration
	began time.Time
	stop  context.CancelFunc
	over  chan struct{}

	mu      sync.Mutex
	noticed map[string]bool // names of NodeClaims whose interruption was announced
	lost    int
}

// noticeAhead is the time between the announcement and the interruption, as on AWS.
const noticeAhead = 2 * time.Minute

func replayMarket(t *testing.T, p pool, of *spotmarket.Trace, from time.Duration) *recorded {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	m := &recorded{pool: p, trace: of, from: from, began: time.Now(), stop: cancel, over: make(chan struct{}), noticed: map[string]bool{}}
	t.Cleanup(cancel)
	go func() {
		defer close(m.over)
		for limit := -1; ctx.Err() == nil; time.Sleep(100 * time.Millisecond) {
			if now := m.available(0); now != limit {
				limit = now
				if err := short(t.Name(), []karpenter.Shortage{{CapacityType: "spot", InstanceType: p.instance(), Limit: limit}}); err != nil {
					t.Error(err)
				}
			}
			if err := m.step(ctx); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		}
	}()
	return m
}

// available returns the number of spot machines in the trace at the current time plus ahead, by the clock of the trace.
func (m *recorded) available(ahead time.Duration) int {
	return m.trace.Available(m.from + time.Duration(float64(time.Since(m.began))*speed) + ahead)
}

// step interrupts the oldest nodes for which the market has no capacity now. It also announces the interruption of the oldest nodes for
// which the market will have no capacity in two minutes.
func (m *recorded) step(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var claims v1.NodeClaimList
	if err := suite.Client.List(ctx, &claims, client.MatchingLabels{"karpenter.sh/nodepool": m.pool.name}); err != nil {
		return err
	}
	var live []*v1.NodeClaim
	for i := range claims.Items {
		c := &claims.Items[i]
		if c.DeletionTimestamp == nil && c.Status.ProviderID != "" {
			live = append(live, c)
		}
	}
	slices.SortFunc(live, func(a, b *v1.NodeClaim) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	for _, c := range live[:max(len(live)-m.available(noticeAhead), 0)] {
		if !m.noticed[c.Name] {
			m.noticed[c.Name] = true
			if err := notice(ctx, c); err != nil {
				return err
			}
		}
	}
	for _, c := range live[:max(len(live)-m.available(0), 0)] {
		m.lost++
		if err := client.IgnoreNotFound(suite.Client.Delete(ctx, c)); err != nil {
			return err
		}
	}
	return nil
}

// end ends the replay of the trace. After that the capacity is unlimited.
func (m *recorded) end(t *testing.T) {
	t.Helper()
	m.stop()
	<-m.over
	if err := short(t.Name(), nil); err != nil {
		t.Fatal(err)
	}
}

// lived contains what the test observed during the trace.
type lived struct {
	atRisk bool
	ready  float64 // replica-seconds of ready replicas divided by replica-seconds of demanded replicas
	least  int64
}

func (m *recorded) watch(t *testing.T, g *fastProcess, desired int64, length time.Duration) lived {
	t.Helper()
	seen := lived{least: desired}
	total, looks := int64(0), int64(0)
	for time.Since(m.began) < length/speed {
		if s, err := g.status(); err == nil {
			seen.atRisk = seen.atRisk || s.Groups["gpu"].AtRisk > 0
		}
		n, err := readyNow(t.Context(), "trace", "chat")
		if err != nil {
			t.Fatal(err)
		}
		total, looks, seen.least = total+min(n, desired), looks+1, min(seen.least, n)
		time.Sleep(200 * time.Millisecond)
	}
	seen.ready = float64(total) / float64(looks*desired)
	return seen
}
