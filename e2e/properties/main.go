// Command properties runs the property tests of the product with random seeds, longer than `make unit` does. It counts their checks in the
// file checks.json in this folder, so that it can be interrupted and continued. The file is part of the repository, so that the work can
// continue on any machine. It counts the checks of all versions of the product:
//
//	go run ./properties -for 10m
//	go run ./properties -for 0 -run Window
//
// A property whose check takes less than a millisecond must pass a million checks. Every other property must pass a hundred thousand
// checks. Each run checks the property that has passed the smallest share of its required checks. With -for, properties that have passed
// all required checks continue until the time is over.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"time"
)

func main() {
	lasting := flag.Duration("for", 10*time.Minute, "how long checks run; 0: until each property has its number")
	name := flag.String("run", "", "run only properties whose name matches this regular expression")
	file := flag.String("record", "properties/checks.json", "the file that counts the checks")
	parallel := flag.Int("parallel", 2, "number of properties that run at the same time")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	chosen, err := regexp.Compile(*name)
	if err == nil {
		err = check(ctx, chosen, *file, *parallel, *lasting)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "properties:", err)
		os.Exit(1)
	}
}

// check finds the properties, builds their test programs, and runs them.
func check(ctx context.Context, chosen *regexp.Regexp, file string, parallel int, lasting time.Duration) error {
	found, err := find("..", chosen)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return fmt.Errorf("no property matches %q; `grep -rl rapid.Check ../pkg` finds their files", chosen)
	}
	programs, err := os.MkdirTemp("", "properties")
	if err != nil {
		return err
	}
	defer os.RemoveAll(programs)
	if err := build(ctx, "..", programs, found); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	r, err := open(file, found)
	if err != nil {
		return err
	}
	if lasting > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, lasting)
		defer stop()
	}
	err = (&runner{module: "..", programs: programs, record: r, beyond: lasting > 0}).run(ctx, parallel)
	r.print(os.Stdout)
	return err
}
