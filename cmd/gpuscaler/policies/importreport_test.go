package policies

import (
	"strings"
	"testing"

	"github.com/gpuscaler/gpuscaler/cmd/gpuscaler/commandline/commandtest"
)

const auditReport = `{"schema": "gpuscaler.io/audit/v1", "workloads": [
  {"workload": "team-embed/embed-worker", "autoscaler": "ScaledObject embed-worker", "costPerMonth": 900.4,
   "forecast": {"gpuscalerPerMonth": 512.1, "gpuscalerMeetsSLO": false}},
  {"workload": "other/transcribe", "autoscaler": "HorizontalPodAutoscaler transcribe", "costPerMonth": 7777},
  {"workload": "team-audio/transcribe", "autoscaler": "HorizontalPodAutoscaler transcribe", "costPerMonth": 1200}],
 "waste": [{"of": "team-audio/transcribe", "cause": "floor", "costPerMonth": 300}, {"of": "team-audio/transcribe", "cause": "headroom"},
  {"of": "team-embed/embed-worker", "cause": "start", "costPerMonth": null}]}`

// The report of a whole cluster has one row for each object with the figures of the audit, the most expensive object first. Figures of an
// object with the same name in another namespace must not be used.
func TestReportOfAnImportHasTheFiguresOfTheAudit(t *testing.T) {
	file := commandtest.File(t, "audit.json", auditReport)
	text, err := command(t, "import", "-f", importedSO, "-f", importedHPA, "--dir", t.TempDir(), "--report", file)
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(text, "OBJECT ")
	lines := strings.Split(table, "\n")
	if !found || len(lines) < 4 {
		t.Fatalf("no table of two objects in\n%s", text)
	}
	for i, cells := range [][]string{{"HorizontalPodAutoscaler team-audio/transcribe", "$1200", " - ", "floor $300"},
		{"ScaledObject team-embed/embed-worker", "all but ", "$900", "$512 (misses the SLO)", "start ?"}} {
		for _, cell := range cells {
			if !strings.Contains(lines[i+1], cell) {
				t.Errorf("no %q in row %d: %q", cell, i+1, lines[i+1])
			}
		}
	}
	if !strings.Contains(lines[3], "2 objects, ") || !strings.Contains(lines[3], "the audit has the cost of 2: $2100 per month") {
		t.Errorf("sum: %q", lines[3])
	}
}

// If the audit does not contain an object, its row must contain no figures. Zeros would be wrong.
func TestReportWithoutFiguresIsNotZero(t *testing.T) {
	file := commandtest.File(t, "audit.json", `{"schema": "gpuscaler.io/audit/v1"}`)
	text, err := command(t, "import", "-f", importedSO, "--dir", t.TempDir(), "--report", file)
	if err != nil || !strings.Contains(text, "  ?  ") || !strings.Contains(text, "the cost of 0: $0 per month") {
		t.Errorf("%v\n%s", err, text)
	}
}

func TestUnusableReportsAreRefused(t *testing.T) {
	for content, want := range map[string]string{"{": "create it with `gpuscaler audit -o json --file FILE`",
		`{"schema": "gpuscaler.io/audit/v0"}`: `schema "gpuscaler.io/audit/v0", want "gpuscaler.io/audit/v1"`} {
		file := commandtest.File(t, "audit.json", content)
		if text, err := command(t, "import", "-f", importedSO, "--report", file); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v\n%s", content, err, text)
		}
	}
	_, err := command(t, "import", "-f", importedSO, "--report", "x.json", "-o", "json")
	if err == nil || !strings.Contains(err.Error(), "-o text") {
		t.Errorf("with -o json: %v", err)
	}
}
