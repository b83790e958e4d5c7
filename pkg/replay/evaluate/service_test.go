package evaluate

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/baseline"
	"github.com/gpuscaler/gpuscaler/pkg/replay/trace"
	"github.com/gpuscaler/gpuscaler/pkg/replay/tracefile"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// recorded returns a log without tokens: 10 minutes with 2 requests per second. The requests have the given service times, which are
// repeated in order. An empty text is an unknown service time.
func recorded(t *testing.T, service ...string) *trace.Trace {
	t.Helper()
	text := &strings.Builder{}
	text.WriteString("ts,service_seconds\n")
	for i := range 1200 {
		fmt.Fprintf(text, "%.1f,%s\n", float64(i)/2, service[i%len(service)])
	}
	tr, err := tracefile.Read("recorded.csv", strings.NewReader(text.String()), tracefile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func assumption(t *testing.T, r *Report, name string) string {
	t.Helper()
	for _, a := range r.Assumptions {
		if a.Name == name {
			return a.Value
		}
	}
	t.Fatalf("no assumption %q in %+v", name, r.Assumptions)
	return ""
}

// The requests of a log without tokens have the recorded service times, and not the mean service time of the profile (6.6 s). Three
// replicas with 8 slots serve 2 requests per second of 1 s each with a utilization of 1/12. If the requests take 20 s each, the replicas
// are overloaded.
func TestRecordedServiceTimesAreTheWorkOfTheRequests(t *testing.T) {
	replay := func(change func(*Case)) *Report {
		return evaluateCase(t, small(t, func(c *Case) {
			c.Policy, c.Baselines = chat(nil), baseline.All()[:1]
			change(c)
		}))
	}
	short := replay(func(c *Case) { c.Traffic = recorded(t, "1") })
	long := replay(func(c *Case) { c.Traffic = recorded(t, "20") })
	mixed := replay(func(c *Case) { c.Traffic = recorded(t, "1", "") })
	fixed := replay(func(c *Case) { c.Traffic, c.Service.Fixed = recorded(t, "20"), time.Second })
	if run := &short.Runs[0]; run.Wait.Max > 0 || !run.MeetsSLO {
		t.Errorf("1 s each: the longest wait is %v s, and the SLO is met: %t", run.Wait.Max, run.MeetsSLO)
	}
	if a, b := short.Runs[0].Cost, long.Runs[0].Cost; b < 2*a {
		t.Errorf("1 s each costs $%.3f, 20 s each $%.3f", a, b)
	}
	if a, b := short.Runs[0].Cost, fixed.Runs[0].Cost; a != b {
		t.Errorf("a fixed service time has priority: it costs $%.3f, want $%.3f", b, a)
	}
	for _, c := range []struct {
		r    *Report
		want string
	}{
		{short, "as recorded for each request, 1s on average"},
		{mixed, "as recorded for 600 of 1200 requests, 1s on average; for the others 50ms + "},
		{fixed, "fixed 1s"},
	} {
		if got := assumption(t, c.r, "service time"); !strings.HasPrefix(got, c.want) {
			t.Errorf("the report assumes %q, want %q", got, c.want)
		}
	}
	without := replay(func(c *Case) { c.Traffic = recorded(t, "") })
	want := "50ms + 200µs per input token + 30ms per output token; 1200 of 1200 requests have no token counts: " +
		"1155 input and 211 output tokens assumed"
	if got := assumption(t, without, "service time"); got != want {
		t.Errorf("the report assumes %q, want %q", got, want)
	}
}

// A replica with the recorded service times serves 13 times as many requests per second as the service for which the baseline's target is
// given. The target, in requests per second per replica, must therefore be 13 times as high.
func TestBaselinesAreScaledToRecordedServiceTimes(t *testing.T) {
	c := small(t, func(c *Case) { c.Traffic = recorded(t, "0.5") })
	for _, b := range baseline.All() {
		if b.Name != "skyserve" {
			continue
		}
		if got := c.scaled(b).Knobs[0].Default; !(got >= 13 && got <= 13.5) {
			t.Errorf("target_qps_per_replica is %v, want 13.2: 16 requests per second instead of 1.21", got)
		}
	}
}

// If all requests arrive in the first microsecond, the traffic has no length, and a rate over this length would be infinite. The replicas
// at the start must be enough to serve the requests within a second, and their number must be the same on every machine.
func TestReplicasAtTheStartOfTrafficWithoutLength(t *testing.T) {
	for requests, want := range map[int]int32{1: 1, 4: 4, 100: 8} {
		c := Case{Initial: AutoInitial, Service: simulator.Service{Slots: 1, Fixed: time.Second},
			Traffic: trace.NewLog(trace.Header{}, make([]trace.Request, requests)),
			Policy:  &policy.Compiled{Workload: scaling.Workload{Policy: &scaling.Policy{MaxReplicas: 8}}}}
		if got := c.initial(); got != want {
			t.Errorf("%d requests: %d replicas, want %d", requests, got, want)
		}
		if served, arrive := c.perReplica(time.Minute); served != 1 || arrive != float64(requests) {
			t.Errorf("%d requests: %v served and %v arrive per second", requests, served, arrive)
		}
	}
}
