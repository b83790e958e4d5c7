package main

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/gpuscaler/gpuscaler/e2e/conformance/lab"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
)

// Resources whose soft limit a fault lowers.
const (
	fileSize    = unix.RLIMIT_FSIZE
	descriptors = unix.RLIMIT_NOFILE
)

// limited lowers the soft limit of a resource of a running process to the value that limit returns. The end of the fault restores it.
func limited(resource int, limit func(pid int) (uint64, error)) action {
	return func(_ *lab.Lab, p *stack.Process) (repair, error) {
		var before unix.Rlimit
		if err := unix.Prlimit(p.Pid(), resource, nil, &before); err != nil {
			return nil, fmt.Errorf("limits of %s: %w", p.Name, err)
		}
		soft, err := limit(p.Pid())
		if err != nil {
			return nil, err
		}
		if err := unix.Prlimit(p.Pid(), resource, &unix.Rlimit{Cur: soft, Max: before.Max}, nil); err != nil {
			return nil, fmt.Errorf("limit %s: %w", p.Name, err)
		}
		return func(context.Context) error {
			err := unix.Prlimit(p.Pid(), resource, &before, nil)
			if errors.Is(err, unix.ESRCH) {
				return nil // the process has exited because of the fault, and the next process has no limit
			}
			return err
		}, nil
	}
}
