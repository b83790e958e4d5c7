//go:build unix && !linux

package stack

import "syscall"

// Without a parent-death signal a killed test process leaves its children running.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
