package usage

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/gpuscaler/gpuscaler/pkg/cost"
)

const busyHalf = `
DCGM_FI_PROF_GR_ENGINE_ACTIVE{` + chatGPU + `} 0.5x60
kube_pod_info{namespace="chat",pod="llama-7d9f8b6c5d-abcde",node="ip-1.ec2.internal",created_by_kind="ReplicaSet",` +
	`created_by_name="llama-7d9f8b6c5d"} 1x60
`

func liveOn(t *testing.T, series string) *Live {
	t.Helper()
	_, server := serve(t, series)
	return NewLive(func() (Input, bool) {
		return Input{Server: server, Options: Options{Exporter: inGPUOperator},
			Ledger: cost.Options{Cluster: "prod", Teams: map[string]string{"chat": "assistants"}}}, true
	}, slog.New(slog.DiscardHandler))
}

func TestCurrentCostIsAttributedToItsWorkload(t *testing.T) {
	l := liveOn(t, busyHalf+karpenterNode)
	now := time.Unix(1800, 0)
	if _, ok := l.Current(now); ok {
		t.Error("there is a result before the first update")
	}
	if err := l.Update(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	b, ok := l.Current(now.Add(time.Minute))
	if !ok {
		t.Fatal("no result after an update")
	}
	want(t, "idle dollars in two minutes", b.Total.IdleByActivity, 6.0/30)
	want(t, "what Karpenter asks for the offer",
		l.Price(cost.Offer{InstanceType: "g6e.12xlarge", CapacityType: cost.OnDemand, Zone: "us-east-1a"}, now).Hourly, 12)
	if l.Price(cost.Offer{InstanceType: "g6e.12xlarge", CapacityType: cost.Spot, Zone: "us-east-1a"}, now).Known() {
		t.Error("the price of an offer that Karpenter does not name is known")
	}
	if l.Price(cost.Offer{InstanceType: "g6e.12xlarge", CapacityType: cost.OnDemand, Zone: "us-east-1a"}, now.Add(time.Hour)).Known() {
		t.Error("a price of an hour ago is returned as the current one")
	}

	labels := `capacity_type="on-demand",cluster="prod",instance_type="g6e.12xlarge",namespace="chat",team="assistants",` +
		`use="allocated",workload="llama"`
	err := testutil.CollectAndCompare(NewCollector(l, func() time.Time { return now }), strings.NewReader(`
# HELP gpuscaler_cost_gpus GPUs that are paid for, by the workload that holds them and by their use.
# TYPE gpuscaler_cost_gpus gauge
gpuscaler_cost_gpus{`+labels+`} 1
# HELP gpuscaler_cost_idle_gpus GPUs of these that were idle over the last two minutes; two GPUs with an activity of 50% count as one.
# TYPE gpuscaler_cost_idle_gpus gauge
gpuscaler_cost_idle_gpus{`+labels+`} 0.5
# HELP gpuscaler_cost_idle_per_hour Dollars per hour for idle GPUs, by what shows that they are idle: activity, `+
		`memory or unallocated (no pod holds the GPU).
# TYPE gpuscaler_cost_idle_per_hour gauge
gpuscaler_cost_idle_per_hour{basis="activity",`+labels+`} 6
# HELP gpuscaler_cost_per_hour Dollars per hour; absent where no price is known.
# TYPE gpuscaler_cost_per_hour gauge
gpuscaler_cost_per_hour{`+labels+`} 12
# HELP gpuscaler_cost_timestamp_seconds Time of the newest known cost of GPUs, in Unix seconds.
# TYPE gpuscaler_cost_timestamp_seconds gauge
gpuscaler_cost_timestamp_seconds 1800
# HELP gpuscaler_cost_unmeasured_per_hour Dollars per hour for GPUs of which it is not known whether they are idle.
# TYPE gpuscaler_cost_unmeasured_per_hour gauge
gpuscaler_cost_unmeasured_per_hour{`+labels+`} 0
`))
	if err != nil {
		t.Error(err)
	}
}

// The times of updates have fractions of a second, which Prometheus rounds to milliseconds. If Update did not truncate these times to
// seconds, Prometheus could round the time of the only step to a time outside the window.
func TestUpdateSucceedsInEveryFractionOfASecond(t *testing.T) {
	l := liveOn(t, busyHalf)
	for at := time.Unix(1800, 0); at.Before(time.Unix(1800, 1e6)); at = at.Add(50 * time.Microsecond) {
		if err := l.Update(t.Context(), at); err != nil {
			t.Errorf("%v: %v", at.Sub(time.Unix(1800, 0)), err)
		}
	}
}

// Without a price, the collector exports the number of GPUs but no cost, because an unknown cost is not 0. After a failed update, the
// last result is returned until it is older than maxAge.
func TestOldCostIsNotReturned(t *testing.T) {
	l := liveOn(t, busyHalf)
	now := time.Unix(1800, 0)
	if err := l.Update(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	c := NewCollector(l, func() time.Time { return now })
	if n := testutil.CollectAndCount(c, "gpuscaler_cost_gpus"); n != 1 {
		t.Errorf("%d lines of GPUs, want 1", n)
	}
	if n := testutil.CollectAndCount(c, "gpuscaler_cost_per_hour", "gpuscaler_cost_idle_per_hour"); n != 0 {
		t.Errorf("%d lines of dollars without a price", n)
	}
	down, end := context.WithCancel(t.Context())
	end()
	if err := l.Update(down, now.Add(time.Minute)); err == nil {
		t.Fatal("an update without an answer succeeded")
	}
	if _, ok := l.Current(now.Add(4 * time.Minute)); !ok {
		t.Error("a failed update deleted the last result")
	}
	if _, ok := l.Current(now.Add(6 * time.Minute)); ok {
		t.Error("a result that is six minutes old is returned as the current one")
	}
}

func TestCollectorWithoutAServerExportsNothing(t *testing.T) {
	l := NewLive(func() (Input, bool) { return Input{}, false }, slog.New(slog.DiscardHandler))
	if err := l.Update(t.Context(), time.Unix(1800, 0)); err != nil {
		t.Error(err)
	}
	if n := testutil.CollectAndCount(NewCollector(l, func() time.Time { return time.Unix(1800, 0) })); n != 0 {
		t.Errorf("%d metrics", n)
	}
}

func TestRepeatedFailureIsLoggedOnce(t *testing.T) {
	var text strings.Builder
	l := NewLive(nil, slog.New(slog.NewTextHandler(&text, nil)))
	for _, err := range []error{errors.New("refused"), errors.New("refused"), nil, nil, ErrNoGPUs, ErrNoGPUs} {
		l.logChange(t.Context(), err)
	}
	if lines := strings.Count(text.String(), "\n"); lines != 3 {
		t.Errorf("%d lines, want a failure, its end and the next:\n%s", lines, text.String())
	}
}
