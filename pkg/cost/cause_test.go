package cost

import (
	"reflect"
	"testing"
	"time"
)

// One machine with four GPUs costs $8 per hour. Two GPUs run replicas that a schedule floor keeps (25% and 50% active), one GPU runs an
// idle notebook without a policy, and one GPU has no pod.
func TestIdleCausesNameTheRule(t *testing.T) {
	hour := Interval{At: time.Unix(3600, 0), Hours: 1, Nodes: []Node{{
		Name: "n", Offer: Offer{InstanceType: "g6e.12xlarge", CapacityType: Spot}, Observed: Price{Hourly: 8, From: "Karpenter"}, GPUs: 4,
		Devices: []Device{
			device("a", "chat", "llama", Of(0.25)), device("b", "chat", "qwen", Of(0.5)), device("c", "lab", "notebook", Of(0)),
			{ID: "d", Slices: []Slice{{}}},
		},
	}}}
	l := NewLedger(Options{})
	l.Add(hour)
	b := l.Bill(Period{From: time.Unix(0, 0), To: time.Unix(3600, 0), Step: time.Hour})
	got := b.IdleCauses(func(namespace, _ string) string {
		if namespace == "chat" {
			return "schedule floor"
		}
		return ""
	})
	want := []IdleCause{
		{Name: "allocated and idle: schedule floor", Workloads: []string{"chat/llama", "chat/qwen"}, GPUs: 1.25, PerHour: 2.5},
		{Name: "allocated and idle: no policy", Workloads: []string{"lab/notebook"}, GPUs: 1, PerHour: 2},
		{Name: "not used by any pod: g6e.12xlarge spot", GPUs: 1, PerHour: 2},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v\nwant %+v", got, want)
	}
	if sum := got[0].PerHour + got[1].PerHour + got[2].PerHour; sum != b.Total.Idle() {
		t.Errorf("the causes sum to %g, idle is %g", sum, b.Total.Idle())
	}
}

// A GPU without measurements is neither busy nor idle. An idle GPU without a price counts as idle, but adds no cost.
func TestIdleCausesOfUnmeasuredAndUnpricedGPUs(t *testing.T) {
	l := NewLedger(Options{})
	l.Add(Interval{At: time.Unix(3600, 0), Hours: 1, Nodes: []Node{{Name: "n", GPUs: 2, Devices: []Device{
		device("a", "chat", "llama", Fraction{}), device("b", "chat", "llama", Of(0)),
	}}}})
	b := l.Bill(Period{From: time.Unix(0, 0), To: time.Unix(3600, 0), Step: time.Hour})
	got := b.IdleCauses(func(string, string) string { return "bounds" })
	want := []IdleCause{{Name: "allocated and idle: bounds", Workloads: []string{"chat/llama"}, GPUs: 1}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v\nwant %+v", got, want)
	}
}

func device(id, namespace, workload string, activity Fraction) Device {
	return Device{ID: id, Slices: []Slice{{Pods: []Pod{{Namespace: namespace, Name: workload + "-0", Workload: workload}},
		Activity: activity}}}
}
