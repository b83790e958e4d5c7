package usage

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuscaler/gpuscaler/pkg/cost"
)

var (
	perLine = []string{"cluster", "team", "namespace", "workload", "use", "instance_type", "capacity_type"}

	costGPUs = describe("cost_gpus", "GPUs that are paid for, by who holds them and what they are. Use tells held by a pod from what no pod holds.", perLine)
	costIdle = describe("cost_idle_gpus", "GPUs of these that did nothing over the last two minutes: two that are half busy are one.", perLine)
	hourly   = describe("cost_per_hour", "Dollars an hour; absent where no price is known.", perLine)
	// One series for each way to tell, since a sum over two of them would count twice what each is a part of.
	hourlyIdle       = describe("cost_idle_per_hour", "Cost of idle GPUs per hour, by the basis of the measurement: activity, memory, unallocated.", append(perLine[:len(perLine):len(perLine)], "basis"))
	hourlyUnmeasured = describe("cost_unmeasured_per_hour", "Dollars an hour of which it is not known whether they are idle.", perLine)
	costAt           = describe("cost_timestamp_seconds", "When what GPUs cost was last known, Unix time.", nil)
)

func describe(name, help string, labels []string) *prometheus.Desc {
	return prometheus.NewDesc("gpuscaler_"+name, help, labels, nil)
}

// Collector exports what GPUs cost at present, to charge it to whom it belongs.
type Collector struct {
	live  *Live
	clock func() time.Time
}

// NewCollector returns a collector of what live knows.
func NewCollector(live *Live, clock func() time.Time) *Collector { return &Collector{live, clock} }

// Describe sends every metric's description.
func (c *Collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{costGPUs, costIdle, hourly, hourlyIdle, hourlyUnmeasured, costAt} {
		out <- d
	}
}

// Collect sends a line for each namespace, workload and kind of machine; none where nothing is known.
func (c *Collector) Collect(out chan<- prometheus.Metric) {
	b, ok := c.live.Present(c.clock())
	if !ok {
		return
	}
	send := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	send(costAt, float64(b.To.UnixMilli())/1000)
	hours := b.To.Sub(b.From).Hours()
	for _, l := range withoutOwners(b.Lines) {
		labels := []string{l.Cluster, l.Team, l.Namespace, l.Workload, string(l.Use), l.InstanceType, l.CapacityType}
		send(costGPUs, l.GPUHours/hours, labels...)
		send(costIdle, l.IdleGPUHours/hours, labels...)
		if !l.Priced() {
			continue
		}
		send(hourly, l.Cost/hours, labels...)
		send(hourlyUnmeasured, l.Unmeasured/hours, labels...)
		for basis, v := range map[string]float64{"activity": l.IdleByActivity, "memory": l.IdleByMemory, "unallocated": l.Unallocated} {
			if v > 0 {
				send(hourlyIdle, v/hours, append(labels, basis)...)
			}
		}
	}
}

// withoutOwners joins the lines that differ in the person alone: who runs a notebook stands in a report, not in everybody's dashboard.
func withoutOwners(lines []cost.Line) []*cost.Line {
	at, out := map[cost.Line]*cost.Line{}, []*cost.Line(nil)
	for i := range lines {
		l := lines[i]
		l.Owner, l.Sum = "", cost.Sum{}
		have := at[l]
		if have == nil {
			have = &cost.Line{}
			*have = l
			at[l], out = have, append(out, have)
		}
		have.Add(&lines[i].Sum)
	}
	return out
}
