package engine

import (
	"fmt"
	"runtime/debug"
)

// PanicError is a panic that was recovered in a tick. It affects one workload, team or capacity group; the rest of the tick continues.
type PanicError struct {
	Value any
	Stack []byte // stack of the goroutine at the panic
}

func (p *PanicError) Error() string { return fmt.Sprintf("panic: %v", p.Value) }

// panicError returns the error for a recovered value. It must be called in the deferred function, so that the stack is that of the panic.
func panicError(value any) *PanicError { return &PanicError{Value: value, Stack: debug.Stack()} }
