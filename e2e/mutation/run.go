package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A test is a test of a group, with its CPU time and the mutants that it reaches, both measured in a run without a mutant.
type test struct {
	program string
	dir     string // directory of its package, relative to the module
	name    string
	cost    time.Duration // CPU time
	reached map[int]bool
}

const (
	// slower limits the CPU time of a run with a mutant, as a multiple of the CPU time of the same tests without a mutant.
	slower = 10
	// waiting and starved limit the elapsed time of a run, which can be long with little CPU time if the run waits or the machine is busy. The
	// limit is waiting plus starved times the CPU time of the same tests without a mutant.
	waiting = 10 * time.Minute
	starved = 100
	// cheap is the CPU time below which a test is run together with other tests.
	cheap = 300 * time.Millisecond
	// memory limits the virtual memory of a run, in KiB. The test programs use less than 2 GiB.
	memory = 6 << 20
)

// measure runs each test without a mutant.
func (p *programs) measure(ctx context.Context, parallel int) error {
	fmt.Fprintf(os.Stderr, "running %d tests without a mutant\n", len(p.tests))
	return each(ctx, parallel, p.tests, func(t *test) error {
		file := filepath.Join(p.dir, filepath.Base(t.program)+"."+t.name)
		r := p.start(ctx, 0, []*test{t}, "MUTATION_REACHED="+file)
		if r.err != nil {
			return fmt.Errorf("%s of %s fails without a mutant: %w\n%s", t.name, t.dir, r.err, r.out)
		}
		t.cost, t.reached = r.cpu, map[int]bool{}
		b, err := os.ReadFile(file)
		if err != nil && !os.IsNotExist(err) {
			return err
		}
		for f := range strings.FieldsSeq(string(b)) {
			n, err := strconv.Atoi(f)
			if err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
			t.reached[n] = true
		}
		return nil
	})
}

// run runs each mutant and records its result.
func (p *programs) run(ctx context.Context, parallel int, r *record) error {
	for _, m := range p.invalid {
		if err := r.add(m); err != nil {
			return err
		}
	}
	return each(ctx, parallel, p.mutants, func(m *mutant) error {
		m.result = p.mutant(ctx, m)
		if ctx.Err() != nil {
			return nil
		}
		fmt.Fprintf(os.Stderr, "%-9s %s %s\n", m.result.Outcome, m, m.result.By)
		return r.add(m)
	})
}

// mutant runs the tests that reach a mutant until one test fails.
func (p *programs) mutant(ctx context.Context, m *mutant) result {
	began := time.Now()
	for _, tests := range p.batches(m) {
		r := p.start(ctx, m.id, tests)
		if r.err != nil {
			return result{Outcome: r.outcome(), By: r.by(tests), Seconds: time.Since(began).Seconds()}
		}
	}
	return result{Outcome: survived, Seconds: time.Since(began).Seconds()}
}

// batches returns the tests that reach a mutant, in the order in which they run: the cheap tests of the mutant's package together, then the
// cheap tests of each other package, then each expensive test alone.
func (p *programs) batches(m *mutant) [][]*test {
	var cheapOnes, expensive [][]*test
	byProgram := map[string]int{}
	tests := slices.DeleteFunc(slices.Clone(p.tests), func(t *test) bool { return !t.reached[m.id] })
	slices.SortStableFunc(tests, func(a, b *test) int {
		return own(b, m) - own(a, m)
	})
	for _, t := range tests {
		if t.cost > cheap {
			expensive = append(expensive, []*test{t})
			continue
		}
		i, ok := byProgram[t.program]
		if !ok {
			i = len(cheapOnes)
			byProgram[t.program] = i
			cheapOnes = append(cheapOnes, nil)
		}
		cheapOnes[i] = append(cheapOnes[i], t)
	}
	slices.SortStableFunc(expensive, func(a, b []*test) int { return int(a[0].cost - b[0].cost) })
	return append(cheapOnes, expensive...)
}

// own returns 1 for a test of the mutant's package and 0 for other tests, for sorting.
func own(t *test, m *mutant) int {
	if t.dir == filepath.Dir(m.File) {
		return 1
	}
	return 0
}

// A ran is the result of running some tests of one test program.
type ran struct {
	err error
	out []byte
	cpu time.Duration
}

// start runs tests of one program.
func (p *programs) start(ctx context.Context, id int, tests []*test, environment ...string) ran {
	var names []string
	cost := time.Duration(0)
	for _, t := range tests {
		names = append(names, t.name)
		cost += t.cost
	}
	limit := int((slower*cost + p.limit).Seconds())
	if id == 0 {
		limit = int(waiting.Seconds())
	}
	args := []string{"-c", fmt.Sprintf(`ulimit -v %d && ulimit -t %d && exec "$0" "$@"`, memory, limit), tests[0].program,
		"-test.run", "^(" + strings.Join(names, "|") + ")$", "-test.failfast", "-test.timeout", (waiting + starved*cost).String()}
	if p.hasProperties(tests[0]) {
		args = append(args, "-rapid.seed=1", "-rapid.nofailfile", "-rapid.shrinktime=0s")
	}
	c := exec.CommandContext(ctx, "sh", args...)
	c.Dir = filepath.Join(p.root, tests[0].dir)
	c.Env = append(os.Environ(), "CALENDAR_SEED=1", "MUTATION_SELECTED="+strconv.Itoa(id))
	c.Env = append(c.Env, environment...)
	out, err := c.CombinedOutput()
	r := ran{err: err, out: out}
	if c.ProcessState != nil {
		r.cpu = c.ProcessState.UserTime() + c.ProcessState.SystemTime()
	}
	return r
}

// hasProperties reports whether the test program has the flags of the library rapid, which runs property tests.
func (p *programs) hasProperties(t *test) bool {
	files, _ := filepath.Glob(filepath.Join(p.root, t.dir, "*_test.go"))
	return slices.ContainsFunc(files, func(file string) bool {
		b, _ := os.ReadFile(file)
		return bytes.Contains(b, []byte(`"pgregory.net/rapid"`))
	})
}

// outcome returns whether all tests passed, a test failed, or the run exceeded a limit.
func (r ran) outcome() outcome {
	var exit *exec.ExitError
	if errors.As(r.err, &exit) {
		if s, ok := exit.Sys().(syscall.WaitStatus); ok && s.Signaled() && s.Signal() == syscall.SIGKILL {
			return timedOut
		}
	}
	if bytes.Contains(r.out, []byte("panic: test timed out")) {
		return timedOut
	}
	return killed
}

var failed = regexp.MustCompile(`(?m)^--- FAIL: (\w+)`)

// by returns the name of the test that failed.
func (r ran) by(tests []*test) string {
	if found := failed.FindSubmatch(r.out); found != nil {
		return string(found[1])
	}
	if len(tests) == 1 {
		return tests[0].name
	}
	return fmt.Sprintf("one of %d tests of %s", len(tests), tests[0].dir)
}

// each calls f for each element, `parallel` calls at the same time, until a call returns an error or ctx ends.
func each[T any](ctx context.Context, parallel int, list []T, f func(T) error) error {
	var all sync.WaitGroup
	next := make(chan T)
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	for range parallel {
		all.Go(func() {
			for x := range next {
				if err := f(x); err != nil {
					stop(err)
				}
			}
		})
	}
	for _, x := range list {
		select {
		case next <- x:
		case <-ctx.Done():
		}
	}
	close(next)
	all.Wait()
	return context.Cause(ctx)
}
