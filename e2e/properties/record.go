package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"
	"text/tabwriter"
	"time"
)

// A count is the result of all runs of one property.
type count struct {
	property
	Checks   int     // passed checks
	Seconds  float64 // CPU time of these checks in seconds
	Failed   uint64  `json:",omitempty"` // seed of a run that failed; 0: none failed
	reserved int     // number of checks in runs that have not ended
}

const (
	firstRun = 200              // number of checks in the first run of a property, which measures the cost of a check
	runTime  = 20 * time.Second // CPU time that each later run should take
)

// number returns the number of checks that the property must pass.
func (c *count) number() int {
	if c.Checks == 0 || c.Seconds/float64(c.Checks) < 1e-3 {
		return 1_000_000
	}
	return 100_000
}

// next returns the number of checks in the next run, or 0 if no run is necessary. beyond is true if properties that have passed all
// required checks are also run.
func (c *count) next(beyond bool) int {
	switch left := c.number() - c.Checks - c.reserved; {
	case c.Failed != 0, c.Checks == 0 && c.reserved > 0, left <= 0 && !beyond:
		return 0
	case c.Checks == 0:
		return firstRun
	default:
		n := max(1, int(runTime.Seconds()*float64(c.Checks)/max(c.Seconds, 1e-6)))
		if beyond {
			return n
		}
		return min(n, left)
	}
}

func (c *count) share() float64 { return float64(c.Checks+c.reserved) / float64(c.number()) }

// A record is the file with the number of passed checks of each property.
type record struct {
	file   string
	mu     sync.Mutex
	counts []*count
	others []*count // properties in the file that this command does not run
}

// open reads the file of earlier runs if it exists.
func open(file string, found []property) (*record, error) {
	r := &record{file: file}
	known := map[property]*count{}
	for _, p := range found {
		known[p] = &count{property: p}
		r.counts = append(r.counts, known[p])
	}
	b, err := os.ReadFile(file)
	if os.IsNotExist(err) {
		return r, nil
	}
	var earlier []*count
	if err == nil {
		err = json.Unmarshal(b, &earlier)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w; remove the file to start again", file, err)
	}
	for _, c := range earlier {
		if k := known[c.property]; k != nil {
			k.Checks, k.Seconds = c.Checks, c.Seconds // without Failed: a property that failed earlier runs again, because it may be fixed
		} else {
			r.others = append(r.others, c)
		}
	}
	return r, nil
}

// save writes the file.
func (r *record) save() error {
	b, err := json.MarshalIndent(append(r.counts[:len(r.counts):len(r.counts)], r.others...), "", " ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(r.file+".new", b, 0o644); err != nil {
		return err
	}
	return os.Rename(r.file+".new", r.file)
}

// take reserves the next run and returns its property, which has passed the smallest share of its required checks, and the number of
// checks. It returns nil if no run is necessary.
func (r *record) take(beyond bool) (c *count, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, other := range r.counts {
		if other.next(beyond) > 0 && (c == nil || other.share() < c.share()) {
			c = other
		}
	}
	if c == nil {
		return nil, 0
	}
	n = c.next(beyond)
	c.reserved += n
	return c, n
}

// put records the result of a run: the CPU time of passed checks, or the seed of a failure. An interrupted run adds no checks.
func (r *record) put(c *count, n int, o outcome) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	c.reserved -= n
	switch {
	case o.failed:
		c.Failed = o.seed
	case !o.interrupted:
		c.Checks += n
		c.Seconds += o.cpu.Seconds()
	}
	return r.save()
}

// failed returns the number of properties that failed.
func (r *record) failed() (n int) {
	for _, c := range r.counts {
		if c.Failed != 0 {
			n++
		}
	}
	return n
}

// print prints a table of all properties and a line with the totals.
func (r *record) print(to io.Writer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	checks, done := 0, 0
	fmt.Fprintln(w, "CHECKS\tOF\tMICROSECONDS\tPROPERTY\t")
	for _, c := range r.counts {
		result := ""
		if c.Failed != 0 {
			result = fmt.Sprintf("FAILED with -rapid.seed=%d", c.Failed)
		}
		fmt.Fprintf(w, "%d\t%d\t%.0f\t%s\t%s\n", c.Checks, c.number(), 1e6*c.Seconds/float64(max(c.Checks, 1)), c.property, result)
		checks += c.Checks
		if c.Checks >= c.number() {
			done++
		}
	}
	w.Flush()
	fmt.Fprintf(to, "%d of %d properties have their number of checks, %d checks in total\n", done, len(r.counts), checks)
}
