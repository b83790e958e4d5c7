package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gpuscaler/gpuscaler/e2e/conformance/judge"
)

// result is one line of a results file.
type result struct {
	Target string    `json:"target"`
	Fault  string    `json:"fault"`
	At     time.Time `json:"at"`
	// NotApplicable is the reason why the fault cannot apply to the target; empty: it was injected.
	NotApplicable string  `json:"notApplicable,omitempty"`
	Held          float64 `json:"heldSeconds"` // from the injection to the end of the fault
	judge.Verdict
	MachineLoad float64 `json:"machineLoad"` // load of the machine, averaged over the minute before the end of the run
	Commit      string  `json:"commit,omitempty"`
}

// failure describes what was wrong, or is empty.
func (r result) failure() string {
	switch {
	case r.NotApplicable != "":
		return ""
	case len(r.Decreases) > 0:
		return r.Decreases[0].String()
	case !r.Recovered:
		return "not recovered"
	}
	return ""
}

func (r result) String() string {
	if r.NotApplicable != "" {
		return "not applicable: " + r.NotApplicable
	}
	recovery := "not recovered"
	if r.Recovered {
		recovery = fmt.Sprintf("recovered after %.1f s", r.Recovery)
	}
	text := fmt.Sprintf("%d wrong decreases, %s, %d of %d reads refused", len(r.Decreases), recovery, r.Refused, r.Reads)
	if len(r.Decreases) > 0 {
		text += fmt.Sprintf(" (%s)", r.Decreases[0])
	}
	return text
}

const extension = ".jsonl"

// appendResult adds a line to the file of its target. Several commands may write the same file.
func appendResult(dir string, r result) error {
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(filepath.Join(dir, r.Target+extension), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = file.Write(append(line, '\n'))
	return errors.Join(err, file.Close())
}

// readAll reads the results of all targets, in the order of the targets' names.
func readAll(dir string) (all []result, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "*"+extension))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		found, err := readResults(file)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

func readResults(path string) (all []result, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		var r result
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("%s:%d: %w: remove the line", path, n, err)
		}
		all = append(all, r)
	}
	return all, lines.Err()
}

// of returns the results of a target and a fault.
func of(all []result, target, fault string) (found []result) {
	for _, r := range all {
		if r.Target == target && r.Fault == fault {
			found = append(found, r)
		}
	}
	return found
}

// defects returns an error that names each fault after which the target had a wrong decrease or did not recover.
func defects(all []result, target string, faults []fault) error {
	var found []string
	for _, f := range faults {
		for _, r := range of(all, target, f.name) {
			if what := r.failure(); what != "" {
				found = append(found, fmt.Sprintf("%s at %s: %s", f.name, r.At.UTC().Format(time.RFC3339), what))
			}
		}
	}
	if len(found) == 0 {
		return nil
	}
	return fmt.Errorf("%s failed in %d runs:\n%s", target, len(found), strings.Join(found, "\n"))
}
