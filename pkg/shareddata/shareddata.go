// Package shareddata returns the paths of recordings that tests read: request logs, spot markets and /metrics pages of real exporters. The
// recordings are in the directory shared/data next to the repository, because they are too large for the repository. Only tests import this
// package.
package shareddata

import (
	"os"
	"path/filepath"
	"testing"
)

// Path returns the path of a file or directory below shared/data, such as "spot/bamboo_aws_p3-trace.csv". If it does not exist, Path skips
// the test. In CI, TestSharedDataExistsInCI then fails, so that the missing data is noticed.
func Path(tb testing.TB, name string) string {
	tb.Helper()
	dir, err := os.Getwd()
	if err != nil {
		tb.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			break
		}
		if dir == filepath.Dir(dir) {
			tb.Fatal("no go.mod above the test")
		}
		dir = filepath.Dir(dir)
	}
	path := filepath.Join(filepath.Dir(dir), "shared", "data", filepath.FromSlash(name))
	if _, err := os.Stat(path); err != nil {
		tb.Skipf("skipped: the directory shared/data is not next to the repository, or has no such file: %v", err)
	}
	return path
}
