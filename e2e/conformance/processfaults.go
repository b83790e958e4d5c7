package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/gpuscaler/gpuscaler/e2e/conformance/lab"
	"github.com/gpuscaler/gpuscaler/e2e/faults"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
)

// processFaults are failures of the adapter's processes.
var processFaults = []fault{
	{name: "leader-killed", what: "The process that serves is killed; its container restarts after 1 s.", inject: serving(kill)},
	{name: "leader-paused", what: "The process that serves is suspended for longer than its Lease.", inject: serving(suspend),
		hold: 25 * time.Second},
	{name: "leader-stutters", what: "The process that serves runs for only 100 ms of each second, as with too little CPU.",
		inject: serving(stutter)},
	{name: "leader-drained", what: "The pod that serves is deleted and receives SIGTERM, as in a drain of its node.",
		inject: needs(func(p lab.Parts) func(context.Context) error { return p.Drain })},
	{name: "leader-lost", what: "The node of the pod that serves fails: the process is killed and the pod is deleted at once.",
		inject: needs(func(p lab.Parts) func(context.Context) error { return p.Lose })},
	{name: "standby-killed", what: "The replica that does not serve is killed.", inject: standby(kill)},
	{name: "all-killed", what: "All processes of the adapter are killed.", inject: everyProcess(kill)},
	{name: "all-paused", what: "All processes of the adapter are suspended.", inject: everyProcess(suspend)},
	{name: "rollout", what: "All pods of the adapter are replaced.",
		inject: needs(func(p lab.Parts) func(context.Context) error { return p.Rollout })},
	{name: "disk-full", what: "No process of the adapter can write to a file (RLIMIT_FSIZE 0).",
		inject: everyProcess(limited(fileSize, func(int) (uint64, error) { return 0, nil }))},
	{name: "files-exhausted", what: "The process that serves cannot open more files or connections (RLIMIT_NOFILE).",
		inject: serving(limited(descriptors, openFiles))},
	{name: "keda-operator-restarted", what: "KEDA's operator is killed and restarts after 1 s.", inject: operator(kill)},
	{name: "keda-operator-frozen", what: "KEDA's operator is suspended.", inject: operator(suspend)},
}

// combinedFaults are combinations of two faults at the same time.
var combinedFaults = []fault{
	{name: "blind-and-killed", what: "The process that serves is killed while Prometheus refuses connections.",
		inject: both(network(prometheusLink, (*faults.TCP).Refuse), serving(kill))},
	{name: "blind-and-emptied", what: "All processes of the adapter are killed while Prometheus responds without series.",
		inject: both(answers(faults.Empty), everyProcess(kill))},
	{name: "killed-without-apiserver", what: "The process that serves is killed while the API server is suspended.",
		inject: both(serving(kill), component("kube-apiserver", suspend))},
}

// kill kills a process. Its supervisor restarts it after 1 s.
func kill(_ *lab.Lab, p *stack.Process) (repair, error) {
	p.Kill()
	return nil, nil
}

func serving(act action) inject {
	return pick(act, func(p lab.Parts) func(context.Context) (*stack.Process, error) { return p.Serving }, errNotStarted)
}

func standby(act action) inject {
	return pick(act, func(p lab.Parts) func(context.Context) (*stack.Process, error) { return p.Standby },
		"each of its programs has one replica")
}

func operator(act action) inject {
	return pick(act, func(p lab.Parts) func(context.Context) (*stack.Process, error) { return p.Operator }, "KEDA does not run")
}

// pick applies an action to one process of the adapter. The parameter which returns the function that finds the process, or nil if the
// adapter has no such process. In this case, the fault returns the error reason.
func pick(act action, which func(lab.Parts) func(context.Context) (*stack.Process, error), reason lab.NotApplicable) inject {
	return func(ctx context.Context, l *lab.Lab) (repair, error) {
		find := which(l.Parts)
		if find == nil {
			return nil, reason
		}
		p, err := find(ctx)
		if err != nil {
			return nil, err
		}
		return act(l, p)
	}
}

// everyProcess applies an action to all processes of the adapter.
func everyProcess(act action) inject {
	return func(ctx context.Context, l *lab.Lab) (repair, error) {
		if l.Parts.All == nil {
			return nil, errNotStarted
		}
		every, err := l.Parts.All(ctx)
		if err != nil {
			return nil, err
		}
		var repairs []repair
		for _, p := range every {
			r, err := act(l, p)
			if err != nil {
				return nil, err
			}
			if r != nil {
				repairs = append(repairs, r)
			}
		}
		if len(repairs) == 0 {
			return nil, nil
		}
		return func(ctx context.Context) (err error) {
			for _, r := range repairs {
				err = errors.Join(err, r(ctx))
			}
			return err
		}, nil
	}
}

// needs injects a fault by calling a function of the adapter. The parameter which returns this function from lab.Parts. If the function is
// nil, the fault does not apply to the adapter.
func needs(which func(lab.Parts) func(context.Context) error) inject {
	return func(ctx context.Context, l *lab.Lab) (repair, error) {
		do := which(l.Parts)
		if do == nil {
			return nil, errNotStarted
		}
		return nil, do(ctx)
	}
}

// stutter suspends a process for 900 ms of each second, until the fault ends.
func stutter(_ *lab.Lab, p *stack.Process) (repair, error) {
	ended, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			_ = p.Signal(syscall.SIGSTOP) // the process may have ended
			time.Sleep(900 * time.Millisecond)
			_ = p.Signal(syscall.SIGCONT)
			select {
			case <-ended:
				return
			case <-time.After(100 * time.Millisecond):
			}
		}
	}()
	return func(context.Context) error { close(ended); <-stopped; return nil }, nil
}

// openFiles returns the number of files and connections that a process has open.
func openFiles(pid int) (uint64, error) {
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	return uint64(len(entries)), err
}
