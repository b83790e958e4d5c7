package stack

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Command describes a child process.
type Command struct {
	Name string // name of the process and of its log file
	Path string
	Args []string
	Env  []string // variables in addition to the environment of the test process
}

// Process is a child process that writes to a log file. Kill ends its complete process group. On Linux, the kernel also kills the process
// when the test process ends, even if the test process is killed.
type Process struct {
	Name    string
	LogPath string
	Started time.Time

	command Command

	cmd  *exec.Cmd
	done chan struct{}
	err  error // the result of exec.Cmd.Wait; valid after done is closed
}

// starter returns a channel. A goroutine calls the functions from this channel on one OS thread that never ends. All child processes are
// started on this thread, because Linux sends the parent-death signal of a child when the thread that started the child ends.
var starter = sync.OnceValue(func() chan<- func() {
	work := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range work {
			f()
		}
	}()
	return work
})

func onStarter(f func() error) error {
	result := make(chan error)
	starter() <- func() { result <- f() }
	return <-result
}

// startProcess starts c and appends its output to logPath.
func startProcess(c Command, logPath string) (*Process, error) {
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close() // closed here, because the child process has its own file descriptor
	fmt.Fprintf(log, "# %s %s\n", c.Path, strings.Join(c.Args, " "))

	cmd := exec.Command(c.Path, c.Args...)
	cmd.Env = append(os.Environ(), c.Env...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = childAttributes()
	if err := onStarter(cmd.Start); err != nil {
		return nil, fmt.Errorf("start %s: %w", c.Name, err)
	}
	p := &Process{Name: c.Name, LogPath: logPath, Started: time.Now(), command: c, cmd: cmd, done: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// Pid returns the process ID.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Done returns a channel that is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Exited reports whether the process has ended, and its error.
func (p *Process) Exited() (bool, error) {
	select {
	case <-p.done:
		return true, p.err
	default:
		return false, nil
	}
}

// Signal sends sig to the process, not to its group.
func (p *Process) Signal(sig syscall.Signal) error { return p.cmd.Process.Signal(sig) }

// Kill sends SIGKILL to the process and its group, and waits until the process has ended.
func (p *Process) Kill() {
	if ended, _ := p.Exited(); ended {
		return // after the end of the process, another process may have the same ID
	}
	_ = syscall.Kill(-p.Pid(), syscall.SIGKILL) // fails if the process has ended since the check above
	<-p.done
}

// Terminate sends SIGTERM and waits for the end of the process. If the process does not end within the given time, Terminate kills it and
// returns an error. Otherwise, it returns the error of the process.
func (p *Process) Terminate(within time.Duration) error {
	_ = p.Signal(syscall.SIGTERM) // fails if the process has ended
	select {
	case <-p.done:
		return p.err
	case <-time.After(within):
		p.Kill()
		return fmt.Errorf("%s did not end within %s of SIGTERM", p.Name, within)
	}
}

// Log returns the output of the process.
func (p *Process) Log() string {
	text, err := os.ReadFile(p.LogPath)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// Tail returns the last n lines of the log.
func (p *Process) Tail(n int) string {
	lines := bytes.Split(bytes.TrimRight([]byte(p.Log()), "\n"), []byte("\n"))
	if len(lines) > n {
		lines = lines[len(lines)-n:]
	}
	return string(bytes.Join(lines, []byte("\n")))
}

// TailOnFailure logs the last part of the process's output if t fails.
func (p *Process) TailOnFailure(t testing.TB) {
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of %s\n%s", p.LogPath, p.Tail(tailLines))
		}
	})
}
