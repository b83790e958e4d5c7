package objective

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscaler/gpuscaler/e2e/controller"
	"github.com/gpuscaler/gpuscaler/e2e/exporter"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
	"github.com/gpuscaler/gpuscaler/e2e/workload"
	"github.com/gpuscaler/gpuscaler/pkg/dashboard/explain"
	"github.com/gpuscaler/gpuscaler/pkg/replay/evaluate"
	"github.com/gpuscaler/gpuscaler/pkg/replay/trace"
	"github.com/gpuscaler/gpuscaler/pkg/replay/tracefile"
)

// These constants describe the service of the hour: the slots (requests that a replica serves at once) and the mean service time of
// simulator.Chat8B for the conversations of the recorded hour. The slower version of the model server needs `slower` times as long for a
// request.
const (
	hourSlots   = 8
	hourService = 6617 * time.Millisecond
	hourTruth   = hourSlots / 6.617 // requests per second that a replica can serve
	slower      = 1.5
	hourStart   = 4 // number of replicas at the start
	coldStart   = time.Minute
)

// Times of the hour.
const (
	capacityKnown = 20 * time.Minute
	leaderCrashes = 25 * time.Minute
	slowRollout   = 35 * time.Minute
	restartAt     = 45 * time.Minute
)

// TestRecordedHour serves a recorded hour of requests with two Deployments, "steady" and "rolled". After 25 minutes gpuscaler's leader is
// killed, and after 45 minutes gpuscaler is rolled out. After 35 minutes, rolled gets a slower version of its model server. The results
// of steady are compared with `gpuscaler replay` of the same requests.
func TestRecordedHour(t *testing.T) {
	if !wholeHour {
		t.Skip("an hour: GPUSCALER_E2E_LONG=1, or make test-long")
	}
	requests, ok := hour(t, hourService)
	if !ok {
		t.Skip("the recorded hour is not next to the repository: shared/data/requests/" + recorded)
	}
	if err := suite.Stack.Nodes(t.Context(), "gpu", 8, 8); err != nil {
		t.Fatal(err)
	}
	rolled, steady := begin(t, requests, "rolled"), begin(t, requests, "steady") // rolled begins a minute before steady
	both, start := []*played{steady, rolled}, steady.load.Began()
	until := func(at time.Duration) {
		t.Helper()
		for time.Since(start) < at {
			for _, p := range both {
				if time.Since(p.load.Began()) < requests.Duration { // rolled ends its requests a minute before steady
					p.check(t)
				}
			}
			time.Sleep(min(10*time.Second, time.Until(start.Add(at))))
		}
		for _, p := range both {
			t.Logf("%s %s: %s", at, p.Name, p.describe(t))
		}
	}
	for at := 5 * time.Minute; at < capacityKnown; at += 5 * time.Minute {
		until(at)
	}
	until(capacityKnown)
	for _, p := range both {
		p.knows(t, hourTruth, 0.1)
	}

	until(leaderCrashes)
	before := both[0].capacity(t)
	killed := killLeader(t)
	for _, p := range both {
		p.continues(t, killed, before)
	}
	until(slowRollout)
	setImage(t, rolled.Workload, slowImage)
	until(40 * time.Minute)
	until(restartAt)
	before = steady.capacity(t)
	began := time.Now()
	rollController(t)
	steady.continues(t, began, before)
	until(50 * time.Minute)
	until(requests.Duration)
	for _, p := range both {
		p.total = p.load.Totals(time.Now())
	}

	rolled.knows(t, hourTruth/slower, 0.15)
	for _, p := range both {
		p.reports(t)
	}
	compare(t, requests, steady)
}

// played is a Deployment that serves the requests of the hour.
type played struct {
	controller.Workload
	load    *exporter.Requests
	checked int
	total   exporter.Served // counts of served requests at the end of the hour
}

// begin starts a Deployment, its policy and its requests.
func begin(t *testing.T, requests *trace.Trace, name string) *played {
	t.Helper()
	ns, load := suite.Namespace(t, "hour-"+name), serving(requests, hourSlots, slower)
	suite.Export(t, workload.Metrics(ns, name, load))
	d := workload.Deployment(ns, name, hourStart)
	d.Spec.Template.Annotations = map[string]string{stack.StartupAnnotation: coldStart.String()}
	p := &played{Workload: suite.Workload(t, d, policy), load: load}
	load.Begin(time.Now()) // start the requests together with the policy, as in a replay
	return p
}

// check compares the current explanation with the recorded state.
func (p *played) check(t *testing.T) {
	t.Helper()
	s, err := read(t.Context(), p.Workload)
	if err != nil {
		t.Logf("%s: not explained: %v", p.Name, err) // explain fails while no replica leads
		return
	}
	p.checked++
	if err := errors.Join(s.sentence(), s.recordedState(p.load)); err != nil {
		t.Errorf("%s at %s: %v", p.Name, s.At.Format("15:04:05"), err)
	}
}

// reports checks the explanation of each logged change of the target. It fails the test if it could check too few changes.
func (p *played) reports(t *testing.T) {
	t.Helper()
	changes := p.Transitions(t)
	for _, e := range changes {
		s := step{e, -1}
		if err := s.sentence(); err != nil {
			t.Errorf("%s at %s: %v", p.Name, e.At.Format("15:04:05"), err)
		}
		t.Logf("%s at %s: %d ready, %s", p.Name, e.At.Format("15:04:05"), e.Ready, e.Why)
	}
	t.Logf("%s: the explanations of %d reads and %d changes were checked", p.Name, p.checked, len(changes))
	if p.checked < 100 || len(changes) < 5 {
		t.Errorf("%s: only %d explanations and %d changes were checked", p.Name, p.checked, len(changes))
	}
}

