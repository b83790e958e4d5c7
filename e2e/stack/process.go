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

// Command says what to run as a child process.
type Command struct {
	Name string // of the process and of its log file
	Path string
	Args []string
	Env  []string // added to the caller's environment
}

// Process is a child process with a log file. Its process group dies with it,
// and (on Linux) it dies with the test, even a test that was killed.
type Process struct {
	Name    string
	LogPath string

	cmd  *exec.Cmd
	done chan struct{}
	err  error // of Wait, readable once done is closed
}

// starter runs every fork on one thread that never ends: Linux delivers a
// parent-death signal when the forking thread ends, not when the process does.
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

// startProcess starts c and appends what it prints to logPath.
func startProcess(c Command, logPath string) (*Process, error) {
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close() // the child holds its own descriptor
	fmt.Fprintf(log, "# %s %s\n", c.Path, strings.Join(c.Args, " "))

	cmd := exec.Command(c.Path, c.Args...)
	cmd.Env = append(os.Environ(), c.Env...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = childAttributes()
	if err := onStarter(cmd.Start); err != nil {
		return nil, fmt.Errorf("start %s: %w", c.Name, err)
	}
	p := &Process{Name: c.Name, LogPath: logPath, cmd: cmd, done: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// Pid is the process's id.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Exited tells whether the process has ended, and how.
func (p *Process) Exited() (bool, error) {
	select {
	case <-p.done:
		return true, p.err
	default:
		return false, nil
	}
}

// Signal sends sig to the process alone.
func (p *Process) Signal(sig syscall.Signal) error { return p.cmd.Process.Signal(sig) }

// Kill ends the process and its group at once, as kill -9 does, and waits.
func (p *Process) Kill() {
	if ended, _ := p.Exited(); ended {
		return // its id may be somebody else's by now
	}
	_ = syscall.Kill(-p.Pid(), syscall.SIGKILL) // it may have ended just now
	<-p.done
}

// Terminate asks the process to end, waits that long, and then kills it. It
// returns how the process ended, or an error when it had to be killed.
func (p *Process) Terminate(within time.Duration) error {
	_ = p.Signal(syscall.SIGTERM) // it may be gone already
	select {
	case <-p.done:
		return p.err
	case <-time.After(within):
		p.Kill()
		return fmt.Errorf("%s did not end within %s of SIGTERM", p.Name, within)
	}
}

// Log returns everything that the process has printed.
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

// TailOnFailure shows the end of the log if t fails.
func (p *Process) TailOnFailure(t testing.TB) {
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of %s\n%s", p.LogPath, p.Tail(tailLines))
		}
	})
}
