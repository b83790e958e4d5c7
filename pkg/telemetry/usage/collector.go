package usage

import (
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuscaler/gpuscaler/pkg/cost"
)

var (
	perLine  = []string{"cluster", "team", "namespace", "workload", "use", "instance_type", "capacity_type"}
	perBasis = slices.Concat(perLine, []string{"basis"})

	costGPUs = describe("cost_gpus", "GPUs that are paid for, by the workload that holds them and by their use.", perLine)
	costIdle = describe("cost_idle_gpus",
		"GPUs of these that were idle over the last two minutes; two GPUs with an activity of 50% count as one.", perLine)
	hourly = describe("cost_per_hour", "Dollars per hour; absent where no price is known.", perLine)
	// Each dollar of idle cost has exactly one basis (activity, memory or unallocated). The sum of this metric over all bases therefore counts
	// each dollar once.
	hourlyIdle = describe("cost_idle_per_hour",
		"Dollars per hour for idle GPUs, by what shows that they are idle: activity, memory or unallocated (no pod holds the GPU).", perBasis)
	hourlyUnmeasured = describe("cost_unmeasured_per_hour",
		"Dollars per hour for GPUs of which it is not known whether they are idle.", perLine)
	costAt = describe("cost_timestamp_seconds", "Time of the newest known cost of GPUs, in Unix seconds.", nil)
)

func describe(name, help string, labels []string) *prometheus.Desc {
	return prometheus.NewDesc("gpuscaler_"+name, help, labels, nil)
}

// Collector exports the current cost of GPUs by namespace and workload.
type Collector struct {
	live  *Live
	clock func() time.Time
}

// NewCollector returns a collector that exports the latest result of the parameter live. clock returns the current time.
func NewCollector(live *Live, clock func() time.Time) *Collector { return &Collector{live, clock} }

// Describe implements prometheus.Collector.
func (c *Collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{costGPUs, costIdle, hourly, hourlyIdle, hourlyUnmeasured, costAt} {
		out <- d
	}
}

// Collect implements prometheus.Collector. It sends no metrics if the cost is not known.
func (c *Collector) Collect(out chan<- prometheus.Metric) {
	b, ok := c.live.Current(c.clock())
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

// withoutOwners merges the lines that differ only in the owner. The owner is the user of a notebook. A report contains the owner, but
// metrics do not, because every team can read a dashboard.
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
