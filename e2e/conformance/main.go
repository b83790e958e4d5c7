// Command conformance injects faults into a cluster of real components while an external metrics adapter serves HPAs at a constant load.
// It judges the adapter: wrong decreases, the time until all values are correct again, and refused reads. The adapter is gpuscaler, KEDA,
// or any other one that a definition file or a URL describes. Results are appended to one file for each target; a second call continues.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	ossignal "os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// settings are the flags of the command.
type settings struct {
	target string
	faults *regexp.Regexp
	runs   int
	dir    string
	soak   time.Duration
}

func main() {
	s := settings{}
	pattern := flag.String("faults", "", "regular expression of the names of the faults; empty: all")
	flag.StringVar(&s.target, "target", "gpuscaler", "gpuscaler, keda, the URL of a running adapter, or a file that describes an adapter")
	flag.IntVar(&s.runs, "runs", 1, "runs of each fault; 0: print the table of the present results")
	flag.StringVar(&s.dir, "dir", "../dist/conformance", "directory of the results")
	flag.DurationVar(&s.soak, "soak", 0, "instead of faults: change the load for this time, and measure what gpuscaler uses")
	list := flag.Bool("list", false, "print the faults")
	flag.Parse()
	var err error
	if s.faults, err = regexp.Compile(*pattern); err != nil {
		fmt.Fprintf(os.Stderr, "-faults %q: %v\n", *pattern, err)
		os.Exit(2)
	}
	if *list {
		for _, f := range selected(s.faults) {
			fmt.Printf("%-28s %s\n", f.name, f.what)
		}
		return
	}
	ctx, stop := ossignal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err = command(ctx, s)
	stop()
	if err != nil {
		fmt.Println("FAIL:", err)
		os.Exit(1)
	}
}

// command runs the faults and prints the table. It returns an error if the target failed.
func command(ctx context.Context, s settings) error {
	chosen := selected(s.faults)
	if len(chosen) == 0 {
		return fmt.Errorf("no fault matches %s; -list prints them", s.faults)
	}
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		return err
	}
	t, err := parseTarget(s.target)
	if err != nil {
		return err
	}
	if err := quiet(filepath.Join(s.dir, t.name()+".log")); err != nil {
		return err
	}
	if s.soak > 0 {
		return soak(ctx, t, s.soak)
	}
	m := &matrix{target: t, faults: chosen, runs: s.runs, dir: s.dir, timing: standard, say: printProgress}
	failed := m.run(ctx)
	all, err := readAll(s.dir)
	if err != nil {
		return err
	}
	fmt.Print(table(all, chosen))
	fmt.Print(missing(all, t.name(), chosen, s.runs))
	return errors.Join(failed, defects(all, t.name(), chosen))
}

// quiet writes the messages of the components that run in this process, which repeat while the API server does not respond, into a file.
func quiet(path string) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	os.Stderr = file
	klog.LogToStderr(false)
	klog.SetOutput(file)
	log.SetLogger(logr.Discard())
	return nil
}

func printProgress(format string, args ...any) {
	fmt.Printf("%s %s\n", time.Now().UTC().Format("15:04:05"), strings.TrimSpace(fmt.Sprintf(format, args...)))
}
