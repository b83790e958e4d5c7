package commandline

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
	"time"
)

// Progress is a status line on standard error. It is shown only on a terminal, because in a log its control characters would be visible.
type Progress struct {
	mu    sync.Mutex
	out   io.Writer
	show  bool
	begun time.Time
	shown time.Time
}

// NewProgress returns a status line for out.
func NewProgress(out io.Writer) *Progress {
	return &Progress{out: out, show: isTerminal(out), begun: time.Now()}
}

// Report updates the status line. what describes the current step of the command. done is the completed share of this step, from 0 to 1.
func (p *Progress) Report(what string, done float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := time.Now(); p.show && now.Sub(p.shown) >= 100*time.Millisecond {
		p.shown = now
		fmt.Fprintf(p.out, "\r\x1b[K%4.0fs  %-40s %3.0f%%", now.Sub(p.begun).Seconds(), what, 100*done)
	}
}

// Clear removes the status line.
func (p *Progress) Clear() {
	if p.show {
		fmt.Fprint(p.out, "\r\x1b[K")
	}
}

// End removes the status line and prints the time since NewProgress.
func (p *Progress) End() {
	p.Clear()
	fmt.Fprintf(p.out, "%.1fs on %d cores\n", time.Since(p.begun).Seconds(), runtime.GOMAXPROCS(0))
}

// isTerminal reports whether a writer is a terminal, on which a line can be overwritten.
func isTerminal(w io.Writer) bool {
	f, is := w.(*os.File)
	if !is {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
