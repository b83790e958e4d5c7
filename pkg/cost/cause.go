package cost

import (
	"cmp"
	"slices"
	"strings"
)

// IdleCause is one reason for paying for GPUs that do nothing.
type IdleCause struct {
	Name      string
	Workloads []string // "namespace/workload", the dearest first; nobody's where no pod holds the GPUs
	GPUs      float64  // that did nothing, on average: two that are half busy are one
	PerHour   float64  // dollars, of those with a known price
}

// IdleCauses says why GPUs that were paid for did nothing, the dearest cause first. What a workload held goes by what keeps its
// replicas, which why tells ("schedule floor"; empty: nobody knows); what no pod held goes by its machine. The dollars sum to the bill's
// Idle over its hours.
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
		if l.Use == Held {
			parts[name][l.Namespace+"/"+l.Workload] += cmp.Or(l.Idle(), l.IdleGPUHours) // without a price the GPUs decide
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
	if l.Use != Held {
		words := map[Use]string{Free: "held by no pod", Unsliced: string(Unsliced), Committed: string(Committed)}
		machine := strings.TrimSpace(l.InstanceType + " " + l.CapacityType)
		return words[l.Use] + ": " + cmp.Or(machine, "machines of unknown type")
	}
	if text := why(l.Namespace, l.Workload); text != "" {
		return "held and not busy: " + text
	}
	return "held and not busy: no policy"
}
