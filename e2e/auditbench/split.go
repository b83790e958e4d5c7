package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"

	product "github.com/gpuscaler/gpuscaler/pkg/audit"
	"github.com/gpuscaler/gpuscaler/pkg/replay/evaluate"
)

// split repeats the replays of a snapshot with the command's default options, and prints the time that the replays and the bounds take. The
// audit announces both.
func split(ctx context.Context, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	s, err := product.ReadSnapshot(path, f)
	if err != nil {
		return err
	}
	var mu sync.Mutex
	began, replays := map[string]time.Time{}, time.Duration(0)
	start := time.Now()
	_, err = product.Run(ctx, s, product.Options{SLO: evaluate.SLO{Share: 0.99, Wait: 10 * time.Second}, Replay: 6 * time.Hour,
		ColdStart: 5 * time.Minute, Progress: func(what string, _ float64) {
			mu.Lock()
			defer mu.Unlock()
			if w, found := strings.CutPrefix(what, "replaying "); found {
				began[w] = time.Now()
			} else if w, found := strings.CutPrefix(what, "least cost of "); found {
				replays += time.Since(began[w])
			}
		}})
	if err != nil {
		return err
	}
	wall := time.Since(start)
	fmt.Printf("  the replays and the bounds again, without a time limit: %.1f s on %d cores; replays %.0f%%, bounds the rest\n",
		wall.Seconds(), runtime.GOMAXPROCS(0), 100*replays.Seconds()/wall.Seconds()/float64(runtime.GOMAXPROCS(0)))
	return nil
}
