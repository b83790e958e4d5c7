package components

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// reportEvery is the interval of progress messages: short enough to show that a compilation of four minutes does not hang, and long enough
// to keep the log readable.
const reportEvery = 10 * time.Second

// build compiles r's packages in dir into bin and prints its progress.
func (r recipe) build(ctx context.Context, out io.Writer, dir, bin string) error {
	if err := os.Mkdir(bin, 0o755); err != nil {
		return err
	}
	p := &progress{out: out, name: r.Name + " " + r.version, began: time.Now()}
	p.say("building")
	args := append([]string{"build", "-v", "-o", bin + string(os.PathSeparator)}, r.flags()...)
	cmd := goTool(ctx, dir, append(args, r.Packages...)...)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	stop := p.tick()
	go p.countPackages(ctx, r, dir)
	p.read(stderr)
	err = cmd.Wait()
	stop()
	if err != nil {
		return fmt.Errorf("go build: %w\n%s", err, strings.Join(p.failure, "\n"))
	}
	cpu := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	p.say(fmt.Sprintf("built with %s of CPU time", cpu.Round(time.Second)))
	return nil
}

// progress counts the output lines of `go build -v`: one for each downloaded module and each compiled package.
type progress struct {
	out   io.Writer
	name  string
	began time.Time

	mu         sync.Mutex
	downloaded int
	compiled   int
	total      int      // number of packages; 0 until it is known
	failure    []string // all other lines of the output, which are compiler errors
}

func (p *progress) read(r io.Reader) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		p.mu.Lock()
		switch {
		case strings.HasPrefix(line, "go: downloading "):
			p.downloaded++
		case strings.ContainsAny(line, " \t:#"):
			p.failure = append(p.failure, line)
		default:
			p.compiled++
		}
		p.mu.Unlock()
	}
}

// countPackages counts all packages. Packages in Go's build cache are not compiled, so the total is an upper bound.
func (p *progress) countPackages(ctx context.Context, r recipe, dir string) {
	text, err := r.goCommand(ctx, dir, append([]string{"list", "-deps"}, r.Packages...)...)
	if err != nil {
		return // the build reports the error
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.total = bytes.Count(text, []byte("\n"))
}

func (p *progress) tick() (stop func()) {
	done := make(chan struct{})
	go func() {
		t := time.NewTicker(reportEvery)
		defer t.Stop()
		for {
			select {
			case <-done:
				return
			case <-t.C:
				p.say("building")
			}
		}
	}()
	return func() { close(done) }
}

func (p *progress) say(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	line := fmt.Sprintf("%s: %s, %s", p.name, what, time.Since(p.began).Round(time.Second))
	if p.downloaded > 0 {
		line += fmt.Sprintf(", %d modules downloaded", p.downloaded)
	}
	if p.compiled > 0 {
		line += fmt.Sprintf(", %d", p.compiled)
		if p.total > 0 {
			line += fmt.Sprintf(" of %d", p.total)
		}
		line += " packages compiled"
	}
	fmt.Fprintln(p.out, line)
}

func downloadedDir(text []byte) (string, error) {
	var m struct{ Dir string }
	if err := json.Unmarshal(text, &m); err != nil {
		return "", fmt.Errorf("go mod download: %w", err)
	}
	return m.Dir, nil
}
