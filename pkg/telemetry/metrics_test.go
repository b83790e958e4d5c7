package telemetry

import (
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

func TestPollsAreCountedByResultAndReadingsByCause(t *testing.T) {
	registry := prometheus.NewRegistry()
	server := newFaulty(t)
	a, b := compiled("chat", "llama", querySource()), compiled("chat", "other", querySource())
	p := newPoller(t, Options{Registerer: registry})
	p.SetPolicies([]*policy.Compiled{a, b}, platformOf(promSource(server.URL)))
	server.does(text(answerOf("5"))) // the response contains a series of the workload llama only
	pollOnce(t, p)
	server.does(status(500, ""))
	pollOnce(t, p)
	got := map[string]float64{}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, l := range m.GetLabel() {
				name += " " + l.GetValue()
			}
			got[name] = m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	for name, want := range map[string]float64{
		"gpuscaler_source_polls_total query ok prom":                     1,
		"gpuscaler_source_polls_total query http_error prom":             1,
		"gpuscaler_source_poll_duration_seconds query prom":              2,
		"gpuscaler_source_unusable_readings_total empty query prom":      1,
		"gpuscaler_source_unusable_readings_total http_error query prom": 2,
		"gpuscaler_source_received_bytes_total query prom":               float64(len(answerOf("5"))),
	} {
		if got[name] != want {
			t.Errorf("%s is %g, want %g; all: %s", name, got[name], want, fmt.Sprint(got))
		}
	}
	if _, err := New(Options{Registerer: registry}); err == nil {
		t.Error("two pollers use one registry")
	}
}

// The name of a cause is a label value of a metric: every cause must have a name, and two causes must not have the same name.
func TestEachCauseHasItsOwnName(t *testing.T) {
	names, texts := map[string]bool{}, map[string]bool{}
	for cause := range scaling.Causes {
		names[cause.Label()], texts[cause.String()] = true, true
		if cause.Label() == "" || (cause.String() == "") != (cause == scaling.CauseNone) {
			t.Errorf("cause %d has the name %q and the text %q", cause, cause.Label(), cause)
		}
	}
	if n := int(scaling.Causes); len(names) != n || len(texts) != n {
		t.Errorf("%d names and %d texts of %d causes", len(names), len(texts), n)
	}
}
