//go:build unix && !linux

package main

import (
	"github.com/gpuscaler/gpuscaler/e2e/conformance/lab"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
)

const (
	fileSize    = 1
	descriptors = 2
)

func limited(int, func(int) (uint64, error)) action {
	return func(*lab.Lab, *stack.Process) (repair, error) {
		return nil, lab.NotApplicable("the limits of a running process can be changed only on Linux")
	}
}
