package store

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
)

// rereadEvery is how often the contents are read although no file looks changed: a text replaced within one tick of the file
// system's clock by one of the same length keeps its time and its size.
const rereadEvery = 10

// Watch is WatchPaths of paths from which every document is accepted.
func (s *Store) Watch(ctx context.Context, interval time.Duration, tell func(Report), paths ...string) {
	s.WatchPaths(ctx, interval, tell, Trusted(paths...)...)
}

// WatchPaths loads the paths again whenever they change, until ctx ends, and hands each report of a change, or of new problems, to tell.
//
// It looks at the files every interval (a second acts as fast as anybody can notice) and does not ask the kernel for
// notifications: those do not cross network file systems, name the wrong file when a ConfigMap volume swaps its symlinks, and run
// out. Looking costs a stat for each file.
func (s *Store) WatchPaths(ctx context.Context, interval time.Duration, tell func(Report), paths ...Path) {
	ticker := time.NewTicker(interval) // I/O edge: paces the polls of files
	defer ticker.Stop()
	var seen map[string]glimpse // nothing yet: what changed since the caller's own Load is found by the first look
	for known, n := "", 1; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		s.Publish() // a standby does not tick; its poller must know the policies of annotated objects
		now := look(paths)
		if seen != nil && n%rereadEvery != 0 && same(seen, now) {
			continue
		}
		seen = now
		report := s.LoadPaths(paths...)
		if text := policy.Render(report.Problems); report.Changed || text != known {
			known = text
			tell(report)
		}
	}
}

// glimpse is what a file looks like without reading it.
type glimpse struct {
	real    string // where its symlinks lead
	size    int64
	changed time.Time
}

// look lists the files under the paths as they look now. What cannot be seen is left out, and so is a change.
func look(paths []Path) map[string]glimpse {
	seen := map[string]glimpse{}
	add := func(name string, info fs.FileInfo) {
		real, _ := filepath.EvalSymlinks(name)
		seen[name] = glimpse{real, info.Size(), info.ModTime()}
	}
	for i := range paths {
		p := paths[i].Name
		info, err := os.Stat(p)
		if err != nil {
			continue
		}
		add(p, info)
		entries, _ := os.ReadDir(p) // nothing, for a file
		for _, e := range entries {
			name := filepath.Join(p, e.Name())
			if info, err := os.Stat(name); err == nil {
				add(name, info)
			}
		}
	}
	return seen
}

func same(a, b map[string]glimpse) bool {
	if len(a) != len(b) {
		return false
	}
	for name, x := range a {
		if y, ok := b[name]; !ok || x.real != y.real || x.size != y.size || !x.changed.Equal(y.changed) {
			return false
		}
	}
	return true
}
