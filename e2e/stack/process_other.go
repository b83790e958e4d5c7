//go:build unix && !linux

package stack

import "syscall"

// childAttributes returns the attributes of child processes. This operating system has no parent-death signal, so the children of a killed
// test process continue to run.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
