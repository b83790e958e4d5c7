package components

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Paths maps the name of a binary (kubernetes, kwok, operator, ...) to its path.
type Paths map[string]string

// Ensure returns the binaries of the named components. It builds missing ones and writes its progress to out. Several processes may call
// it at once: one builds a component while the others wait.
func Ensure(ctx context.Context, out io.Writer, names ...string) (Paths, error) {
	root, err := Root()
	if err != nil {
		return nil, err
	}
	cache, err := Cache()
	if err != nil {
		return nil, err
	}
	paths := Paths{}
	for _, name := range names {
		c, err := Find(name)
		if err != nil {
			return nil, err
		}
		r, err := newRecipe(root, c)
		if err != nil {
			return nil, err
		}
		if err := r.ensure(ctx, out, cache); err != nil {
			return nil, fmt.Errorf("component %s: %w", name, err)
		}
		for _, b := range r.binaries() {
			paths[b] = filepath.Join(cache, r.entry, b)
		}
	}
	return paths, nil
}

func (r recipe) cached(cache string) bool {
	for _, b := range r.binaries() {
		if _, err := os.Stat(filepath.Join(cache, r.entry, b)); err != nil {
			return false
		}
	}
	return true
}

func (r recipe) ensure(ctx context.Context, out io.Writer, cache string) error {
	if r.cached(cache) {
		return nil
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return err
	}
	unlock, err := lock(ctx, out, filepath.Join(cache, r.entry+".lock"))
	if err != nil {
		return err
	}
	defer unlock()
	if r.cached(cache) { // another process has built the component in the meantime
		return nil
	}

	work, err := os.MkdirTemp(cache, "."+r.entry+"-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	dir, err := r.source(ctx, work)
	if err != nil {
		return err
	}
	bin := filepath.Join(work, "bin")
	if err := r.build(ctx, out, dir, bin); err != nil {
		return err
	}
	// A rename is atomic, so no process sees a partial component.
	if err := os.RemoveAll(filepath.Join(cache, r.entry)); err != nil {
		return err
	}
	return os.Rename(bin, filepath.Join(cache, r.entry))
}

// lock waits for the lock of the file at path and returns a function that releases it. It prints a message if it has to wait. If the
// process is killed, the kernel releases the lock, so that other builds are not blocked.
func lock(ctx context.Context, out io.Writer, path string) (func(), error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	for said := false; ; said = true {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if err != syscall.EWOULDBLOCK {
			f.Close()
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		if !said {
			fmt.Fprintf(out, "%s: waiting for another process that builds it\n", strings.TrimSuffix(filepath.Base(path), ".lock"))
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, ctx.Err()
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// source returns the directory to build in. If the component deletes no files, this is its own directory. Otherwise it is a copy of that
// directory. The go.mod of the copy refers to a copy of the module without the deleted files. (go build -overlay would need no copy, but it
// rejects files of the module cache.)
func (r recipe) source(ctx context.Context, work string) (string, error) {
	if len(r.Prune) == 0 {
		return r.dir, nil
	}
	listed, err := r.goCommand(ctx, r.dir, "mod", "download", "-json", r.Module)
	if err != nil {
		return "", err
	}
	upstream, err := downloadedDir(listed)
	if err != nil {
		return "", err
	}
	copied := filepath.Join(work, "module")
	if err := os.CopyFS(copied, os.DirFS(upstream)); err != nil {
		return "", err
	}
	for _, file := range r.Prune {
		if err := os.Remove(filepath.Join(copied, file)); err != nil {
			return "", fmt.Errorf("prune: %w", err)
		}
	}
	dir := filepath.Join(work, "source")
	if err := os.CopyFS(dir, os.DirFS(r.dir)); err != nil {
		return "", err
	}
	_, err = r.goCommand(ctx, dir, "mod", "edit", "-replace", r.Module+"="+copied)
	return dir, err
}

// goCommand runs the go tool in dir and returns its standard output.
func (r recipe) goCommand(ctx context.Context, dir string, args ...string) ([]byte, error) {
	var stderr strings.Builder
	cmd := goTool(ctx, dir, args...)
	cmd.Stderr = &stderr
	text, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return text, nil
}

func goTool(ctx context.Context, dir string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	// CGO_ENABLED=0 builds a static binary without a C compiler. GOWORK=off ignores a workspace file, which could change the versions of
	// the modules.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	return cmd
}

// Source returns the directory of a component's module in Go's module cache, for files other than code, such as CRDs.
func Source(ctx context.Context, name string) (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	c, err := Find(name)
	if err != nil {
		return "", err
	}
	r, err := newRecipe(root, c)
	if err != nil {
		return "", err
	}
	listed, err := r.goCommand(ctx, r.dir, "mod", "download", "-json", r.Module)
	if err != nil {
		return "", err
	}
	return downloadedDir(listed)
}
