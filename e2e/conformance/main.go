// Command conformance injects faults into a cluster of real components while an external metrics adapter serves HPAs at a constant load. It
// reports wrong decreases, the time until all values are correct after the fault, and refused reads. The adapter is gpuscaler, KEDA, or an
// adapter that a definition file or a URL describes.
//
// The command appends each result to a CSV file, and its next call continues with the missing runs. The file of gpuscaler and KEDA is
// record.csv in this folder. It is part of the repository, so that the runs can continue on any machine. The command also writes the
// results as a table into e2e/README.md.
//
// # Terms
//
// A target is the external metrics adapter under test. A run is one injection of one fault, from the steady state before the fault to the
// recovery after it. The record is the CSV file with the results of all runs.
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

	"github.com/gpuscaler/gpuscaler/e2e/conformance/adapters"
	"github.com/gpuscaler/gpuscaler/e2e/conformance/lab"
	"github.com/gpuscaler/gpuscaler/e2e/conformance/record"
)

// settings are the flags of the command.
type settings struct {
	target string
	faults *regexp.Regexp
	runs   int // number of runs of each fault; 0: the number that the record must have
	limit  time.Duration
	print  bool
	dir    string
	soak   time.Duration // duration of a soak, which replaces the faults; 0: no soak
}

const (
	// shared is the path of the file with the results of gpuscaler and KEDA, relative to the directory e2e.
	shared = "conformance/record.csv"
	// page is the path of the page that shows these results as a table, relative to the directory e2e.
	page = "README.md"
)

func main() {
	s := settings{}
	pattern := flag.String("faults", "", "regular expression of the names of the faults; empty: all")
	flag.StringVar(&s.target, "target", "gpuscaler", "gpuscaler, keda, the URL of a running adapter, or a file that describes an adapter")
	flag.IntVar(&s.runs, "runs", 0, "runs of each fault; 0: five for gpuscaler, two for KEDA, one for another adapter")
	flag.DurationVar(&s.limit, "for", 0, "begin no run after this time; 0: no limit")
	flag.BoolVar(&s.print, "print", false, "run no fault, and print the table of the present results")
	flag.StringVar(&s.dir, "dir", "../dist/conformance", "directory of logs, of failures, and of the records of other adapters")
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

// command runs the faults and prints the table of results. It returns an error if the target had a wrong decrease or did not recover.
func command(ctx context.Context, s settings) error {
	chosen := selected(s.faults)
	if len(chosen) == 0 {
		return fmt.Errorf("no fault matches %s; -list prints them", s.faults)
	}
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		return err
	}
	t, err := adapters.Parse(s.target)
	if err != nil {
		return err
	}
	if err := quiet(filepath.Join(s.dir, t.Name()+".log")); err != nil {
		return err
	}
	if s.soak > 0 {
		return soak(ctx, t, s.soak)
	}
	version, err := t.Version(ctx)
	if err != nil {
		return err
	}
	if s.runs == 0 {
		s.runs = record.Required(t.Name())
	}
	m := &matrix{target: t, faults: chosen, runs: s.runs, record: recordOf(t, s.dir), dir: s.dir, timing: standard, say: printProgress}
	if s.limit > 0 {
		m.until = time.Now().Add(s.limit)
	}
	var failed error
	if !s.print {
		failed = m.run(ctx)
	}
	return errors.Join(failed, report(m, record.Versioned{Target: t.Name(), Version: version}))
}

// recordOf returns the path of the CSV file with the results of a target. dir contains the files of adapters other than gpuscaler and KEDA.
func recordOf(t lab.Target, dir string) string {
	if record.InRepository(t.Name()) {
		return shared
	}
	return filepath.Join(dir, t.Name()+".csv")
}

// report prints the results, and writes the results of gpuscaler and KEDA into e2e/README.md. It returns an error if the target had a wrong
// decrease or did not recover.
func report(m *matrix, t record.Versioned) error {
	s, err := record.Read(shared)
	if err != nil {
		return err
	}
	if err := s.UpdatePage(page, recorded(matrixFaults())); err != nil {
		return err
	}
	if m.record != shared {
		if s, err = record.Read(shared, m.record); err != nil {
			return err
		}
	}
	faults := recorded(m.faults)
	fmt.Print(s.Summary(faults), "\n", s.Table(faults), s.Missing(t, faults, m.runs))
	return s.Defects(t.Target, faults)
}

// quiet redirects the log messages of this process's libraries to a file. While the API server does not respond, the libraries repeat their
// messages.
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
