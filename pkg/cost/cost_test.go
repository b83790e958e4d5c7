package cost

import (
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var noon = time.Date(2026, 11, 16, 12, 0, 0, 0, time.UTC)

// book returns a price book with two instance types, of which one has a spot price.
func book() *Book {
	return NewBook([]Type{
		{Name: "g6e.12xlarge", Region: "us-east-1", GPUs: 4, Hourly: map[string]float64{OnDemand: 10, Spot: 4}, From: "list 2026-07-20"},
		{Name: "p5.48xlarge", Region: "us-east-1", GPUs: 8, Hourly: map[string]float64{OnDemand: 56}, From: "list 2026-07-20"},
	}, nil, nil)
}

func l40s(name, kind string, devices ...Device) Node {
	return Node{Name: name, Offer: Offer{InstanceType: "g6e.12xlarge", CapacityType: kind, Region: "us-east-1", Zone: "us-east-1a"},
		Devices: devices}
}

func gpu(id string, activity Fraction, pods ...Pod) Device {
	return Device{ID: id, Model: "NVIDIA L40S", MemoryMiB: 46068, Slices: []Slice{{Pods: pods, Activity: activity}}}
}

func pod(ns, workload string) Pod {
	return Pod{Namespace: ns, Name: workload + "-1", Workload: workload}
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*max(1, math.Abs(a), math.Abs(b)) }

func TestSourceOfThePrice(t *testing.T) {
	offer := Offer{InstanceType: "p5.48xlarge", CapacityType: OnDemand, Region: "us-east-1"}
	karpenter := Price{Hourly: 50, From: "karpenter"}
	spot := offer
	spot.CapacityType = Spot
	overlaid := func(change string) Offer {
		o := offer
		o.PriceChange = change
		return o
	}
	for _, c := range []struct {
		name     string
		offer    Offer
		observed Price
		override []Override
		want     Price
	}{
		{"the book", offer, Price{}, nil, Price{56, "list 2026-07-20"}},
		{"the price that Karpenter reports", offer, karpenter, nil, karpenter},
		{"0 from Karpenter means unknown", offer, Price{0, "karpenter"}, nil, Price{56, "list 2026-07-20"}},
		{"NaN from Karpenter is no price", offer, Price{math.NaN(), "karpenter"}, nil, Price{56, "list 2026-07-20"}},
		{"a negative price is no price", offer, Price{-1, "karpenter"}, nil, Price{56, "list 2026-07-20"}},
		{"an override is first", offer, karpenter, []Override{{"p5.48xlarge", OnDemand, "", 36.9}}, Price{36.9, "override"}},
		{"a NodeOverlay lowers the price that Karpenter reports", overlaid("-20%"), karpenter, nil, Price{40, "karpenter, NodeOverlay"}},
		{"a NodeOverlay adds to the price of the book", overlaid("+4"), Price{}, nil, Price{60, "list 2026-07-20, NodeOverlay"}},
		{"a NodeOverlay replaces the price", overlaid("12.5"), karpenter, nil, Price{12.5, "NodeOverlay"}},
		{"a price is never below 0", overlaid("-99"), karpenter, nil, Price{0, "karpenter, NodeOverlay"}},
		{"an invalid change has no effect", overlaid("20%"), karpenter, nil, karpenter},
		{"NaN has no effect", overlaid("+NaN"), karpenter, nil, karpenter},
		{"an override is not changed", overlaid("-20%"), karpenter, []Override{{"p5.48xlarge", OnDemand, "", 36.9}}, Price{36.9, "override"}},
		{"an override of 0", offer, karpenter, []Override{{"p5.48xlarge", OnDemand, "", 0}}, Price{0, "override"}},
		{"an override for another region", offer, Price{}, []Override{{"p5.48xlarge", OnDemand, "eu-west-1", 1}}, Price{56, "list 2026-07-20"}},
		{"no price for spot", spot, Price{}, nil, Price{}},
		{"no price for another region", Offer{InstanceType: "p5.48xlarge", CapacityType: OnDemand, Region: "eu-west-1"}, Price{}, nil, Price{}},
		{"an unknown instance type", Offer{InstanceType: "p6.large", CapacityType: OnDemand, Region: "us-east-1"}, Price{}, nil, Price{}},
		{"an empty offer", Offer{}, Price{}, nil, Price{}},
	} {
		if got := book().With(c.override, nil).Price(c.offer, c.observed); got != c.want || got.Known() != (c.want.From != "") {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// A machine with four GPUs runs for an hour at $10: one GPU is busy, one is idle, one has only a measurement of its memory, and one has
// no pod.
func TestBillOfOneMachine(t *testing.T) {
	byMemory := Device{ID: "c", Model: "NVIDIA L40S", Slices: []Slice{{Pods: []Pod{pod("research", "train")}, Memory: Of(0.4)}}}
	l := NewLedger(Options{Book: book(), Cluster: "prod", Teams: map[string]string{"chat": "assistants"}, Resolution: time.Hour})
	busy, idle, free := gpu("a", Of(0.8), pod("chat", "llama")), gpu("b", Of(0), pod("chat", "llama")), gpu("d", Fraction{})
	l.Add(Interval{At: noon, Hours: 1, Nodes: []Node{l40s("n", OnDemand, busy, idle, byMemory, free)}})
	b := l.Bill(Period{From: noon.Add(-time.Hour), To: noon, Step: time.Hour, Idle: time.Hour})
	want := Sum{GPUHours: 4, Cost: 10, Busy: 2 + 1, IdleByActivity: 0.5 + 2.5, IdleByMemory: 1.5, Unallocated: 2.5, MeasuredGPUHours: 2,
		ActivityGPUHours: 0.8}
	if !same(b.Total, want) {
		t.Errorf("total %+v, want %+v", b.Total, want)
	}
	if a := b.Total.Activity(); !a.Known || !near(a.Value, 0.4) {
		t.Errorf("activity of the measured GPUs: %+v", a)
	}
	if len(b.Teams) != 2 || b.Teams[0].Name != "assistants" || !near(b.Teams[0].Cost, 5) ||
		b.Teams[1].Name != "no team" || !near(b.Teams[1].Cost, 2.5) {
		t.Errorf("teams %+v", b.Teams)
	}
	if len(b.Namespaces) != 2 || b.Namespaces[0].Name != "chat" || !near(b.Namespaces[0].Idle(), 3) {
		t.Errorf("namespaces %+v", b.Namespaces)
	}
	if b.Lines[0].Cluster != "prod" || len(b.Series) != 1 || !b.Series[0].At.Equal(noon.Add(-time.Hour)) ||
		!near(b.Series[0].ByCapacityType[OnDemand], 10) {
		t.Errorf("lines %+v, series %+v", b.Lines, b.Series)
	}
}

func TestGPUWithoutMeasurementIsNotIdle(t *testing.T) {
	l := NewLedger(Options{Book: book()})
	l.Add(Interval{At: noon, Hours: 1, Nodes: []Node{l40s("new", Spot)}})
	if got := l.Bill(Period{}).Total; !same(got, Sum{GPUHours: 4, Cost: 4, Unmeasured: 4}) || got.Idle() != 0 {
		t.Errorf("%+v", got)
	}
}

func TestUnknownPriceIsNotZero(t *testing.T) {
	n := l40s("n", OnDemand, gpu("a", Of(0.5), pod("chat", "llama")))
	n.InstanceType = "x9.huge"
	l := NewLedger(Options{Book: book()})
	l.Add(Interval{At: noon, Hours: 2, Nodes: []Node{n}})
	b := l.Bill(Period{})
	if b.Total.Priced() || b.Total.UnpricedGPUHours != 2 || b.Total.Activity().Value != 0.5 ||
		len(b.Unpriced) != 1 || b.Unpriced[0].InstanceType != "x9.huge" {
		t.Errorf("%+v, %+v", b.Total, b.Unpriced)
	}
}

func TestPodsOfASharedGPUPayEqually(t *testing.T) {
	l := NewLedger(Options{Book: book()})
	l.Add(Interval{At: noon, Hours: 1, Nodes: []Node{l40s("n", OnDemand, gpu("a", Of(0.5), pod("x", "one"), pod("y", "two")))}})
	for _, g := range l.Bill(Period{}).Namespaces {
		if !near(g.Cost, 1.25) {
			t.Errorf("%s pays %g of 2.5", g.Name, g.Cost)
		}
	}
}

func TestMIGSlicesShareThePrice(t *testing.T) {
	partitioned := Device{ID: "u", Model: "NVIDIA H100 80GB HBM3", Slices: []Slice{
		{ID: "1", Profile: "3g.40gb", Pods: []Pod{pod("chat", "llama")}, Activity: Of(1)},
		{ID: "7", Profile: "1g.10gb", Activity: Of(0)},
	}}
	offer := Offer{InstanceType: "p5.48xlarge", CapacityType: OnDemand, Region: "us-east-1"}
	n := Node{Name: "h", Offer: offer, Devices: []Device{partitioned}}
	l := NewLedger(Options{Book: book()})
	l.Add(Interval{At: noon, Hours: 1, Nodes: []Node{n}})
	want := map[string]float64{string(Allocated): 3, string(Free): 1, string(Unpartitioned): 3, string(Unreported): 49}
	for _, g := range l.Bill(Period{}).Uses {
		if !near(g.Cost, want[g.Name]) {
			t.Errorf("%s costs %g, want %g", g.Name, g.Cost, want[g.Name])
		}
		delete(want, g.Name)
	}
	if len(want) > 0 {
		t.Errorf("missing %v", want)
	}
}

func TestCommitmentIsChargedWithoutInstance(t *testing.T) {
	three := book().With(nil, []Commitment{{InstanceType: "g6e.12xlarge", Count: 3, Hourly: 6}})
	l := NewLedger(Options{Book: three})
	busy := gpu("a", Of(1), pod("chat", "llama"))
	reserved, demand, spot := l40s("r", Reserved, busy), l40s("o", OnDemand, busy), l40s("s", Spot, busy)
	l.Add(Interval{At: noon, Hours: 1, Nodes: []Node{spot, demand, reserved}})
	b := l.Bill(Period{})
	if want := 3*6.0 + 4; !near(b.Total.Cost, want) {
		t.Errorf("cost %g, want three committed and one spot: %g", b.Total.Cost, want)
	}
	for _, u := range b.Uses {
		if u.Name == string(Committed) && (!near(u.Cost, 6) || !near(u.Unallocated, 6) || u.GPUHours != 4) {
			t.Errorf("the instance that does not run: %+v", u)
		}
	}
}

func TestSliceProposals(t *testing.T) {
	const h100 = "NVIDIA H100 80GB HBM3"
	for _, c := range []struct {
		name       string
		model      string
		memory     float64
		used       float64
		activity   Fraction
		gpus       int
		hours      int
		want       string
		savesShare float64
	}{
		{"a small model with low activity", h100, 81559, 7000, Of(0.08), 1, 12, "1g.10gb", 6.0 / 7},
		{"more memory", h100, 81559, 15000, Of(0.08), 1, 12, "1g.20gb", 3.0 / 4},
		{"more activity than one compute slice can serve", h100, 81559, 7000, Of(0.2), 1, 12, "2g.20gb", 2.0 / 3},
		{"half a GPU", h100, 81559, 30000, Of(0.3), 1, 12, "3g.40gb", 0.5},
		{"4g saves nothing: one instance per GPU", h100, 81559, 30000, Of(0.44), 1, 12, "", 0},
		{"a server that allocated all memory", h100, 81559, 73000, Of(0.05), 1, 12, "", 0},
		{"the A100 of 40 GB has smaller slices", "NVIDIA A100-SXM4-40GB", 40960, 7000, Of(0.08), 1, 12, "1g.10gb", 3.0 / 4},
		{"the A30 has four", "NVIDIA A30", 24576, 5000, Of(0.1), 1, 12, "1g.6gb", 3.0 / 4},
		{"H200", "NVIDIA H200", 143771, 15000, Of(0.05), 1, 12, "1g.18gb", 6.0 / 7},
		{"an L40S has no MIG", "NVIDIA L40S", 46068, 2000, Of(0.01), 1, 12, "", 0},
		{"an A10G is not an A100", "NVIDIA A10G", 23028, 2000, Of(0.01), 1, 12, "", 0},
		{"GH200 is not listed", "NVIDIA GH200 480GB", 97871, 2000, Of(0.01), 1, 12, "", 0},
		{"two GPUs", h100, 81559, 7000, Of(0.08), 2, 12, "", 0},
		{"too few GPU-hours", h100, 81559, 7000, Of(0.08), 1, 2, "", 0},
		{"unknown activity", h100, 81559, 7000, Fraction{}, 1, 12, "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			prices := []Type{{Name: "p", Region: "r", GPUs: 2, Hourly: map[string]float64{OnDemand: 4}}}
			l := NewLedger(Options{Book: NewBook(prices, nil, nil)})
			for h := range c.hours {
				n := Node{Name: "n", Offer: Offer{InstanceType: "p", CapacityType: OnDemand, Region: "r"}}
				for g := range c.gpus {
					whole := Slice{Pods: []Pod{pod("team", "work")}, Activity: c.activity, Memory: Of(c.used / c.memory), UsedMiB: c.used}
					n.Devices = append(n.Devices, Device{ID: fmt.Sprint(g), Model: c.model, MemoryMiB: c.memory, Slices: []Slice{whole}})
				}
				l.Add(Interval{At: noon.Add(time.Duration(h) * time.Hour), Hours: 1, Nodes: []Node{n}})
			}
			found := l.SliceProposals()
			switch {
			case c.want == "" && len(found) > 0:
				t.Errorf("advised %+v", found)
			case c.want != "" && (len(found) != 1 || found[0].Profile != c.want || !near(found[0].Saves, float64(c.hours)*2*c.savesShare)):
				t.Errorf("advised %+v, want %s saving %g", found, c.want, float64(c.hours)*2*c.savesShare)
			}
		})
	}
}

func TestIdleNotebooks(t *testing.T) {
	notebook := Pod{Namespace: "research", Name: "jupyter-ada", Workload: "jupyter-ada", Owner: "ada", Notebook: true}
	day := func(activity func(hour int) Fraction, p Pod, until int) *Ledger {
		l := NewLedger(Options{Book: book()})
		for h := range 24 {
			var devices []Device
			if h < until {
				devices = append(devices, gpu("a", activity(h), p))
			}
			l.Add(Interval{At: noon.Add(time.Duration(h+1) * time.Hour), Hours: 1, Nodes: []Node{l40s("n", OnDemand, devices...)}})
		}
		return l
	}
	morning := func(h int) Fraction {
		if h < 4 {
			return Of(0.6)
		}
		return Of(0.001)
	}
	found := day(morning, notebook, 24).IdleNotebooks(8 * time.Hour)
	if len(found) != 1 || found[0].Owner != "ada" || !found[0].IdleSince.Equal(noon.Add(4*time.Hour)) ||
		!near(found[0].Hourly, 2.5) || !near(found[0].Cost, 20*2.5) {
		t.Errorf("found %+v", found)
	}
	for name, l := range map[string]*Ledger{
		"deleted":      day(morning, notebook, 20),
		"a server":     day(morning, pod("research", "llama"), 24),
		"not measured": day(func(int) Fraction { return Fraction{} }, notebook, 24),
		"busy at noon": day(func(h int) Fraction { return Of(float64(h % 6)) }, notebook, 24),
	} {
		if found := l.IdleNotebooks(8 * time.Hour); len(found) > 0 {
			t.Errorf("%s: %+v", name, found)
		}
	}
}

// The lines add up to the prices of the machines, the parts of a line add up to its cost, and each GPU-hour is counted in exactly one line.
func TestPartsAddUpToTheTotal(t *testing.T) {
	fraction := rapid.Custom(func(t *rapid.T) Fraction {
		return rapid.SampledFrom([]Fraction{{}, Of(0), Of(1), Of(rapid.Float64Range(-1, 2).Draw(t, "v")), Of(math.NaN())}).Draw(t, "fraction")
	})
	anyPod := rapid.Custom(func(t *rapid.T) Pod {
		return pod(rapid.SampledFrom([]string{"a", "b"}).Draw(t, "ns"), rapid.SampledFrom([]string{"x", "y"}).Draw(t, "workload"))
	})
	slice := rapid.Custom(func(t *rapid.T) Slice {
		profile := rapid.SampledFrom([]string{"", "1g.10gb", "3g.40gb", "4g.40gb", "7g.80gb", "odd"}).Draw(t, "profile")
		return Slice{
			ID: profile, Profile: profile, Pods: rapid.SliceOfN(anyPod, 0, 3).Draw(t, "pods"),
			Activity: fraction.Draw(t, "activity"), Memory: fraction.Draw(t, "memory"),
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		commitments := rapid.SampledFrom([][]Commitment{nil, {{InstanceType: "p5.48xlarge", Count: 2, Hourly: 30}}})
		b := book().With(nil, commitments.Draw(t, "commitments"))
		l := NewLedger(Options{Book: b, Resolution: time.Hour})
		var dollars, hours float64
		for i := range rapid.IntRange(1, 4).Draw(t, "intervals") {
			m := Interval{At: noon.Add(time.Duration(i) * time.Hour), Hours: rapid.Float64Range(0.01, 2).Draw(t, "hours")}
			run := 0
			for j := range rapid.IntRange(0, 4).Draw(t, "nodes") {
				n := Node{Name: fmt.Sprint(j), Offer: Offer{rapid.SampledFrom([]string{"g6e.12xlarge", "p5.48xlarge", "", "odd"}).Draw(t, "type"),
					rapid.SampledFrom([]string{OnDemand, Spot, Reserved, ""}).Draw(t, "kind"), "us-east-1", "",
					rapid.SampledFrom([]string{"", "-20%", "+1", "3", "-NaN", "Inf"}).Draw(t, "price change")}}
				for d := range rapid.IntRange(0, 9).Draw(t, "devices") {
					parts := rapid.SliceOfN(slice, 0, 3).Draw(t, "slices")
					n.Devices = append(n.Devices, Device{ID: fmt.Sprint(d), Model: "NVIDIA H100", MemoryMiB: 81559, Slices: parts})
				}
				m.Nodes = append(m.Nodes, n)
				gpus := float64(max(len(n.Devices), b.GPUs(n.InstanceType)))
				hours += gpus * m.Hours
				committed := len(b.commitments) > 0 && n.InstanceType == "p5.48xlarge" && n.CapacityType != Spot
				if committed {
					run++
				}
				if p := b.Price(n.Offer, Price{}); !committed && p.Known() && gpus > 0 {
					dollars += p.Hourly * m.Hours
				}
			}
			if len(b.commitments) > 0 {
				if run > 2 {
					return // this test does not compute which machines the commitment covers
				}
				dollars += 2 * 30 * m.Hours
				hours += float64(2-run) * 8 * m.Hours
			}
			l.Add(m)
		}
		bill := l.Bill(Period{})
		s := bill.Total
		if !near(s.Cost, dollars) || !near(s.GPUHours, hours) {
			t.Fatalf("want $%g for %g GPU-hours, the bill has $%g for %g", dollars, hours, s.Cost, s.GPUHours)
		}
		var series Sum
		for i := range bill.Series {
			series.Add(&bill.Series[i].Sum)
		}
		if !same(series, s) {
			t.Fatalf("the series adds up to %+v, the lines to %+v", series, s)
		}
		for _, line := range append(bill.Lines, Line{Sum: s}) {
			if parts := line.Busy + line.Idle() + line.Unmeasured; !near(parts, line.Cost) {
				t.Fatalf("parts %g of %g in %+v", parts, line.Cost, line)
			}
			for _, v := range []float64{
				line.Busy, line.IdleByActivity, line.IdleByMemory, line.Unallocated, line.Unmeasured, line.GPUHours, line.UnpricedGPUHours,
			} {
				if !(v >= 0) {
					t.Fatalf("%g in %+v", v, line)
				}
			}
		}
	})
}

func same(a, b Sum) bool {
	return near(a.GPUHours, b.GPUHours) && near(a.UnpricedGPUHours, b.UnpricedGPUHours) && near(a.Cost, b.Cost) && near(a.Busy, b.Busy) &&
		near(a.IdleByActivity, b.IdleByActivity) && near(a.IdleByMemory, b.IdleByMemory) && near(a.Unallocated, b.Unallocated) &&
		near(a.Unmeasured, b.Unmeasured) && near(a.MeasuredGPUHours, b.MeasuredGPUHours) && near(a.ActivityGPUHours, b.ActivityGPUHours)
}

func BenchmarkWeekOf100GPUs(b *testing.B) {
	var nodes []Node
	for i := range 25 {
		var devices []Device
		for g := range 4 {
			devices = append(devices, gpu(fmt.Sprint(i, g), Of(0.5), pod("chat", fmt.Sprint("w", g))))
		}
		nodes = append(nodes, l40s(fmt.Sprint(i), OnDemand, devices...))
	}
	for b.Loop() {
		l := NewLedger(Options{Book: book(), Resolution: time.Hour})
		for s := range 7 * 24 * 12 {
			l.Add(Interval{At: noon.Add(time.Duration(s) * 5 * time.Minute), Hours: 1.0 / 12, Nodes: nodes})
		}
		l.Bill(Period{})
	}
}
