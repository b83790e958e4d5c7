package cost

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// profile is one way to cut a GPU, from NVIDIA's MIG user guide ("Supported MIG Profiles").
type profile struct {
	name      string
	compute   int     // of the GPU's compute slices
	memoryMiB float64 // what a program finds, rounded down from the guide
	most      int     // instances of it on one GPU
}

// board is a GPU that can be cut. Where a name stands for several sizes of memory, the memory tells them apart.
type board struct {
	name      string
	memoryMiB float64 // at most, of this variant
	compute   int
	profiles  []profile
}

const gib = 1024.0

func sevenths(memory ...float64) []profile {
	name := func(g int, m float64) string { return fmt.Sprintf("%dg.%.0fgb", g, m) }
	// A slice has a little less than its name says: what ECC and the driver keep.
	usable := func(m float64) float64 { return m * gib * 0.93 }
	return []profile{
		{name(1, memory[0]), 1, usable(memory[0]), 7}, {name(1, memory[1]), 1, usable(memory[1]), 4}, {name(2, memory[1]), 2, usable(memory[1]), 3},
		{name(3, memory[2]), 3, usable(memory[2]), 2}, {name(4, memory[2]), 4, usable(memory[2]), 1},
	}
}

var boards = []board{
	{"A30", 25 * gib, 4, []profile{{"1g.6gb", 1, 5.5 * gib, 4}, {"2g.12gb", 2, 11 * gib, 2}}},
	{"A100", 42 * gib, 7, sevenths(5, 10, 20)},
	{"A100", 85 * gib, 7, sevenths(10, 20, 40)},
	{"H100", 85 * gib, 7, sevenths(10, 20, 40)},
	{"H100", 100 * gib, 7, sevenths(12, 24, 47)},
	{"H200", 150 * gib, 7, sevenths(18, 35, 71)},
	{"B200", 200 * gib, 7, sevenths(23, 45, 90)},
}

// Compute is how many compute slices a GPU of the model is cut into: 7, or 4 for the A30.
func Compute(model string) int {
	for _, b := range boards {
		if hasWord(model, b.name) {
			return b.compute
		}
	}
	return 7
}

// computeOf reads the slices from a profile's name, "3g.40gb" or "1g.10gb+me". A name that cannot be read is the smallest slice.
func computeOf(name string) int {
	digits, _, ok := strings.Cut(name, "g.")
	if n, err := strconv.Atoi(strings.TrimPrefix(digits, "MIG ")); ok && err == nil && n >= 1 && n <= 7 {
		return n
	}
	return 1
}

// hasWord finds "A100" in "NVIDIA A100-SXM4-80GB", and "A30" not in "A3000".
func hasWord(model, word string) bool {
	i := strings.Index(model, word)
	if i < 0 {
		return false
	}
	rest := model[i+len(word):]
	return (rest == "" || rest[0] < '0' || rest[0] > '9') && !strings.HasPrefix(model[:i], "G") && (i == 0 || model[i-1] == ' ' || model[i-1] == '-')
}

func profilesOf(model string, memoryMiB float64) []profile {
	for _, b := range boards {
		if hasWord(model, b.name) && memoryMiB > 0 && memoryMiB <= b.memoryMiB {
			return b.profiles
		}
	}
	return nil
}

// Head-room that a slice must leave over the greatest that was seen.
const (
	// memoryRoom: a program that runs out of framebuffer dies, so a tenth stays free.
	memoryRoom = 1.1
	// computeRoom: a slice that is busier than this on its busiest step has a queue where a whole GPU had none.
	computeRoom = 0.8
	// leastHours of GPU time show what a workload needs; a pod of ten minutes shows what it needs to start.
	leastHours = 6.0
)

// SliceAdvice is a workload on whole GPUs that would fit a MIG slice.
type SliceAdvice struct {
	Namespace    string  `json:"namespace"`
	Workload     string  `json:"workload"`
	Model        string  `json:"model"`
	Profile      string  `json:"profile"`      // the resource is nvidia.com/mig-<profile>
	PeakMiB      float64 `json:"peakMiB"`      // greatest framebuffer use of one of its GPUs
	PeakActivity float64 `json:"peakActivity"` // greatest activity over one step, of the whole GPU
	GPUHours     float64 `json:"gpuHours"`
	Cost         float64 `json:"cost"`   // of those that have a price
	Saves        float64 `json:"saves"`  // of it, once the rest of the GPU serves others
	Priced       bool    `json:"priced"` // false: what it saves is not known
}

// Slices finds the workloads that would fit a slice, the greatest saving first. Not judged: pods with several GPUs (MIG instances
// do not talk to each other over NVLink), GPUs that are cut or shared already, and whose activity or memory is not known throughout.
func (l *Ledger) Slices() (out []SliceAdvice) {
	type work struct{ namespace, workload string }
	all := map[work]*podUse{}
	// In one order, so that the sums come out the same to the last bit.
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
		if u.shared || u.unknown || len(u.devices) != 1 || u.gpuHours < leastHours {
			continue
		}
		fit, ok := smallest(u)
		if !ok {
			continue
		}
		out = append(out, SliceAdvice{Namespace: w.namespace, Workload: w.workload, Model: u.model, Profile: fit.name, PeakMiB: u.peakMiB,
			PeakActivity: u.peakActivity, GPUHours: u.gpuHours, Cost: u.dollars, Saves: u.dollars * (1 - 1/float64(fit.most)), Priced: u.priced})
	}
	slices.SortFunc(out, func(a, b SliceAdvice) int {
		return cmp.Or(cmp.Compare(b.Saves, a.Saves), cmp.Compare(b.GPUHours, a.GPUHours), cmp.Compare(a.Namespace+"/"+a.Workload, b.Namespace+"/"+b.Workload))
	})
	return out
}

// smallest is the profile with most instances on a GPU in which the use fits.
func smallest(u *podUse) (best profile, ok bool) {
	for _, p := range profilesOf(u.model, u.memoryMiB) {
		busy := u.peakActivity * float64(Compute(u.model)) / float64(p.compute)
		if u.peakMiB*memoryRoom <= p.memoryMiB && busy <= computeRoom && p.most > max(best.most, 1) {
			best, ok = p, true
		}
	}
	return best, ok
}
