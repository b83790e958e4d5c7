package decisions

import (
	"bytes"
	"encoding/gob"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/scaling/objective"
)

var (
	benchFamilies = flag.String("families", "", "families separated by commas (of whole requests: requests-NAME; published: llm-d), or "+
		"developed, held-out, requests, all; empty: no benchmark")
	benchSeeds   = flag.String("seeds", "1,2", "seeds, separated by commas")
	benchColds   = flag.String("colds", "60s,180s,300s,600s", "cold starts")
	benchWaits   = flag.String("waits", "10s,60s", "allowed waits")
	benchPct     = flag.String("percentiles", "95,99,99.9", "percentiles")
	benchAnchors = flag.String("anchors", "", "file that keeps the scores of the anchors, to save time when only the policy changes")
	benchTuning  = flag.String("tuning", "", "changed constants, for example Event=1,Caution=0.5")
	benchQuiet   = flag.Bool("quiet", false, "print the summaries only")
	benchSampled = flag.Bool("sampled", false, "policies with an objective read samples as in a usual installation: scrapes and polls every "+
		"15 s, rates over a minute")
	benchVary = flag.Bool("vary", false, "also print the summary without each part, and with half and twice each constant")
)

// TestBenchDecisions prints the table of `make bench-decisions`.
func TestBenchDecisions(t *testing.T) {
	if *benchFamilies == "" {
		t.Skip("the benchmark runs with -families only: see make bench-decisions")
	}
	g := grid{tuning: tuned(t, *benchTuning), anchors: readAnchors(t), sampled: *benchSampled}
	g.seeds = parsed(t, *benchSeeds, func(s string) (uint64, error) { return strconv.ParseUint(s, 10, 64) })
	g.colds, g.waits = parsed(t, *benchColds, time.ParseDuration), parsed(t, *benchWaits, time.ParseDuration)
	g.percentiles = parsed(t, *benchPct, func(s string) (float64, error) { return strconv.ParseFloat(s, 64) })
	if strings.Contains(","+*benchFamilies+",", ",llm-d,") || *benchFamilies == "all" {
		g.writeEpisode(os.Stdout, &llmd)
		if *benchFamilies == "llm-d" {
			return
		}
	}
	of, only := chosenRequests()
	if g.writeRequests(os.Stdout, of, *benchQuiet); only {
		return
	}
	g.families = chosenFamilies(t)
	g.write(os.Stdout, *benchQuiet)
	writeAnchors(t, g.anchors)
	if *benchVary {
		for _, v := range variants(g.tuning) {
			g.tuning = v.tuning
			all := g.summary()
			all.write(os.Stdout, v.name)
		}
	}
}

type variant struct {
	name   string
	tuning objective.Tuning
}

// variants returns variants of the constants base. In each variant, one kind of rule is left out, or one constant is set to zero, to half
// or to twice its value. Constants in notZero are not set to zero.
func variants(base objective.Tuning) (out []variant) {
	for i, name := range []string{"trend rules", "season rules", "peak rules", "hour rules"} {
		v := variant{"no " + name, base}
		v.tuning.Without = 1 << i
		out = append(out, v)
	}
	fields := reflect.TypeFor[objective.Tuning]()
	for i := range fields.NumField() {
		for _, factor := range []float64{0, 0.5, 2} {
			v := variant{fmt.Sprintf("%s x%v", fields.Field(i).Name, factor), base}
			if f := reflect.ValueOf(&v.tuning).Elem().Field(i); f.CanFloat() && !(factor == 0 && slices.Contains(notZero, fields.Field(i).Name)) {
				f.SetFloat(f.Float() * factor)
				out = append(out, v)
			}
		}
	}
	return out
}

// notZero lists the constants that must not be 0, because they are factors or durations.
var notZero = []string{"Stay", "Drain", "Memory", "SafeMargin"}

// chosenRequests returns the families of traffic that the flag -families selects for the simulator of single requests. only is true if the
// flag selects no family of another kind.
func chosenRequests() (out []requestFamily, only bool) {
	switch *benchFamilies {
	case "requests":
		return requestFamilies, true
	case "all":
		return requestFamilies, false
	}
	for _, name := range strings.Split(*benchFamilies, ",") {
		name, isRequests := strings.CutPrefix(name, "requests-")
		for _, f := range requestFamilies {
			if isRequests && f.name == name {
				out = append(out, f)
			}
		}
	}
	return out, len(out) == strings.Count(*benchFamilies, ",")+1
}

func chosenFamilies(t *testing.T) (out []family) {
	early, late := developed, heldOut
	dir := filepath.Join("..", "..", "..", "..", "shared", "data")
	if recorded, held, err := recordedFamilies(dir); err != nil {
		fmt.Printf("without the shared traces: %v\n", err)
	} else {
		early, late = slices.Concat(early, recorded), slices.Concat(late, held)
	}
	switch *benchFamilies {
	case "all":
		return slices.Concat(early, late)
	case "developed":
		return early
	case "held-out":
		return late
	}
	for _, name := range strings.Split(*benchFamilies, ",") {
		if strings.HasPrefix(name, "requests-") || name == "llm-d" {
			continue
		}
		i := slices.IndexFunc(slices.Concat(early, late), func(f family) bool { return f.name == name })
		if i < 0 {
			t.Fatalf("-families %s: no such family", name)
		}
		out = append(out, slices.Concat(early, late)[i])
	}
	return out
}

func parsed[T any](t *testing.T, list string, parse func(string) (T, error)) (out []T) {
	t.Helper()
	for _, text := range strings.Split(list, ",") {
		v, err := parse(text)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, v)
	}
	return out
}

// tuned returns the default constants with the changes in the flag -tuning. The flag has the form Name=number,Name=number.
func tuned(t *testing.T, changes string) objective.Tuning {
	out := objective.DefaultTuning()
	for _, change := range strings.FieldsFunc(changes, func(r rune) bool { return r == ',' }) {
		name, text, _ := strings.Cut(change, "=")
		field := reflect.ValueOf(&out).Elem().FieldByName(name)
		value, err := strconv.ParseFloat(text, 64)
		switch {
		case err != nil || !field.IsValid():
			t.Fatalf("-tuning %s: write a field of objective.Tuning and a number", change)
		case field.CanFloat():
			field.SetFloat(value)
		default:
			field.SetUint(uint64(value))
		}
	}
	return out
}

func readAnchors(t *testing.T) map[string]map[float64]anchors {
	out := map[string]map[float64]anchors{}
	if data, err := os.ReadFile(*benchAnchors); err == nil {
		if err := gob.NewDecoder(bytes.NewReader(data)).Decode(&out); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func writeAnchors(t *testing.T, all map[string]map[float64]anchors) {
	if *benchAnchors == "" {
		return
	}
	var out bytes.Buffer
	if err := gob.NewEncoder(&out).Encode(all); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(*benchAnchors, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
}
