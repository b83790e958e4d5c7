package cost

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// profile is a MIG profile, from "Supported MIG Profiles" in NVIDIA's MIG user guide.
type profile struct {
	name      string
	compute   int     // number of compute slices
	memoryMiB float64 // memory that a program can use, rounded down
	instances int     // maximum number of instances on one GPU
}

// migModel is a GPU model that supports MIG. For a model with different memory sizes, there is one migModel with the same name for each
// size.
type migModel struct {
	name      string
	memoryMiB float64 // this entry applies to GPUs with at most this memory
	compute   int
	profiles  []profile
}

const gib = 1024.0

// sevenths returns the profiles of a GPU with seven compute slices. The three values of memory are the sizes in GB of a 1g, a 2g and a 3g
// instance.
func sevenths(memory ...float64) []profile {
	name := func(g int, m float64) string { return fmt.Sprintf("%dg.%.0fgb", g, m) }
	// ECC and the driver use a part of the memory. 93% is assumed to be available to programs.
	usable := func(m float64) float64 { return m * gib * 0.93 }
	return []profile{
		{name(1, memory[0]), 1, usable(memory[0]), 7},
		{name(1, memory[1]), 1, usable(memory[1]), 4},
		{name(2, memory[1]), 2, usable(memory[1]), 3},
		{name(3, memory[2]), 3, usable(memory[2]), 2},
		{name(4, memory[2]), 4, usable(memory[2]), 1},
	}
}

var migModels = []migModel{
	{"A30", 25 * gib, 4, []profile{{"1g.6gb", 1, 5.5 * gib, 4}, {"2g.12gb", 2, 11 * gib, 2}}},
	{"A100", 42 * gib, 7, sevenths(5, 10, 20)},
	{"A100", 85 * gib, 7, sevenths(10, 20, 40)},
	{"H100", 85 * gib, 7, sevenths(10, 20, 40)},
	{"H100", 100 * gib, 7, sevenths(12, 24, 47)},
	{"H200", 150 * gib, 7, sevenths(18, 35, 71)},
	{"B200", 200 * gib, 7, sevenths(23, 45, 90)},
}

// Compute returns the number of compute slices of a GPU model: 4 for the A30, otherwise 7.
func Compute(model string) int {
	for _, b := range migModels {
		if hasWord(model, b.name) {
			return b.compute
		}
	}
	return 7
}

// computeOf returns the number of compute slices of a MIG profile, for example 3 for "3g.40gb". It returns 1 for an unknown name.
func computeOf(name string) int {
	digits, _, ok := strings.Cut(name, "g.")
	if n, err := strconv.Atoi(strings.TrimPrefix(digits, "MIG ")); ok && err == nil && n >= 1 && n <= 7 {
		return n
	}
	return 1
}

// hasWord reports whether a model name contains a word. For example, "NVIDIA A100-SXM4-80GB" contains the word "A100", but "A3000" does not
// contain the word "A30".
func hasWord(model, word string) bool {
	i := strings.Index(model, word)
	if i < 0 {
		return false
	}
	rest := model[i+len(word):]
	begins := i == 0 || model[i-1] == ' ' || model[i-1] == '-'
	ends := rest == "" || rest[0] < '0' || rest[0] > '9'
	return begins && ends && !strings.HasPrefix(model[:i], "G")
}

func profilesOf(model string, memoryMiB float64) []profile {
	for _, b := range migModels {
		if hasWord(model, b.name) && memoryMiB > 0 && memoryMiB <= b.memoryMiB {
			return b.profiles
		}
	}
	return nil
}

// Limits for the advice to move a workload to a MIG slice.
const (
	// memoryMargin is a factor. A slice must have at least the used framebuffer times memoryMargin, because a program without free memory
	// crashes.
	memoryMargin = 1.1
	// maxSliceActivity is the highest acceptable activity of a slice, 0 to 1. A higher activity can delay requests.
	maxSliceActivity = 0.8
	// minGPUHours is the minimum number of GPU-hours of a workload for an advice. With fewer GPU-hours, the measurements may cover only the
	// startup of its pods.
	minGPUHours = 6.0
)

// SliceProposal recommends a MIG slice for a workload that uses whole GPUs and would fit in the slice.
type SliceProposal struct {
	Namespace    string  `json:"namespace"`
	Workload     string  `json:"workload"`
	Model        string  `json:"model"`
	Profile      string  `json:"profile"`      // the resource is nvidia.com/mig-<profile>
	PeakMiB      float64 `json:"peakMiB"`      // highest framebuffer use of one of the workload's GPUs
	PeakActivity float64 `json:"peakActivity"` // highest activity of a whole GPU in one interval
	GPUHours     float64 `json:"gpuHours"`
	Cost         float64 `json:"cost"`   // cost of the hours with a known price
	Saves        float64 `json:"saves"`  // the part of Cost that is saved if other workloads use the rest of the GPU
	Priced       bool    `json:"priced"` // false: no price is known, and Saves has no meaning
}

// SliceProposals returns the workloads that fit in a MIG slice, with the highest savings first. It omits pods with several GPUs (MIG
// instances have no NVLink), GPUs that are already partitioned or shared, and GPUs whose activity or memory use is unknown for a part of
// the period.
func (l *Ledger) SliceProposals() (out []SliceProposal) {
	type work struct{ namespace, workload string }
	all := map[work]*podUse{}
	// A fixed order makes the floating-point sums reproducible.
	keys := slices.SortedFunc(maps.Keys(l.pods), func(a, b podKey) int {
		return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name))
	})
	for _, k := range keys {
		p := l.pods[k]
		w := work{k.namespace, p.pod.Workload}
		if have := all[w]; have != nil {
			have.merge(p)
		} else {
			one := *p
			all[w] = &one
		}
	}
	for w, u := range all {
		if u.shared || u.unknown || len(u.devices) != 1 || u.gpuHours < minGPUHours {
			continue
		}
		fit, ok := smallest(u)
		if !ok {
			continue
		}
		out = append(out, SliceProposal{
			Namespace: w.namespace, Workload: w.workload, Model: u.model, Profile: fit.name,
			PeakMiB: u.peakMiB, PeakActivity: u.peakActivity, GPUHours: u.gpuHours,
			Cost: u.dollars, Saves: u.dollars * (1 - 1/float64(fit.instances)), Priced: u.priced,
		})
	}
	slices.SortFunc(out, func(a, b SliceProposal) int {
		return cmp.Or(cmp.Compare(b.Saves, a.Saves), cmp.Compare(b.GPUHours, a.GPUHours),
			cmp.Compare(a.Namespace+"/"+a.Workload, b.Namespace+"/"+b.Workload))
	})
	return out
}

// smallest returns the smallest profile in which the workload fits: the profile with the most instances on one GPU. ok is false if the
// workload fits in no profile.
func smallest(u *podUse) (best profile, ok bool) {
	for _, p := range profilesOf(u.model, u.memoryMiB) {
		busy := u.peakActivity * float64(Compute(u.model)) / float64(p.compute)
		if u.peakMiB*memoryMargin <= p.memoryMiB && busy <= maxSliceActivity && p.instances > max(best.instances, 1) {
			best, ok = p, true
		}
	}
	return best, ok
}
