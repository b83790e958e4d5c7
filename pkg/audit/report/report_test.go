package report

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/audit"
	"github.com/gpuscaler/gpuscaler/pkg/golden"
	"github.com/gpuscaler/gpuscaler/pkg/replay/evaluate"
)

// example returns the report of the sample snapshot.
func example(t *testing.T) *audit.Report {
	t.Helper()
	s, err := audit.Sample()
	if err != nil {
		t.Fatal(err)
	}
	return run(t, s)
}

func run(t *testing.T, s *audit.Snapshot) *audit.Report {
	t.Helper()
	r, err := audit.Run(context.Background(), s, audit.Options{
		SLO: evaluate.SLO{Share: 0.99, Wait: 10 * time.Second}, Replay: 6 * time.Hour, ColdStart: 3 * time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func render(t *testing.T, write func(io.Writer, *audit.Report) error, r *audit.Report) string {
	t.Helper()
	var out bytes.Buffer
	if err := write(&out, r); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestReportsOfTheSample(t *testing.T) {
	r := example(t)
	golden.Compare(t, "testdata/sample.txt", render(t, WriteText, r))
	golden.Compare(t, "testdata/sample.report.json", render(t, WriteJSON, r))
	golden.Compare(t, "testdata/sample.html", render(t, WriteHTML, r))
}

// Users of the cluster choose the names in a report. No report may contain control characters or markup from these names.
func TestHostileNamesAreEscaped(t *testing.T) {
	s, err := audit.Sample()
	if err != nil {
		t.Fatal(err)
	}
	w := &s.Workloads[0]
	w.Name, w.Autoscaler.Metrics, s.Cluster = "a\x1b[2J\u202e<script>alert(1)</script>", []string{"\x1b]0;x\x07"}, "<img src=x>\x1b[1m"
	for i := range s.Workloads {
		s.Workloads[i].Service = 0 // a workload without a service time is not replayed
	}
	r := run(t, s)
	text := render(t, WriteText, r)
	if strings.ContainsAny(text, "\x1b\x07\u202e") {
		t.Errorf("the text contains control characters:\n%q", text)
	}
	html := render(t, WriteHTML, r)
	if strings.Contains(html, "<script>alert") || strings.Contains(html, "<img src=x>") || !strings.Contains(html, "&lt;script&gt;") {
		t.Error("the page contains the markup of a name")
	}
}

// Without data the reports say which data is missing, and contain neither 0 nor NaN.
func TestReportsWithoutData(t *testing.T) {
	s, err := audit.Sample()
	if err != nil {
		t.Fatal(err)
	}
	for i := range s.Workloads {
		w := &s.Workloads[i]
		w.Ready, w.Held, w.Running, w.Waiting, w.Started, w.OnTime = nil, nil, nil, nil, nil, nil
	}
	s.Pools = nil
	r := run(t, s)
	for name, write := range map[string]func(io.Writer, *audit.Report) error{"text": WriteText, "html": WriteHTML, "json": WriteJSON} {
		text := render(t, write, r)
		if strings.Contains(text, "NaN") || strings.Contains(text, "$0") || !strings.Contains(text, "kube_pod_container_resource_requests") {
			t.Errorf("%s without data:\n%s", name, text[:min(len(text), 4000)])
		}
	}
	s.Workloads = nil
	r = run(t, s)
	if text := render(t, WriteText, r); !strings.Contains(text, "no HPA and no ScaledObject") || strings.Contains(text, "NaN") {
		t.Errorf("without workloads:\n%s", text)
	}
	if html := render(t, WriteHTML, r); strings.Contains(html, "NaN") {
		t.Error("the page without workloads contains NaN")
	}
}
