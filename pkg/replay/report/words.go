package report

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/picture"
	"github.com/gpuscaler/gpuscaler/pkg/replay/evaluate"
)

// headline returns the first lines of a report: the evaluated policies, their traffic, the SLO, the cold start and the seed.
func headline(r *evaluate.Report) string {
	cold := "cold start by phases (see assumptions)"
	if r.ColdStart > 0 {
		cold = "cold start " + span(r.ColdStart)
	}
	spot := ""
	if r.Traffic.Spot != "" {
		spot = ", spot by " + r.Traffic.Spot
	}
	slo := "SLO " + objective(r.SLO)
	if n := len(r.Workloads); n > 0 {
		slo = fmt.Sprintf("%d workloads in one cluster, each with its SLO", n)
	}
	words := ""
	if r.Words != "" {
		words = r.Words + "\n"
	}
	return words + fmt.Sprintf("%s on %s: %s requests in %s%s\n%s%s; %s at the start, %s, seed %d",
		r.Policy, r.Traffic.Name, picture.Thousands(r.Traffic.Requests), span(r.Traffic.Duration), spot, reportPart(&r.Traffic), slo,
		replicas(r.Initial), cold, r.Seed)
}

// reportPart returns a line that describes the part of the traffic that the results cover, or "" if they cover the whole traffic.
func reportPart(t *evaluate.Traffic) string {
	if t.Train == 0 {
		return ""
	}
	return fmt.Sprintf("results of the report part, the last %s with %s requests; in the train part before it, the first %s, policies "+
		"learn and settings are searched\n", span(t.Duration-t.Train), picture.Thousands(t.Requests-t.TrainRequests), span(t.Train))
}

func replicas(n int32) string {
	if n == 1 {
		return "1 replica"
	}
	return fmt.Sprintf("%d replicas", n)
}

func objective(o evaluate.Objective) string {
	return fmt.Sprintf("%s of requests wait at most %s", percent(o.Share), span(o.Wait))
}

// Verdict returns whether a run meets the SLO, in words.
func Verdict(run *evaluate.Run) string {
	switch {
	case run.MeetsSLO:
		return "meets"
	case len(run.Workloads) > 0:
		return fmt.Sprintf("misses %d of %d", run.Missed(), len(run.Workloads))
	}
	return "misses SLO"
}

// verdict returns whether one workload meets its SLO, in words.
func verdict(l *evaluate.Load) string {
	if l.MeetsSLO {
		return "meets"
	}
	return "misses SLO"
}

// conclusion summarizes the report in one or two sentences.
func conclusion(r *evaluate.Report) string {
	ours := &r.Runs[0]
	out := compared(r)
	if r.SavedSmallest != nil {
		out += fmt.Sprintf(" It costs %s than the smallest static fleet that meets the SLO.", lessOrMore(*r.SavedSmallest))
	}
	if r.Saved == nil {
		return out
	}
	if ours.MeetsSLO {
		out += fmt.Sprintf(" It costs %s than the static fleets.", lessOrMore(*r.Saved))
		if r.SavedSmallest == nil && r.Run("static", evaluate.Tuned) == nil {
			out += " They can be larger than necessary: the baseline static compares with the smallest one that meets the SLO."
		}
		return out
	}
	return out + fmt.Sprintf(" It costs %s than the static fleets, but this is not a saving.", lessOrMore(*r.Saved))
}

func lessOrMore(saved float64) string {
	if saved < 0 {
		return percent(-saved) + " more"
	}
	return percent(saved) + " less"
}

// compared returns a sentence that compares gpuscaler with the cheapest baseline that meets the SLO.
func compared(r *evaluate.Report) string {
	if r.Cheapest == "" {
		return "No run meets the SLO."
	}
	ours, meets := &r.Runs[0], "gpuscaler meets the SLO"
	if len(r.Workloads) > 0 {
		meets = "gpuscaler meets every workload's SLO"
	}
	if !ours.MeetsSLO {
		what := percent(ours.OnTime) + " on time"
		if n := len(r.Workloads); n > 0 {
			what = fmt.Sprintf("%d of %d workloads do", ours.Missed(), n)
		}
		return fmt.Sprintf("gpuscaler misses the SLO: %s. The cheapest run that meets it is %s.", what, r.Cheapest)
	}
	var next *evaluate.Run
	baselines := 0
	for i := range r.Runs[1:] {
		run := &r.Runs[1+i]
		if run.Variant == evaluate.Clairvoyant || run.Name == evaluate.StaticFleet {
			continue
		}
		if baselines++; run.MeetsSLO && (next == nil || run.Cost < next.Cost) {
			next = run
		}
	}
	switch {
	case baselines == 0:
		return meets + "."
	case next == nil:
		return meets + ", and no baseline does."
	case ours.Cost == next.Cost: // no saving is computed here, because both costs can be 0
		return fmt.Sprintf("%s; %s does so at the same cost.", meets, next.Title())
	case ours.Cost < next.Cost:
		saved := percent(1 - ours.Cost/next.Cost)
		return fmt.Sprintf("%s at %s less than %s, the cheapest baseline that also meets it.", meets, saved, next.Title())
	}
	return fmt.Sprintf("%s; %s does so at %s less.", meets, next.Title(), percent(1-next.Cost/ours.Cost))
}

// Settings returns the settings of a tuned run in words.
func Settings(run *evaluate.Load) string {
	var parts []string
	for _, s := range run.Settings {
		parts = append(parts, s.Name+" "+strconv.FormatFloat(s.Value, 'f', -1, 64))
	}
	if run.Tried > 0 {
		parts = append(parts, fmt.Sprintf("best of %d", run.Tried))
	}
	if len(parts) == 0 {
		return "-"
	}
	return strings.Join(parts, "; ")
}

func percent(share float64) string { return strconv.FormatFloat(100*share, 'f', 2, 64) + "%" }

// money formats a price in $, with three decimals below $100, because the costs of baselines can differ only in the third decimal.
func money(v float64) string {
	if v >= 100 {
		return "$" + strconv.FormatFloat(v, 'f', 2, 64)
	}
	return "$" + strconv.FormatFloat(v, 'f', 3, 64)
}

func ratio(v *float64) string {
	if v == nil {
		return "-"
	}
	return strconv.FormatFloat(*v, 'f', 3, 64)
}

// byType returns text with the cost of a run for each capacity type, in alphabetical order of the types.
func byType(run *evaluate.Run) string {
	var parts []string
	for kind, cost := range run.CostBy {
		parts = append(parts, kind+" "+money(cost))
	}
	slices.Sort(parts)
	return strings.Join(parts, " + ")
}

func span(seconds float64) string {
	return picture.Span(time.Duration(seconds * float64(time.Second)))
}

// subjectLine describes the traffic and the SLO of one of several workloads.
func subjectLine(s *evaluate.Subject) string {
	return fmt.Sprintf("%s: %s requests; SLO %s; %s at the start%s",
		s.Traffic.Name, picture.Thousands(s.Traffic.Requests-s.Traffic.TrainRequests), objective(s.SLO), replicas(s.Initial), least(s))
}
