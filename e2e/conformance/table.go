package main

import (
	"fmt"
	"slices"
	"strings"
)

// table returns the markdown table of the results: one row a fault, and four columns a target.
func table(all []result, faults []fault) string {
	var targets []string
	for _, r := range all {
		if !slices.Contains(targets, r.Target) {
			targets = append(targets, r.Target)
		}
	}
	slices.Sort(targets)
	var b strings.Builder
	head, rule := "| fault |", "|---|"
	for _, t := range targets {
		head += fmt.Sprintf(" %s: wrong decreases (served / replicas) | recovery, median (max) | refused | runs |", t)
		rule += "---|---|---|---|"
	}
	fmt.Fprintf(&b, "%s\n%s\n", head, rule)
	for _, f := range faults {
		row := "| " + f.name + " |"
		for _, t := range targets {
			row += cells(of(all, t, f.name))
		}
		fmt.Fprintln(&b, row)
	}
	return b.String()
}

// cells returns the columns of one target for one fault.
func cells(runs []result) string {
	if len(runs) == 0 {
		return " | | | 0 |"
	}
	if why := runs[len(runs)-1].NotApplicable; why != "" {
		return fmt.Sprintf(" not applicable: %s | | | |", why)
	}
	served, replicas, refused, reads := 0, 0, 0, 0
	var recoveries []float64
	lost := 0
	for _, r := range runs {
		served += r.Count("served value")
		replicas += r.Count("spec.replicas")
		refused += r.Refused
		reads += r.Reads
		if r.Recovered {
			recoveries = append(recoveries, r.Recovery)
		} else {
			lost++
		}
	}
	decreases := fmt.Sprintf("%d / %d", served, replicas)
	if served+replicas > 0 {
		decreases = "**" + decreases + "**"
	}
	recovery := ""
	if slices.Sort(recoveries); len(recoveries) > 0 {
		recovery = fmt.Sprintf("%.1f (%.1f) s", recoveries[len(recoveries)/2], recoveries[len(recoveries)-1])
	}
	if lost > 0 {
		recovery = strings.TrimSpace(fmt.Sprintf("%s **not in %d**", recovery, lost))
	}
	return fmt.Sprintf(" %s | %s | %d of %d | %d |", decreases, recovery, refused, reads, len(runs))
}

// missing returns a line for the runs of a target that the results lack.
func missing(all []result, target string, faults []fault, runs int) string {
	var lacking []string
	for _, f := range faults {
		found := of(all, target, f.name)
		if n := len(found); n < runs && (n == 0 || found[n-1].NotApplicable == "") {
			lacking = append(lacking, fmt.Sprintf("%s (%d of %d)", f.name, n, runs))
		}
	}
	if len(lacking) == 0 {
		return ""
	}
	return fmt.Sprintf("missing runs of %s: %s\n", target, strings.Join(lacking, ", "))
}
