//go:build unix && !linux

package stack

import "syscall"

// Without a parent-death signal a killed test leaves its children behind.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
