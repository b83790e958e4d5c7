package spotbench

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/spotmarket"
)

// gone returns a spot trace of 6 hours with six available nodes, except in the second hour, in which no node is available.
func gone() *spotmarket.Trace {
	return &spotmarket.Trace{Name: "gone", Duration: 6 * time.Hour, Initial: 6,
		Events: []spotmarket.Event{{At: time.Hour, Lost: 6}, {At: 2 * time.Hour, Added: 6}}}
}

func TestFourReplicasOnAMarketWithAnOutage(t *testing.T) {
	c := Case{Spot: []*spotmarket.Trace{gone()}, Replicas: 4, SpotHourly: 1, OnDemandHourly: 3, ColdStart: 5 * time.Minute, Seed: 1}
	r, err := Compare(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if want := 4.0 * (5*1 + 1*3); math.Abs(r.Least-want) > 1e-9 {
		t.Errorf("the lowest cost is $%g, want $%g", r.Least, want)
	}
	by := map[string]Run{}
	for _, run := range r.Runs {
		by[run.Name] = run
		if run.Availability <= 0.9 || run.Availability > 1 || run.Availability == 1 && run.Cost < r.Least {
			t.Errorf("%s: %.3f available for $%.2f, the lowest cost is $%.2f", run.Name, run.Availability, run.Cost, r.Least)
		}
	}
	gpuscaler, karpenterOnly := by["gpuscaler"], by["Karpenter, weighted pools"]
	skyServe, onDemand := by["SkyServe, dynamic fallback"], by["on demand only"]
	if gpuscaler.Cost >= karpenterOnly.Cost || gpuscaler.Availability < karpenterOnly.Availability-0.001 {
		t.Errorf("gpuscaler %+v, Karpenter alone, which does not return to spot, %+v", gpuscaler, karpenterOnly)
	}
	if gpuscaler.Availability < skyServe.Availability || skyServe.Spot == 0 {
		t.Errorf("gpuscaler %+v, SkyServe %+v", gpuscaler, skyServe)
	}
	if onDemand.Availability != 1 || onDemand.Spot != 0 || math.Abs(onDemand.Cost-4*6*3) > 0.1 {
		t.Errorf("on demand only: %+v", onDemand)
	}
	if best := r.Runs[len(r.Runs)-1]; !strings.HasPrefix(best.Name, "SkyServe, 4 more") || best.Availability < targetAvailability {
		t.Errorf("all four nodes are lost at once, so only four more replicas keep the availability: %+v", best)
	}
	for _, run := range r.Runs {
		l := run.Ledger
		if paid := l.SpotHours*c.SpotHourly + l.OnDemandHours*c.OnDemandHourly; math.Abs(paid-run.Cost) > 0.01 ||
			l.Excess > l.OnDemandHours+0.01 || l.WithoutNode > l.Missing {
			t.Errorf("%s: $%.2f in the ledger, $%.2f paid: %+v", run.Name, paid, run.Cost, l)
		}
	}
	var text bytes.Buffer
	if err := r.WriteText(&text); err != nil || !strings.Contains(text.String(), "omniscient $32.00") {
		t.Errorf("%v\n%s", err, text.String())
	}
	t.Logf("\n%s", text.String())
}
