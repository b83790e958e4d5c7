package keda

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscaler/gpuscaler/e2e/record"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
	"github.com/gpuscaler/gpuscaler/pkg/replay/hpa"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/baseline"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

const (
	pollingSeconds, cooldownSeconds = 5, 17
	perReplica, cronReplicas        = 10, 5
	// promptness is the maximum time from a poll until the write that it causes is observed, on a busy machine. It is shorter than the poll
	// interval, so that each write belongs to one poll.
	promptness = 4 * time.Second
)

// sequenced is a ScaledObject with useCachedMetrics: KEDA reads the backlog only when it polls, and the HPA gets the value of the last
// poll.
const sequenced = `
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: %[1]s, namespace: %[2]s}
spec:
  scaleTargetRef: {name: %[1]s}
  minReplicaCount: 0
  maxReplicaCount: 8
  pollingInterval: %[3]d
  cooldownPeriod: %[4]d
  advanced:
    horizontalPodAutoscalerConfig:
      behavior:
        scaleUp: {policies: [{type: Pods, value: 2, periodSeconds: 3}]}
        scaleDown: {stabilizationWindowSeconds: 5, policies: [{type: Pods, value: 3, periodSeconds: 3}]}
  triggers:
  - {type: metrics-api, name: backlog, useCachedMetrics: true, metadata: {url: "%[5]s", valueLocation: backlog, targetValue: "%[6]d"}}
  - {type: cron, name: office, metadata: {timezone: UTC, start: "%[7]s", end: "%[8]s", desiredReplicas: "%[9]d"}}
`

// replayed returns the HPA that KEDA creates for the ScaledObject in sequenced, in the type of the replay.
func replayed() *hpa.Spec {
	b := hpa.DefaultBehavior()
	b.Up.Rates = []scaling.RatePolicy{{Type: scaling.Pods, Value: 2, Period: 3 * time.Second}}
	b.Down.StabilizationWindow = 5 * time.Second
	b.Down.Rates = []scaling.RatePolicy{{Type: scaling.Pods, Value: 3, Period: 3 * time.Second}}
	return &hpa.Spec{Min: 1, Max: 8, Behavior: b}
}

// poll is one read of the backlog by KEDA's operator.
type poll struct {
	at      time.Time
	backlog int
	broken  bool // the response to the poll was an error
}

// backlogs serves the backlog to KEDA and records the polls.
type backlogs struct {
	mu    sync.Mutex
	now   poll
	polls []poll
}

func (b *backlogs) set(n int, broken bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.now = poll{backlog: n, broken: broken}
}

func (b *backlogs) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.now
	p.at = time.Now()
	b.polls = append(b.polls, p)
	if p.broken {
		http.Error(w, "down", http.StatusInternalServerError)
		return
	}
	fmt.Fprintf(w, `{"backlog": %d}`, p.backlog)
}

// TestReplayKEDAMatchesTheRealKEDA compares the replay's simulation of KEDA with a real ScaledObject, which has a queue and a cron
// trigger and scales from zero and back. The replay runs at the times of the real polls and syncs. It must write the same replicas in the
// same order. Each write must be at most 4 s (the constant promptness) before or after the real change of the Deployment. After each sync
// the replay must have the same replicas as the real HPA.
func TestReplayKEDAMatchesTheRealKEDA(t *testing.T) {
	t.Parallel()
	s := place(t, "sequence", 0)
	load := &backlogs{}
	server := httptest.NewServer(load)
	t.Cleanup(server.Close)
	opens := time.Now().UTC().Add(20 * time.Second).Truncate(time.Minute).Add(time.Minute)
	crons := [2]string{}
	for i, at := range []time.Time{opens, opens.Add(time.Minute)} {
		crons[i] = fmt.Sprintf("%d %d * * *", at.Minute(), at.Hour())
	}
	cron, err := baseline.NewCron("UTC", crons[0], crons[1], cronReplicas)
	if err != nil {
		t.Fatal(err)
	}
	apply(t, fmt.Sprintf(sequenced, name, s.ns, pollingSeconds, cooldownSeconds, server.URL, perReplica, crons[0], crons[1], cronReplicas))
	for _, step := range []struct {
		backlog int
		broken  bool
		takes   time.Duration
	}{{0, false, 7 * time.Second}, {37, false, 14 * time.Second}, {15, false, 10 * time.Second}, {15, true, 7 * time.Second}, {0, false, 0}} {
		load.set(step.backlog, step.broken)
		time.Sleep(step.takes)
	}
	time.Sleep(time.Until(opens.Add(time.Minute)))
	stack.Eventually(t, time.Minute, "no replicas after the end of the window", s.spec(0))
	time.Sleep(2 * time.Second)

	syncs, err := record.Syncs(filepath.Join(suite.Stack.Dir, "logs", "kube-controller-manager.log"),
		client.ObjectKey{Namespace: s.ns, Name: "keda-hpa-" + name}, name)
	if err != nil {
		t.Fatal(err)
	}
	r := rerun{cron: cron, cooldown: cooldownSeconds * time.Second, deployed: s.course(t)}
	load.mu.Lock()
	r.take(load.polls, syncs)
	load.mu.Unlock()
	wrote, err := r.run()
	t.Logf("%d polls, %d syncs\nKEDA   %v\nreplay %v", len(load.polls), len(syncs), r.deployed, wrote)
	if err = errors.Join(err, together(wrote, r.deployed)); err != nil {
		t.Error(err)
	}
	if n := wrote.Numbers(); len(n) < 7 || slices.Max(n) < cronReplicas {
		t.Error("too few changes, so the test proves nothing")
	}
	for _, cooldown := range []time.Duration{cooldownSeconds*time.Second - 2*pollingSeconds*time.Second,
		cooldownSeconds*time.Second + 2*pollingSeconds*time.Second} {
		other := r
		other.cooldown = cooldown
		wrote, err := other.run()
		if errors.Join(err, together(wrote, r.deployed)) == nil {
			t.Errorf("a cooldown of %s gives the same sequence, so the test proves nothing", cooldown)
		}
	}
}

