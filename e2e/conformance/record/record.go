// Package record stores the results of conformance runs in a CSV file (the record), decides which runs count, and prints the results as a
// table. A run is one injection of a fault while an external metrics adapter (the target) serves HPAs.
package record

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/gpuscaler/gpuscaler/e2e/conformance/judge"
)

// Fault identifies the fault of a run.
type Fault struct {
	Name       string
	Definition string // hash of the fault's settings; only runs with the same hash count
}

// Result is the result of one run of a fault. It is one line of the CSV file.
type Result struct {
	Target     string
	Fault      string
	Definition string // hash of the fault's settings, see Fault.Definition
	Version    string // version of the target; empty: unknown
	At         time.Time
	Load       float64 // load of the machine, averaged over the minute before the end of the run; 0: unknown
	Outcome    string  // Recovered, Lost or Inapplicable
	Recovery   float64 // seconds from the end of the fault until all values and replicas were correct and stayed correct
	Served     int     // wrong decreases of served values
	Replicas   int     // wrong decreases of spec.replicas
	Refused    int     // number of reads that returned no value
	Reads      int     // number of all reads
	Note       string  // the first wrong decrease, or the reason why the fault does not apply to the target
}

// Outcomes of a run.
const (
	Recovered    = "recovered"
	Lost         = "not recovered"
	Inapplicable = "not applicable"
)

// Judged sets the outcome and the counts of a result from a verdict.
func (r *Result) Judged(v judge.Verdict) {
	r.Outcome, r.Recovery, r.Refused, r.Reads = Lost, v.Recovery, v.Refused, v.Reads
	if v.Recovered {
		r.Outcome = Recovered
	}
	r.Served, r.Replicas = v.Count(judge.Served), v.Count(judge.Replicas)
	if len(v.Decreases) > 0 {
		r.Note = v.Decreases[0].String()
	}
}

// Failure describes what went wrong in the run. It is empty for a run without a failure.
func (r Result) Failure() string {
	switch {
	case r.Outcome == Inapplicable:
		return ""
	case r.Served+r.Replicas > 0:
		return r.Note
	case r.Outcome == Lost:
		return Lost
	}
	return ""
}

func (r Result) String() string {
	if r.Outcome == Inapplicable {
		return Inapplicable + ": " + r.Note
	}
	recovery := Lost
	if r.Outcome == Recovered {
		recovery = fmt.Sprintf("recovered after %.1f s", r.Recovery)
	}
	text := fmt.Sprintf("%d wrong decreases, %s, %d of %d reads refused", r.Served+r.Replicas, recovery, r.Refused, r.Reads)
	if r.Note != "" {
		text += fmt.Sprintf(" (%s)", r.Note)
	}
	return text
}

// columns is the first line of the CSV file.
const columns = "target,fault,definition,version,at,load,outcome,recovery,served,replicas,refused,reads,note"

func (r Result) line() []string {
	load := ""
	if r.Load > 0 {
		load = strconv.FormatFloat(r.Load, 'f', 0, 64)
	}
	return []string{r.Target, r.Fault, r.Definition, r.Version, r.At.UTC().Format(time.RFC3339), load, r.Outcome,
		strconv.FormatFloat(r.Recovery, 'f', 1, 64), strconv.Itoa(r.Served), strconv.Itoa(r.Replicas), strconv.Itoa(r.Refused),
		strconv.Itoa(r.Reads), r.Note}
}

func parseResult(line []string) (Result, error) {
	r := Result{Target: line[0], Fault: line[1], Definition: line[2], Version: line[3], Outcome: line[6], Note: line[12]}
	var err error
	if r.At, err = time.Parse(time.RFC3339, line[4]); err != nil {
		return r, err
	}
	for i, to := range map[int]*float64{5: &r.Load, 7: &r.Recovery} {
		if i == 5 && line[i] == "" {
			continue
		}
		if *to, err = strconv.ParseFloat(line[i], 64); err != nil {
			return r, err
		}
	}
	for i, to := range map[int]*int{8: &r.Served, 9: &r.Replicas, 10: &r.Refused, 11: &r.Reads} {
		if *to, err = strconv.Atoi(line[i]); err != nil {
			return r, err
		}
	}
	if r.Outcome != Recovered && r.Outcome != Lost && r.Outcome != Inapplicable {
		return r, fmt.Errorf("outcome %q", r.Outcome)
	}
	return r, nil
}

// Append adds a line to the CSV file with one write, so that several commands can append to the same file at the same time.
func Append(path string, r Result) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer file.Close()
	var text strings.Builder
	w := csv.NewWriter(&text)
	if info, err := file.Stat(); err != nil {
		return err
	} else if info.Size() == 0 {
		text.WriteString(columns + "\n")
	}
	if err := w.Write(r.line()); err != nil {
		return err
	}
	w.Flush()
	_, err = file.WriteString(text.String())
	return errors.Join(w.Error(), err)
}

// readRecord returns the results in a CSV file. It returns no results and no error if the file does not exist.
func readRecord(path string) (all []Result, err error) {
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	lines := csv.NewReader(file)
	lines.FieldsPerRecord = strings.Count(columns, ",") + 1
	for n := 1; ; n++ {
		line, err := lines.Read()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err == nil && n == 1 {
			if got := strings.Join(line, ","); got != columns {
				return nil, fmt.Errorf("%s:1: %s: want %s", path, got, columns)
			}
			continue
		}
		var r Result
		if err == nil {
			r, err = parseResult(line)
		}
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w: remove the line", path, n, err)
		}
		all = append(all, r)
	}
}
