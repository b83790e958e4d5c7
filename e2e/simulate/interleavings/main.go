// Command interleavings explores every order of the events around one override, up to a number of actions. The events are actions of two
// replicas, the owner of a NodePool, Karpenter and a pod, changes of the policy files, crashes, lost and late requests, and time. The
// product's own code decides and creates the requests, and a model of the API server executes them. A state that was reached before is
// not explored again. See ../../README.md.
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"time"
)

func main() {
	depth := flag.Int("depth", 6, "number of actions")
	only := flag.Int("from", 0, "explore from this beginning only: 1, 2 or 3; 0: from each")
	flag.Parse()
	m := newModel()
	for i := range numBeginnings {
		if (*only == 0 || *only == i+1) && !run(m, m.beginning(i), *depth) {
			os.Exit(1)
		}
	}
}

// run explores the states that follow the initial state from, and prints the result of each depth. It returns false after a violation.
func run(m *model, from beginning, depth int) bool {
	fmt.Printf("%s:\n  depth     states transitions  seconds  CPU seconds      MiB\n", from.name)
	began, used := time.Now(), cpu()
	e := start(m, from.state)
	for e.depth < depth {
		ended := showProgress(e)
		e.deepen()
		ended()
		if f := e.found.Load(); f != nil {
			m.report(os.Stdout, from, f)
			return false
		}
		var memory runtime.MemStats
		runtime.ReadMemStats(&memory)
		fmt.Printf("  %5d %10d %11d %8.1f %12.1f %8d\n", e.depth, e.states, e.transitions.Load(), time.Since(began).Seconds(),
			(cpu() - used).Seconds(), memory.Sys>>20)
	}
	return true
}

// cpu returns the CPU time that this process has used so far.
func cpu() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// progressInterval is the time between two lines about the progress of a depth.
const progressInterval = 10 * time.Second

// showProgress prints the progress of the current depth and an estimate of the remaining time, if the standard error is a terminal. The
// caller must call the result ended when the depth is complete.
func showProgress(e *exploration) (ended func()) {
	if info, err := os.Stderr.Stat(); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return func() {}
	}
	done, began, all := make(chan struct{}), time.Now(), int64(len(e.level))
	go func() {
		ticker := time.NewTicker(progressInterval)
		defer ticker.Stop()
		for {
			select {
			case <-done:
				return
			case <-ticker.C:
				n := e.expanded.Load()
				left := time.Duration(float64(time.Since(began)) / float64(max(n, 1)) * float64(all-n))
				fmt.Fprintf(os.Stderr, "  depth %d: %d of %d states, %s left\n", e.depth+1, n, all, left.Round(time.Second))
			}
		}
	}()
	return func() { close(done) }
}
