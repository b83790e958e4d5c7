package store

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
)

// rereadEvery is the number of polls after which the files are read even if no size or modification time has changed. Otherwise a file that
// is replaced by a file of the same size within the time resolution of the file system would not be noticed.
const rereadEvery = 10

// Watch does the same as WatchPaths, and accepts all documents from the paths.
func (s *Store) Watch(ctx context.Context, interval time.Duration, report func(Report), paths ...string) {
	s.WatchPaths(ctx, interval, report, Trusted(paths...)...)
}

// WatchPaths loads the paths whenever a file changes, until ctx ends. It calls report if a load changed the policies in force or the
// problems.
//
// It polls the files and does not use inotify, because inotify does not work on network file systems, reports the wrong file when the
// kubelet replaces a ConfigMap volume, and has a limited number of watches. A poll needs one stat call for each file.
func (s *Store) WatchPaths(ctx context.Context, interval time.Duration, report func(Report), paths ...Path) {
	ticker := time.NewTicker(interval) // may use the clock: interval between polls of the files
	defer ticker.Stop()
	// previous is nil before the first poll. The first poll always loads the files, because they may have changed since the caller's Load.
	var previous map[string]fileState
	for known, n := "", 1; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		s.Publish() // a standby runs no ticks, which would call Publish, but its poller needs the policies of annotated objects
		now := statFiles(paths)
		if previous != nil && n%rereadEvery != 0 && same(previous, now) && !s.reloaded.Load() {
			continue
		}
		previous = now
		result := s.LoadPaths(paths...)
		if text := policy.Render(result.Problems); result.Changed || text != known {
			known = text
			report(result)
		}
	}
}

// fileState contains the properties of a file that a poll compares.
type fileState struct {
	real    string // the path after symbolic links are resolved
	size    int64
	changed time.Time
}

// statFiles returns the state of each file in the paths, by file name. It omits files that cannot be read.
func statFiles(paths []Path) map[string]fileState {
	previous := map[string]fileState{}
	add := func(name string, info fs.FileInfo) {
		real, _ := filepath.EvalSymlinks(name)
		previous[name] = fileState{real, info.Size(), info.ModTime()}
	}
	for i := range paths {
		p := paths[i].Name
		info, err := os.Stat(p)
		if err != nil {
			continue
		}
		add(p, info)
		entries, _ := os.ReadDir(p) // if p is a file, there are no entries
		for _, e := range entries {
			name := filepath.Join(p, e.Name())
			if info, err := os.Stat(name); err == nil {
				add(name, info)
			}
		}
	}
	return previous
}

func same(a, b map[string]fileState) bool {
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
