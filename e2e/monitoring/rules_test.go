package monitoring

import (
	"context"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"

	"github.com/gpuscaler/gpuscaler/pkg/golden"
)

const (
	root      = "../.."
	ruleFile  = root + "/config/alerts/gpuscaler.yaml"
	evalEvery = 30 * time.Second
)

func groups(t *testing.T, o *rules.ManagerOptions) []*rules.Group {
	t.Helper()
	o.Logger, o.Parser, o.Context = slog.New(slog.DiscardHandler), parser.NewParser(parser.Options{}), t.Context()
	o.NotifyFunc = func(context.Context, string, ...*rules.Alert) {}
	loaded, errs := rules.NewManager(o).LoadGroups(evalEvery, labels.EmptyLabels(), "", nil, false, ruleFile)
	for _, err := range errs {
		t.Fatal(err)
	}
	if len(loaded) < 2 {
		t.Fatalf("%d groups", len(loaded))
	}
	list := slices.Collect(maps.Values(loaded))
	// The recording rules are evaluated first, because the alerts read their results.
	slices.SortFunc(list, func(a, b *rules.Group) int { return strings.Compare(order(a), order(b)) })
	return list
}

func order(g *rules.Group) string {
	if g.Name() == "gpuscaler-gpus" {
		return ""
	}
	return g.Name()
}

// input maps each series, as text, to its samples in the notation of promtool.
type input map[string]string

// with returns a copy of the input in which the given series are replaced or added. An empty value removes a series.
func (w input) with(fault map[string]string) input {
	out := maps.Clone(w)
	for series, values := range fault {
		if values == "" {
			if _, ok := out[series]; !ok {
				panic("no such series: " + series)
			}
			delete(out, series)
			continue
		}
		out[series] = values
	}
	return out
}

func (w input) load() string {
	var text strings.Builder
	text.WriteString("load 1m\n")
	for _, series := range slices.Sorted(maps.Keys(w)) {
		text.WriteString("  " + series + " " + w[series] + "\n")
	}
	return text.String()
}

// firing evaluates the rules from minute 0 and returns the names of the alerts that fire at each of the given minutes.
func firing(t *testing.T, w input, minutes ...int) [][]string {
	t.Helper()
	out := make([][]string, len(minutes))
	evaluate(t, w, minutes, func(i int, groups []*rules.Group) { out[i] = active(t, groups) })
	return out
}

// firingAlerts evaluates the rules from minute 0 and returns the alerts that fire at the given minute.
func firingAlerts(t *testing.T, w input, minute int) (out []*rules.Alert) {
	t.Helper()
	evaluate(t, w, []int{minute}, func(_ int, groups []*rules.Group) {
		for _, g := range groups {
			for _, r := range g.AlertingRules() {
				out = append(out, slices.DeleteFunc(r.ActiveAlerts(), func(a *rules.Alert) bool { return a.State != rules.StateFiring })...)
			}
		}
	})
	return out
}

// evaluate evaluates the rules minute by minute from minute 0. At each of the given minutes, it calls see with the index of the minute in
// minutes and with the rule groups.
func evaluate(t *testing.T, w input, minutes []int, see func(i int, groups []*rules.Group)) {
	t.Helper()
	loader, err := promqltest.NewLazyLoader(w.load(), promqltest.LazyLoaderOpts{})
	if err != nil {
		t.Fatal(err)
	}
	defer loader.Close()
	loader.SubqueryInterval = evalEvery
	groups := groups(t, &rules.ManagerOptions{
		QueryFunc: rules.EngineQueryFunc(loader.QueryEngine(), loader.Storage()), Appendable: loader.Storage(),
	})
	last := slices.Max(minutes)
	for at := time.Duration(0); at <= time.Duration(last)*time.Minute; at += evalEvery {
		now := time.Unix(0, 0).UTC().Add(at)
		loader.WithSamplesTill(now, func(err error) {
			if err != nil {
				t.Fatal(err)
			}
			for _, g := range groups {
				g.Eval(loader.Context(), now)
			}
		})
		for i, m := range minutes {
			if at == time.Duration(m)*time.Minute {
				see(i, groups)
			}
		}
	}
}

func active(t *testing.T, groups []*rules.Group) (names []string) {
	t.Helper()
	for _, g := range groups {
		for _, r := range g.Rules() {
			if err := r.LastError(); err != nil {
				t.Fatalf("%s: %v", r.Name(), err)
			}
			alert, ok := r.(*rules.AlertingRule)
			if !ok {
				continue
			}
			if slices.ContainsFunc(alert.ActiveAlerts(), func(a *rules.Alert) bool { return a.State == rules.StateFiring }) {
				names = append(names, runbook(alert.Name()))
			}
		}
	}
	slices.Sort(names)
	return names
}

// runbook returns the name of an alert's runbook: the alert's name without the prefix of gpuscaler's alerts, for example GPUIdle for
// GpuscalerGPUIdle.
func runbook(alert string) string { return strings.TrimPrefix(alert, prefix) }

const prefix = "Gpuscaler"

// alerts returns the alerts in the file.
func alerts(t *testing.T) (all []*rules.AlertingRule) {
	t.Helper()
	for _, g := range groups(t, &rules.ManagerOptions{}) {
		for _, r := range g.Rules() {
			if a, ok := r.(*rules.AlertingRule); ok {
				all = append(all, a)
			}
		}
	}
	return all
}

func TestChartHasTheSameFiles(t *testing.T) {
	same := map[string]string{ruleFile: root + "/charts/gpuscaler/files/alerts.yaml"}
	boards, err := filepath.Glob(root + "/config/dashboards/*.json")
	if err != nil || len(boards) == 0 {
		t.Fatalf("no dashboards (%v)", err)
	}
	for _, path := range boards {
		same[path] = root + "/charts/gpuscaler/files/dashboards/" + filepath.Base(path)
	}
	for source, copied := range same {
		want, err := os.ReadFile(source)
		if err != nil {
			t.Fatal(err)
		}
		golden.Compare(t, copied, string(want))
	}
	shipped, _ := filepath.Glob(root + "/charts/gpuscaler/files/dashboards/*.json")
	if len(shipped) != len(boards) {
		t.Errorf("the chart has %d dashboards, config has %d", len(shipped), len(boards))
	}
}
