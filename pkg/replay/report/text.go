// Package report renders a report of package evaluate as a table for a terminal, as JSON, and as one self-contained HTML page.
package report

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/gpuscaler/gpuscaler/pkg/replay/evaluate"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/ledger"
)

// WriteJSON writes the report as JSON. evaluate.Schema names the format, and config/schema/replay.md documents it.
func WriteJSON(w io.Writer, r *evaluate.Report) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// WriteText writes the report for a terminal.
func WriteText(w io.Writer, r *evaluate.Report) error {
	out := &strings.Builder{}
	fmt.Fprintln(out, headline(r))
	for _, line := range r.Warnings {
		fmt.Fprintln(out, "WARNING ", line)
	}
	fmt.Fprintf(out, "\n%s\n%s\n", sideBySide(r), conclusion(r))
	for i := range r.Workloads {
		fmt.Fprintf(out, "\n%s on %s\n%s", r.Workloads[i].Policy, subjectLine(&r.Workloads[i]), ofWorkload(r, i))
	}
	fmt.Fprintf(out, "\n%s\nGPU TIME BY CAUSE, %% of the paid GPU time\n%s", whatRuns(r), gpuTime(r))
	writeBounds(out, r)
	if len(r.Gates) > 0 {
		fmt.Fprintf(out, "\nGATES\n%s", gates(r))
	}
	fmt.Fprintf(out, "\nASSUMPTIONS\n%s", assumptions(r))
	_, err := io.WriteString(w, out.String())
	return err
}

// least returns text with the request-level bound of one workload, or with the reason why it has none. It returns "" if no bound was
// requested.
func least(s *evaluate.Subject) string {
	for i := range s.Bounds {
		switch b := &s.Bounds[i]; {
		case b.Kind != evaluate.RequestBound:
		case b.Problem != "":
			return "; no bound: " + b.Problem
		default:
			return "; at least " + money(b.Lower)
		}
	}
	return ""
}

// causes returns the causes of paid GPU time that occur in at least one run.
func causes(r *evaluate.Report) (used []ledger.Cause) {
	for c := range len(ledger.Ledger{}) {
		if slices.ContainsFunc(r.Runs, func(run evaluate.Run) bool { return run.Ledger[c] > 0 }) {
			used = append(used, ledger.Cause(c))
		}
	}
	return used
}

// share returns the share of a cause in the paid GPU time of a run.
func share(run *evaluate.Run, c ledger.Cause) float64 {
	sum := run.Ledger.Sum()
	if sum == 0 {
		return 0
	}
	return float64(run.Ledger[c]) / float64(sum)
}

func writeBounds(out io.Writer, r *evaluate.Report) {
	for _, b := range r.Bounds {
		name := boundName(b.Kind)
		if b.Problem != "" {
			fmt.Fprintf(out, "\n%s: none, %s\n", name, b.Problem)
			continue
		}
		fmt.Fprintf(out, "\n%s: at least %s; in its model %s suffices (UB/LB %.4f), %d late of %d allowed\n",
			name, money(b.Lower), money(b.Upper), b.Gap, b.Late, b.Allowed)
		for _, line := range b.Relaxations {
			fmt.Fprintln(out, "  -", line)
		}
	}
}

func boundName(kind string) string {
	if kind == evaluate.FluidBound {
		return "CLAIRVOYANT, FLUID TIME SLOTS (÷ FLUID BOUND)"
	}
	return "CLAIRVOYANT, REQUEST LEVEL (COST ÷ BOUND; no first-in-first-out run can cost less)"
}
