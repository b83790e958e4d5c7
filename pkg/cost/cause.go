package cost

import (
	"cmp"
	"slices"
	"strings"
)

// IdleCause is one reason why GPUs were idle, with the cost of these GPUs.
type IdleCause struct {
	Name      string
	Workloads []string // workloads as "namespace/workload", the most expensive first; empty: no pod uses the GPUs
	GPUs      float64  // mean number of idle GPUs; two GPUs that are 50% idle count as 1
	PerHour   float64  // dollars per hour, only for GPUs with a known price
}

// IdleCauses returns the reasons for idle GPUs, the most expensive first. For idle GPUs of a workload, the reason is the rule that
// determines the number of its replicas. The function why returns this rule, for example "schedule floor", or "" if the workload has no
// policy. For GPUs that no pod uses, the reason contains the instance type and the capacity type. The sum of PerHour is the idle cost per
// hour of the bill.
func (b *Bill) IdleCauses(why func(namespace, workload string) string) []IdleCause {
	hours := b.To.Sub(b.From).Hours()
	if !(hours > 0) {
		return nil
	}
	causes, parts := map[string]*IdleCause{}, map[string]map[string]float64{}
	for i := range b.Lines {
		l := &b.Lines[i]
		if l.IdleGPUHours <= 0 {
			continue
		}
		name := l.cause(why)
		c := causes[name]
		if c == nil {
			c = &IdleCause{Name: name}
			causes[name], parts[name] = c, map[string]float64{}
		}
		c.GPUs += l.IdleGPUHours / hours
		c.PerHour += l.Idle() / hours
		if l.Use == Allocated {
			parts[name][l.Namespace+"/"+l.Workload] += cmp.Or(l.Idle(), l.IdleGPUHours) // a workload without a price is sorted by its GPU-hours
		}
	}
	all := make([]IdleCause, 0, len(causes))
	for name, c := range causes {
		for workload := range parts[name] {
			c.Workloads = append(c.Workloads, workload)
		}
		slices.SortFunc(c.Workloads, func(x, y string) int {
			return cmp.Or(cmp.Compare(parts[name][y], parts[name][x]), cmp.Compare(x, y))
		})
		all = append(all, *c)
	}
	slices.SortFunc(all, func(x, y IdleCause) int {
		return cmp.Or(cmp.Compare(y.PerHour, x.PerHour), cmp.Compare(y.GPUs, x.GPUs), cmp.Compare(x.Name, y.Name))
	})
	return all
}

func (l *Line) cause(why func(namespace, workload string) string) string {
	if l.Use != Allocated {
		words := map[Use]string{Free: "not used by any pod", Unpartitioned: string(Unpartitioned), Committed: string(Committed)}
		machine := strings.TrimSpace(l.InstanceType + " " + l.CapacityType)
		return words[l.Use] + ": " + cmp.Or(machine, "unknown instance type")
	}
	if text := why(l.Namespace, l.Workload); text != "" {
		return "allocated and idle: " + text
	}
	return "allocated and idle: no policy"
}
