package lowerbound

import (
	"fmt"
	"strings"
)

// String returns the interval in one line.
func (i Interval) String() string {
	return fmt.Sprintf("at least %.4f, and %.4f suffices (UB/LB %.4f) with %d of %d requests late, %d allowed",
		i.LB, i.UB, i.Gap(), i.Late, i.Jobs, i.Allowed)
}

// Explain returns the text for reports: the interval, its accuracy, and what the model omits.
func (i Interval) Explain() string {
	var b strings.Builder
	fmt.Fprintln(&b, i)
	switch {
	case i.Exact:
		fmt.Fprintln(&b, "  exact: the two ends meet")
	case i.Clamped:
		fmt.Fprintf(&b, "  the lower end leans on backlog dropped for free: %d MB of tables were too few\n", i.Bytes>>20)
	}
	fmt.Fprintf(&b, "  %d dynamic programs, %d of them over every number of replicas; a late request is worth "+
		"%.6f\n", i.Solves, i.FullSolves, i.Lambda)
	for _, r := range i.Relaxations {
		fmt.Fprintln(&b, "  -", r)
	}
	return b.String()
}
