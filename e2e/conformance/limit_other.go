//go:build unix && !linux

package main

import "github.com/gpuscaler/gpuscaler/e2e/stack"

const (
	fileSize    = 1
	descriptors = 2
)

func limited(int, func(int) (uint64, error)) action {
	return func(*lab, *stack.Process) (repair, error) {
		return nil, notApplicable("the limits of a running process can be changed only on Linux")
	}
}