// together returns an error unless both sequences have the same replicas in the same order, with corresponding changes at most `promptness`
// apart.
func together(replay, real record.Steps) error {
	if !slices.Equal(replay.Numbers(), real.Numbers()) {
		return fmt.Errorf("the replay wrote %v, KEDA and its HPA %v", replay, real)
	}
	for i := range replay {
		if apart := real[i].At.Sub(replay[i].At); i > 0 && apart.Abs() > promptness {
			return fmt.Errorf("%d at %s in the replay, and %s later with KEDA", replay[i].N, replay[i].At.Format("15:04:05.000"), apart)
		}
	}
	return nil
}

// rerun runs the replay's simulation of KEDA with the recorded polls and syncs of the real KEDA.
type rerun struct {
	cron     baseline.CronTrigger
	cooldown time.Duration
	deployed record.Steps
	syncs    []record.Sync
	events   []event
}

// event is a poll or a sync of the HPA, with the time at which it took effect.
type event struct {
	effect time.Time
	poll   *poll
	sync   *int // index of the sync; nil for a poll
}

// take sorts the polls and syncs by the time at which they took effect. A poll takes effect when the change of the Deployment that it
// causes is observed: a sync between the poll and this change still reads the previous replicas.
func (r *rerun) take(polls []poll, syncs []record.Sync) {
	for i := range polls {
		e := event{effect: polls[i].at, poll: &polls[i]}
		for j, step := range r.deployed {
			after := step.At.Sub(polls[i].at)
			if j > 0 && (step.N == 0 || r.deployed[j-1].N == 0) && after > 0 && after < promptness {
				e.effect = step.At
			}
		}
		r.events = append(r.events, e)
	}
	r.syncs = syncs
	for i := range syncs {
		r.events = append(r.events, event{effect: syncs[i].At, sync: &i})
	}
	slices.SortStableFunc(r.events, func(a, b event) int { return a.effect.Compare(b.effect) })
}

// run runs the replay. The log of the HPA controller gives the time of each sync only approximately, so run searches for times at which the
// replay equals the log.
func (r *rerun) run() (wrote record.Steps, err error) {
	err = record.Fits(r.syncs, func(at []time.Time) (reached int, err error) {
		wrote, reached, err = r.at(at)
		return reached, err
	})
	return wrote, err
}

// at returns the changes that the replay writes if the syncs run at the given times. The result reached is the index of the first sync
// after which the replay and the real HPA have different numbers of replicas. If there is no such sync, reached is the number of syncs.
func (r *rerun) at(instants []time.Time) (wrote record.Steps, reached int, err error) {
	spec, controller, loop := replayed(), hpa.Controller{}, hpa.ScaleLoop{Cooldown: r.cooldown}
	current := int32(0)
	reached = len(r.syncs)
	wrote = record.Steps{{At: r.deployed[0].At, N: current}}
	for _, e := range r.events {
		before := current
		if p := e.poll; p != nil {
			open, _ := r.cron.Window.At(p.at)
			current = loop.Poll(p.at, current, open || !p.broken && p.backlog > 0, !p.broken)
		} else {
			s := &r.syncs[*e.sync]
			current, _ = controller.Sync(spec, instants[*e.sync], current, []hpa.Proposal{{Replicas: s.Proposed, Known: s.Known}})
			if !s.Failed && current != s.Replicas {
				reached = min(reached, *e.sync)
				err = errors.Join(err, fmt.Errorf("the sync at %s ended at %d, in the replay at %d", s.At.Format("15:04:05.000"), s.Replicas, current))
			}
		}
		if current != before {
			wrote = append(wrote, record.Step{At: e.effect, N: current})
		}
	}
	return wrote, reached, err
}
