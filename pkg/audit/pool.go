package audit

import (
	"math"
	"time"
)

// StuckNodeAge is the time after which a free node counts as stuck. Karpenter removes a free node earlier, unless something prevents it.
const StuckNodeAge = 30 * time.Minute

// poolAccount contains the GPU time in which no pod held a GPU of a pool, by cause.
type poolAccount struct {
	ledger Ledger
	costOf Ledger
	hours  float64 // hours in which the number of free GPUs is known
	paid   float64 // GPU hours of all nodes of the pool in these hours
	priced bool
}

// poolAccount returns the GPU time in which no pod held a GPU of the pool, by cause.
func (s *Snapshot) poolAccount(p *Pool) (out poolAccount) {
	out.priced = p.PriceFrom != ""
	step := s.Step / 3600
	free := make([]float64, s.Steps)
	for i := range free {
		free[i] = p.GPUs.at(i) - s.heldIn(p.Name, i)
	}
	stuck := s.stuck(free, max(1, float64(p.PerNode)))
	for i, f := range free {
		if math.IsNaN(f) {
			continue
		}
		out.hours += step
		out.paid += p.GPUs.at(i) * step
		f = max(0, f) // f is negative if a scrape contains a pod earlier than its node
		out.ledger[StuckNode] += min(f, stuck[i]) * step
		out.ledger[NodeChange] += (f - min(f, stuck[i])) * step
	}
	if out.priced {
		out.costOf = out.ledger.scaled(p.Hourly)
	}
	return out
}

// heldIn returns the number of GPUs that all pods hold in a pool in step i. The result is NaN if the number of any workload is unknown.
func (s *Snapshot) heldIn(pool string, i int) (sum float64) {
	add := func(parts []Held) {
		for k := range parts {
			if parts[k].Pool == pool {
				sum += parts[k].GPUs.at(i)
			}
		}
	}
	for k := range s.Workloads {
		if len(s.Workloads[k].Held) == 0 { // without data about this workload, its pods may be in this pool, so the sum is unknown
			return math.NaN()
		}
		add(s.Workloads[k].Held)
	}
	add(s.Other)
	return sum
}

// stuck returns, for each step, the number of GPUs on stuck nodes: whole nodes that are free for at least StuckNodeAge, in a time that
// includes the step. The parameter node is the number of GPUs of a node.
func (s *Snapshot) stuck(free []float64, node float64) []float64 {
	out := make([]float64, len(free))
	least := max(1, int(StuckNodeAge/s.step()))
	for level := node; ; level += node {
		found := false
		for i := 0; i < len(free); {
			end := i
			for end < len(free) && free[end] >= level-1e-9 {
				end++
			}
			if end-i >= least {
				found = true
				for k := i; k < end; k++ {
					out[k] = level
				}
			}
			i = end + 1
		}
		if !found {
			return out
		}
	}
}
