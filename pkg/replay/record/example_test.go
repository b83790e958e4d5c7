package record_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/demo"
	"github.com/gpuscaler/gpuscaler/pkg/replay/record"
)

// The example records a minute of the demo and computes its decisions again. VerifyFiles returns an error if a decision differs from the
// recorded one.
func ExampleVerifyFiles() {
	dir, err := os.MkdirTemp("", "record")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, "recording.jsonl")
	recorder, err := record.New(path, record.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	d, err := demo.New(demo.Options{For: time.Minute, Seed: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	d.OnTick(func(now time.Time) { err = errors.Join(err, recorder.Tick(d.Engine().Decisions(), now)) })
	if err := errors.Join(d.Run(context.Background()), recorder.Close(), err); err != nil {
		fmt.Println(err)
		return
	}
	verified, err := record.VerifyFiles(path, nil)
	fmt.Println(verified.Ticks, "ticks,", verified.Decisions, "decisions:", err)
	// Output: 60 ticks, 180 decisions: <nil>
}
