package main

import (
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
)

// A score counts the mutants of a sample.
type score struct {
	sampled, killed, timedOut, survived, equivalent, invalid, missing int
}

func (g *group) score() (s score) {
	for _, m := range g.sample {
		s.sampled++
		switch {
		case m.result.Outcome == invalid:
			s.invalid++
		case m.result.Outcome == "":
			s.missing++
		case m.result.Outcome == killed:
			s.killed++
		case m.result.Outcome == timedOut:
			s.timedOut++
		case m.equivalent != "":
			s.equivalent++
		default:
			s.survived++
		}
	}
	return s
}

func (s *score) add(o score) {
	s.sampled += o.sampled
	s.killed += o.killed
	s.timedOut += o.timedOut
	s.survived += o.survived
	s.equivalent += o.equivalent
	s.invalid += o.invalid
	s.missing += o.missing
}

// percent returns the share of detected mutants in percent. Mutants that are invalid, equivalent or were not run do not count.
func (s score) percent() float64 {
	detected := s.killed + s.timedOut
	return 100 * float64(detected) / float64(max(1, detected+s.survived))
}

// report writes the mutants that no test detected, and the table of scores.
func report(w io.Writer, groups []*group) {
	for _, g := range groups {
		for _, m := range g.sample {
			if m.result.Outcome == survived && m.equivalent == "" {
				fmt.Fprintf(w, "survived %s\n", m)
			}
		}
	}
	for _, g := range groups {
		for _, m := range g.sample {
			if m.result.Outcome == survived && m.equivalent != "" {
				fmt.Fprintf(w, "equivalent %s: %s\n", m, m.equivalent)
			}
		}
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "group\tmutants\tsampled\tkilled\ttimed out\tsurvived\tequivalent\tinvalid\tnot run\tscore\t")
	var total score
	all := 0
	row := func(name string, mutants int, s score) {
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%.1f%%\t\n", name, mutants, s.sampled, s.killed, s.timedOut, s.survived,
			s.equivalent, s.invalid, s.missing, s.percent())
	}
	for _, g := range groups {
		s := g.score()
		row(g.dir, len(g.all), s)
		total.add(s)
		all += len(g.all)
	}
	row("total", all, total)
	t.Flush()
}

// judge returns an error for each group whose score is below least or whose sample is incomplete. It also returns an error for a mutant
// that is listed as equivalent although a test detects it.
func judge(groups []*group, least float64) error {
	var errs []error
	for _, g := range groups {
		s := g.score()
		if s.missing > 0 {
			errs = append(errs, fmt.Errorf("%s: %d mutants were not run; run the command again to continue", g.dir, s.missing))
		}
		if s.percent() < least {
			errs = append(errs, fmt.Errorf("%s: the score is %.1f%%, want at least %g%%", g.dir, s.percent(), least))
		}
		for _, m := range g.sample {
			if m.equivalent != "" && (m.result.Outcome == killed || m.result.Outcome == timedOut) {
				errs = append(errs, fmt.Errorf("%s fails for a mutant that is listed as equivalent: %s", m.result.By, m))
			}
		}
	}
	return errors.Join(errs...)
}