func (p *played) describe(t *testing.T) string {
	t.Helper()
	totals := p.load.Totals(time.Now())
	e, err := suite.Explain(t.Context(), p.Policy())
	learned := ""
	if e.Objective != nil {
		learned = e.Objective.Learned
	}
	return fmt.Sprintf("%d arrived, %.4f on time, %.0f replica-seconds, %s | %s %v", totals.Arrived, totals.OnTime(), totals.Paid, e.Why,
		learned, err)
}

// capacity returns the learned capacity of a replica. It waits until gpuscaler has a leader.
func (p *played) capacity(t *testing.T) (learned float64) {
	t.Helper()
	stack.Eventually(t, 2*time.Minute, "a capacity is explained", p.Explained(func(e explain.Explanation) error {
		if e.Objective == nil || e.Objective.Capacity == nil {
			return fmt.Errorf("no capacity is known: %s", e.Why)
		}
		learned = e.Objective.Capacity.P50
		return nil
	}))
	return learned
}

// knows fails the test if the learned capacity differs from the true capacity by more than the given share.
func (p *played) knows(t *testing.T, truth, share float64) {
	t.Helper()
	c := p.capacity(t)
	t.Logf("%s: learned %.3f, true %.3f: %+.1f%%", p.Name, c, truth, 100*(c/truth-1))
	if math.Abs(c/truth-1) > share {
		t.Errorf("%s: the learned capacity is %.3f, and the true one is %.3f", p.Name, c, truth)
	}
}

// continues fails the test unless two conditions are met: the new leader has the capacity that the previous leader learned, and the new
// leader's first target is not lower than the previous leader's last target.
func (p *played) continues(t *testing.T, since time.Time, before float64) {
	t.Helper()
	stack.Eventually(t, 2*time.Minute, "the next leader decides", p.Explained(func(e explain.Explanation) error {
		if !e.At.After(since) || e.Objective == nil || e.Objective.Capacity == nil {
			return fmt.Errorf("decided at %s: %s", e.At, e.Why)
		}
		return nil
	}))
	if p.Name == "steady" {
		if now := p.capacity(t); math.Abs(now/before-1) > 0.05 {
			t.Errorf("%s: the capacity was %.3f before the restart, and is %.3f", p.Name, before, now)
		}
	}
	if targets := p.Targets(t).Since(since); len(targets) > 1 && targets[1].N < targets[0].N && time.Since(targets[1].At) < time.Minute {
		t.Errorf("%s: the next leader lowered the target: %v", p.Name, targets)
	}
}

// setImage rolls out another version of the model server.
func setImage(t *testing.T, s controller.Workload, image string) {
	t.Helper()
	patch := fmt.Sprintf(`{"spec":{"template":{"spec":{"containers":[{"name":"vllm","image":%q}]}}}}`, image)
	d := &appsv1.Deployment{ObjectMeta: workload.Deployment(s.Namespace, s.Name, 0).ObjectMeta}
	if err := suite.Stack.Client.Patch(t.Context(), d, client.RawPatch("application/strategic-merge-patch+json", []byte(patch))); err != nil {
		t.Fatal(err)
	}
}

// replays is the number of replays with different seeds. The seed determines when the HPA, the scrapes and the polls run.
const replays = 16

// compare fails the test if all replays attain the SLO and the real hour does not, or if the replica-seconds of the hour and of
// the replays differ by more than 2%.
func compare(t *testing.T, requests *trace.Trace, p *played) {
	t.Helper()
	live := p.total
	t.Logf("live: %.4f on time, %.0f replica-seconds", live.OnTime(), live.Paid)
	least, most, attained := math.Inf(1), 0.0, true
	for seed := range replays {
		run := replay(t, requests, seed+1)
		paid := run.GPUHours * 3600
		t.Logf("replay with seed %d: %.4f on time, %.0f replica-seconds, live is %+.1f%%", seed+1, run.OnTime, paid, 100*(live.Paid/paid-1))
		least, most, attained = min(least, paid), max(most, paid), attained && run.MeetsSLO
	}
	if attained && live.OnTime() < 0.99 {
		t.Errorf("%.4f of the requests were served in time, and each replay meets the SLO", live.OnTime())
	}
	if live.Paid < 0.98*least || live.Paid > 1.02*most {
		t.Errorf("%.0f replica-seconds, and %.0f to %.0f in the replays", live.Paid, least, most)
	}
}

// replay runs `gpuscaler replay` on the requests, with the policy and the cold start of the test.
func replay(t *testing.T, requests *trace.Trace, seed int) evaluate.Run {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "requests.csv")
	out, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(tracefile.WriteCSV(out, requests), out.Close()); err != nil {
		t.Fatal(err)
	}
	policies := filepath.Join(dir, "policies.yaml")
	text := controller.Platform(platform("http://127.0.0.1:9090", replayPolls)) + "---\n" +
		controller.Policy("hour-steady", "steady", policy)
	if err := os.WriteFile(policies, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), suite.Binary, "replay", "--config", policies, "--requests", file,
		"--slo", "99%:10s", "--cold-start", coldStart.String(), "--initial", strconv.Itoa(hourStart), "--slots", strconv.Itoa(hourSlots),
		"--seed", strconv.Itoa(seed), "-o", "json")
	command.Stderr = os.Stderr
	answer, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	var report evaluate.Report
	if err := json.Unmarshal(answer, &report); err != nil || len(report.Runs) == 0 {
		t.Fatalf("%v in %s", err, answer)
	}
	return report.Runs[0]
}
