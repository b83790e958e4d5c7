// Package browser opens gpuscaler's web page and its HTML reports in Chromium. It checks the layout, the text and the use with a keyboard
// and a screen reader. It writes a screenshot of each page and width to dist/screenshots.
package browser

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/gpuscaler/gpuscaler/e2e/controller"
)

// timeout limits each wait for the browser or for gpuscaler. On a machine with a high load, a step that usually takes a second can take
// minutes.
const timeout = 10 * time.Minute

var (
	binary      string          // path of the gpuscaler binary
	screenshots string          // path of the folder for the screenshots
	browser     context.Context // context of the running browser, in which each test opens a tab
)

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (int, error) {
	path := chromium()
	if path == "" {
		return m.Run(), nil // without a browser, each test is skipped with the reason
	}
	dir, err := os.MkdirTemp("", "gpuscaler-browser")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Minute)
	defer cancel()
	if binary, err = controller.Build(ctx, os.Stderr, dir); err != nil {
		return 1, err
	}
	if screenshots, err = filepath.Abs(filepath.Join("..", "..", "dist", "screenshots")); err != nil {
		return 1, err
	}
	if err := os.MkdirAll(screenshots, 0o755); err != nil {
		return 1, err
	}
	// The browser's sandbox is disabled, because it needs user namespaces, which containers often do not have. The browser opens only the
	// pages of gpuscaler, which are trusted.
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox)
	allocator, stop := chromedp.NewExecAllocator(ctx, options...)
	defer stop()
	var closeBrowser context.CancelFunc
	browser, closeBrowser = chromedp.NewContext(allocator)
	defer closeBrowser()
	if err := chromedp.Do(browser); err != nil {
		return 1, fmt.Errorf("start %s: %w", path, err)
	}
	return m.Run(), nil
}

// chromium returns the path of the browser, or "" if no browser is installed. The environment variable CHROMIUM can contain a path.
func chromium() string {
	for _, name := range []string{os.Getenv("CHROMIUM"), "chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// startDemo starts `gpuscaler demo` and returns the address of its web page.
func startDemo(t *testing.T) string {
	t.Helper()
	c := exec.Command(binary, "demo", "--speed=900", "--page-address=127.0.0.1:0", "--external-metrics-address=127.0.0.1:0")
	stderr, err := c.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Process.Kill()
		c.Wait()
	})
	lines := bufio.NewScanner(stderr)
	for lines.Scan() {
		if fields := strings.Fields(lines.Text()); len(fields) == 2 && fields[0] == "page" {
			go io.Copy(io.Discard, stderr)
			return fields[1]
		}
	}
	t.Fatal("the demo did not print the address of its page")
	return ""
}

// gpuscaler runs a command of gpuscaler in the root of the repository.
func gpuscaler(t *testing.T, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	c := exec.CommandContext(ctx, binary, args...)
	c.Dir = filepath.Join("..", "..")
	if text, err := c.CombinedOutput(); err != nil {
		t.Fatalf("gpuscaler %s: %v\n%s", strings.Join(args, " "), errors.Join(err, ctx.Err()), text)
	}
}
