package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"time"
)

// An outcome is the result of one run of a property.
type outcome struct {
	seed        uint64
	cpu         time.Duration
	failed      bool
	interrupted bool
}

// A runner runs properties and records their results.
type runner struct {
	module   string // directory of the product's module
	programs string // directory of the test programs
	record   *record
	beyond   bool // also run properties that have passed their required checks
}

// run runs properties, `parallel` of them at the same time, until ctx ends or no run is necessary. A property that failed is not run a
// second time.
func (r *runner) run(ctx context.Context, parallel int) error {
	var all sync.WaitGroup
	errs := make([]error, parallel)
	for i := range parallel {
		all.Go(func() {
			for ctx.Err() == nil && errs[i] == nil {
				c, n := r.record.take(r.beyond)
				if c == nil {
					return
				}
				errs[i] = r.record.put(c, n, r.once(ctx, c.property, n))
			}
		})
	}
	all.Wait()
	if n := r.record.failed(); n > 0 {
		errs = append(errs, fmt.Errorf("%d properties failed; turn each counterexample into a test with fixed values", n))
	}
	return errors.Join(errs...)
}

// once runs one property with a random seed.
func (r *runner) once(ctx context.Context, p property, checks int) outcome {
	seed := rand.Uint64()
	program, err := filepath.Abs(p.program(r.programs))
	if err != nil {
		program = p.program(r.programs)
	}
	c := exec.CommandContext(ctx, program, "-test.run", "^"+p.Test+"$", "-test.timeout", "0", "-rapid.nofailfile",
		"-rapid.checks", strconv.Itoa(checks), "-rapid.seed", strconv.FormatUint(seed, 10))
	c.Dir = filepath.Join(r.module, p.Package)
	c.Env = append(os.Environ(), "GOGC=400") // less garbage collection saves CPU time and needs little memory, because the heaps are small
	out, err := c.CombinedOutput()
	switch {
	case ctx.Err() != nil:
		return outcome{seed: seed, interrupted: true}
	case err != nil:
		fmt.Fprintf(os.Stderr, "%s: %v\n%s\n", p, err, out)
		return outcome{seed: seed, failed: true}
	}
	fmt.Fprintf(os.Stderr, "%s: %d checks\n", p, checks)
	return outcome{seed: seed, cpu: c.ProcessState.UserTime() + c.ProcessState.SystemTime()}
}
