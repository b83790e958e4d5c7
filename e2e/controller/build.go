package controller

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/gpuscaler/gpuscaler/e2e/components"
)

// BinaryVariable is an environment variable with the path of a gpuscaler binary. If it is set, the tests use this binary and do not build
// one from the working tree.
const BinaryVariable = "GPUSCALER_E2E_BINARY"

// reportEvery is the interval of progress messages while gpuscaler is compiled for the first time.
const reportEvery = 10 * time.Second

// Build compiles gpuscaler from the working tree into dir and returns the path of the binary. With a lock, only one test package compiles
// at a time. The packages that waited compile faster, because Go's build cache contains the result.
func Build(ctx context.Context, out io.Writer, dir string) (string, error) {
	if given := os.Getenv(BinaryVariable); given != "" {
		return filepath.Abs(given)
	}
	root, err := components.Root()
	if err != nil {
		return "", err
	}
	cache, err := components.Cache()
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	lock, err := os.OpenFile(filepath.Join(cache, "gpuscaler.lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return "", err
	}
	defer lock.Close() // closing the file also releases the lock
	began := time.Now()
	defer report(out, "gpuscaler: building the working tree's", began)()
	if err := flock(ctx, lock); err != nil {
		return "", err
	}
	built := filepath.Join(cache, "gpuscaler")
	compile := exec.CommandContext(ctx, "go", "build", "-ldflags", "-s -w", "-o", built, "./cmd/gpuscaler")
	compile.Dir = filepath.Dir(root)
	compile.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if text, err := compile.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build gpuscaler: %w\n%s", err, text)
	}
	// A hard link keeps this version of the binary when the next build replaces the file in the cache.
	own := filepath.Join(dir, "gpuscaler")
	return own, link(built, own)
}

// report prints progress messages until the returned function is called, which prints the duration.
func report(out io.Writer, what string, began time.Time) (done func()) {
	fmt.Fprintf(out, "%s ...\n", what)
	ended := make(chan struct{})
	go func() {
		for {
			select {
			case <-ended:
				return
			case <-time.After(reportEvery):
				fmt.Fprintf(out, "%s: %s\n", what, time.Since(began).Round(time.Second))
			}
		}
	}()
	return func() {
		close(ended)
		fmt.Fprintf(out, "%s: done in %s\n", what, time.Since(began).Round(100*time.Millisecond))
	}
}

func flock(ctx context.Context, f *os.File) error {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// link creates a hard link, or copies the file if it is on another disk. It replaces an existing file in one step, because tests that run
// in parallel can execute the existing file.
func link(from, to string) error {
	next := fmt.Sprintf("%s.%d", to, time.Now().UnixNano())
	if os.Link(from, next) != nil {
		content, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		if err := os.WriteFile(next, content, 0o755); err != nil {
			return err
		}
	}
	return os.Rename(next, to)
}
