package line

import (
	"path/filepath"
	"slices"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscaler/gpuscaler/e2e/controller"
	"github.com/gpuscaler/gpuscaler/e2e/exporter"
	"github.com/gpuscaler/gpuscaler/e2e/record"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
	"github.com/gpuscaler/gpuscaler/e2e/workload"
	"github.com/gpuscaler/gpuscaler/pkg/replay/hpa"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// behaving returns a behavior with stabilization windows, rate limits and a tolerance in two forms: for the HPA in the API server, and
// for the HPA of the replay. No period is a multiple of the sync period. Otherwise a sync could occur exactly at the end of a period, and
// a difference of milliseconds would change the result.
func behaving() (*autoscalingv2.HorizontalPodAutoscalerBehavior, hpa.Spec) {
	rules := func(window int32, policies ...autoscalingv2.HPAScalingPolicy) *autoscalingv2.HPAScalingRules {
		// without a Tolerance, the default of 10% applies
		return &autoscalingv2.HPAScalingRules{StabilizationWindowSeconds: &window, Policies: policies}
	}
	real := &autoscalingv2.HorizontalPodAutoscalerBehavior{
		ScaleUp: rules(3, autoscalingv2.HPAScalingPolicy{Type: autoscalingv2.PodsScalingPolicy, Value: 3, PeriodSeconds: 5},
			autoscalingv2.HPAScalingPolicy{Type: autoscalingv2.PercentScalingPolicy, Value: 20, PeriodSeconds: 5}),
		ScaleDown: rules(9, autoscalingv2.HPAScalingPolicy{Type: autoscalingv2.PodsScalingPolicy, Value: 4, PeriodSeconds: 7}),
	}
	return real, hpa.Spec{Min: 1, Max: 32, Behavior: &hpa.Behavior{
		Up: scaling.Direction{StabilizationWindow: 3 * time.Second, Tolerance: 0.1, Rates: []scaling.RatePolicy{
			{Type: scaling.Pods, Value: 3, Period: 5 * time.Second}, {Type: scaling.PercentRate, Value: 20, Period: 5 * time.Second}}},
		Down: scaling.Direction{StabilizationWindow: 9 * time.Second, Tolerance: 0.1, Rates: []scaling.RatePolicy{
			{Type: scaling.Pods, Value: 4, Period: 7 * time.Second}}},
	}}
}

// TestReplayHPAMatchesTheRealHPA compares the replay's HPA with the HPA of kube-controller-manager. The real HPA follows a sequence of
// targets, and the test reads its syncs from the log of kube-controller-manager. The replay's HPA runs with the same inputs at the times of
// these syncs. After every sync both must have written the same number of replicas. Both must also compute the same number from the metric
// before the behavior is applied.
func TestReplayHPAMatchesTheRealHPA(t *testing.T) {
	t.Parallel()
	ns, load := suite.Namespace(t, "sequence"), &exporter.Knobs{}
	set := func(replicas int32) { load.Set(exporter.Values{Upstream: float64(replicas)*10 - 3}) }
	set(10)
	suite.Export(t, workload.Metrics(ns, "chat", load))
	u := suite.Workload(t, workload.Deployment(ns, "chat", 10), onGateway)
	stack.Eventually(t, time.Minute, "the target follows the gateway's queue", u.HasTarget(10))
	status, err := record.Status(t.Context(), suite.Stack.Client, ns, "chat")
	if err != nil {
		t.Fatal(err)
	}
	real, replayed := behaving()
	var h autoscalingv2.HorizontalPodAutoscaler
	key := client.ObjectKey{Namespace: ns, Name: "chat"}
	if err := suite.Stack.Client.Get(t.Context(), key, &h); err != nil {
		t.Fatal(err)
	}
	changed := h.DeepCopy()
	changed.Spec.Behavior = real
	if err := suite.Stack.Client.Patch(t.Context(), changed, client.MergeFrom(&h)); err != nil {
		t.Fatal(err)
	}
	time.Sleep(hpaSync) // wait until the HPA controller has observed the HPA
	began := time.Now()

	for _, step := range []struct {
		n int32
		// how long to wait: a decrease needs its stabilization window and two periods of the rate limit, and the machine may stall
		takes time.Duration
	}{{11, 12}, {24, 14}, {12, 20}, {13, 12}, {3, 20}, {16, 14}} { // the changes from 10 to 11 and from 12 to 13 are within the tolerance
		set(step.n)
		time.Sleep(step.takes * time.Second)
	}
	syncs := syncsSince(t, key, began)
	// If the machine stalls, the values that some syncs have read are unknown. The test waits for more syncs until the values of enough
	// syncs are known.
	for range 6 {
		if enough(checkable(t, u, status, syncs), syncs) {
			break
		}
		time.Sleep(10 * time.Second)
		syncs = syncsSince(t, key, began)
	}
	if err := record.Agrees(&replayed, 10, syncs); err != nil {
		t.Errorf("%v\n%+v", err, syncs)
	}
	wrote := record.Written(10, syncs)
	deployed, err := u.Replicas.Steps()
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(wrote.Numbers(), deployed.Numbers()) {
		t.Errorf("by its log the HPA wrote %v, and the Deployment had %v", wrote, deployed)
	}
	t.Logf("%d syncs, %d numbers: %v", len(syncs), len(wrote), wrote)
	if len(wrote) < 5 {
		t.Error("no rate limited a step, so the test proves nothing")
	}
	for name, other := range others(replayed) {
		if record.Agrees(&other, 10, syncs) == nil {
			t.Errorf("the sequence is the same with %s, so the test proves nothing", name)
		}
	}
	proposals(t, checkable(t, u, status, syncs), syncs, &replayed)
}

// syncsSince returns the HPA's syncs since the given time, from the log of the controller manager.
func syncsSince(t *testing.T, hpa client.ObjectKey, since time.Time) []record.Sync {
	t.Helper()
	all, err := record.Syncs(filepath.Join(suite.Stack.Dir, "logs", "kube-controller-manager.log"), hpa, hpa.Name)
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(all, func(s record.Sync) bool { return s.At.Before(since) })
}

// others returns behaviors that differ from s in one window or rate. With each of these behaviors, the replay's HPA must differ from the
// recorded syncs. Otherwise the test could not detect a wrong window or rate.
func others(s hpa.Spec) map[string]hpa.Spec {
	out := map[string]hpa.Spec{}
	add := func(name string, change func(*hpa.Behavior)) {
		b := *s.Behavior
		b.Up.Rates, b.Down.Rates = slices.Clone(b.Up.Rates), slices.Clone(b.Down.Rates)
		change(&b)
		out[name] = hpa.Spec{Min: s.Min, Max: s.Max, Behavior: &b}
	}
	add("no window on the way up", func(b *hpa.Behavior) { b.Up.StabilizationWindow = 0 })
	add("no window on the way down", func(b *hpa.Behavior) { b.Down.StabilizationWindow = 0 })
	add("one replica more per period", func(b *hpa.Behavior) { b.Up.Rates[0].Value++ })
	add("one replica less per period", func(b *hpa.Behavior) { b.Down.Rates[0].Value-- })
	return out
}

// observed contains the values that the real HPA can have read in one sync. There are several possible values if the target or the number
// of pods changed between the previous sync and shortly after this sync.
type observed struct {
	record.Sync
	desired, had []int32
}

// checkable returns the syncs that read metrics, with the values that each of them can have read.
func checkable(t *testing.T, u controller.Workload, status *record.Watched, syncs []record.Sync) (all []observed) {
	t.Helper()
	const beside, stall = 750 * time.Millisecond, 3 * time.Second
	existing, err := status.Steps()
	if err != nil {
		t.Fatal(err)
	}
	targets := u.Targets(t)
	for i, s := range syncs {
		if s.Known && i > 0 {
			from := syncs[i-1].End.Add(-beside) // the HPA can only have read a value that was served after this time
			all = append(all, observed{s, targets.Between(from, s.At.Add(stall)), existing.Between(from, s.At.Add(stall))})
		}
	}
	return all
}

// exact reports whether the values that the HPA read are known: only one target and one number of pods are possible.
func (o observed) exact() bool { return len(o.desired) == 1 && len(o.had) == 1 }

// enough reports whether at least a fifth of the syncs are exact.
func enough(all []observed, syncs []record.Sync) bool {
	n := 0
	for _, o := range all {
		if o.exact() {
			n++
		}
	}
	return n >= len(syncs)/5
}

// proposals compares the real HPA's proposal in each sync, before the behavior is applied, with the number that the replay computes from
// the target and the number of pods at that time.
func proposals(t *testing.T, all []observed, syncs []record.Sync, spec *hpa.Spec) {
	t.Helper()
	judged, swallowed := 0, 0
	for _, o := range all {
		if o.exact() {
			if judged++; o.desired[0] != o.had[0] && o.Proposed == o.had[0] {
				swallowed++
			}
		}
		if !slices.ContainsFunc(o.desired, func(target int32) bool {
			return slices.ContainsFunc(o.had, func(pods int32) bool {
				return hpa.AverageValue(int64(target)*1000, 1000, pods, spec.Tolerances()) == o.Proposed
			})
		}) {
			t.Errorf("at %s, %v desired of %v pods: the HPA's metric proposed %d, and the replay computes it from none of them",
				o.At.Format("15:04:05.000"), o.desired, o.had, o.Proposed)
		}
	}
	t.Logf("%d of %d syncs were checked with one pair of values; in %d the target differed within the tolerance", judged, len(syncs),
		swallowed)
	if !enough(all, syncs) || swallowed == 0 {
		t.Error("too few syncs to prove anything")
	}
}
