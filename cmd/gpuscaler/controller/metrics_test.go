package controller

import (
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuscaler/gpuscaler/pkg/externalmetrics"
	"github.com/gpuscaler/gpuscaler/pkg/golden"
)

const metricReference = "../../../config/metrics.md"

const referenceHead = `# Metrics of gpuscaler

Generated from the code by ` + "`make generate`" + `; do not edit. gpuscaler also serves the standard metrics of Go (go_..., process_...).
Only the leader serves metrics of policies and groups. The namespace label is the workload's namespace: scrape with ` +
	"`honor_labels: true`" + `.

| metric | type | labels | meaning |
|---|---|---|---|
`

// description matches the text of a prometheus.Desc. The test parses the text, because the type has no methods for the name and the labels.
var description = regexp.MustCompile(`^Desc\{fqName: "([^"]+)", help: "((?:[^"\\]|\\.)*)",(?: unit: "[^"]*",)? ` +
	`constLabels: \{[^}]*\}, variableLabels: \{([^}]*)\}\}$`)

func TestMetricsReferenceIsCurrent(t *testing.T) {
	c := offline(t)
	families := make(chan *prometheus.Desc)
	go func() {
		for _, r := range append(c.families, c.registry) {
			r.Describe(families)
		}
		close(families)
	}()
	rows := map[string]string{}
	for d := range families {
		m := description.FindStringSubmatch(d.String())
		if m == nil {
			t.Fatalf("cannot be read: %s", d)
		}
		if name := m[1]; strings.HasPrefix(name, "gpuscaler_") {
			rows[name] = fmt.Sprintf("| `%s` | %s | %s | %s |", name, kindOf(name), strings.ReplaceAll(m[3], ",", ", "), strings.ReplaceAll(m[2],
				`\"`, `"`))
		}
	}
	if len(rows) < 30 {
		t.Fatalf("%d metrics", len(rows))
	}
	text := referenceHead
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		text += rows[name] + "\n"
	}
	golden.Compare(t, metricReference, text)
}

// offline returns a controller that is not running, with a kubeconfig of a cluster that does not respond.
func offline(t *testing.T) *controller {
	t.Helper()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	text := "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: https://127.0.0.1:1}}]\ncontexts: [{name: c, context: " +
		"{cluster: c}}]\ncurrent-context: c\n"
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := newController(runOptions{
		kubeconfig: kubeconfig, namespace: "gpuscaler-system", pod: "gpuscaler-0", service: "gpuscaler", lease: "gpuscaler", leaseDuration: 15e9,
		externalMetrics: "auto", capacity: true, nodePools: true, learned: "gpuscaler-learned", policyStatusIn: []string{"team-chat"},
	}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := externalmetrics.SelfSigned("gpuscaler.gpuscaler-system.svc")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.registration(certificate); err != nil {
		t.Fatal(err)
	}
	return c
}

// kindOf returns the type of a metric by Prometheus' naming conventions.
func kindOf(name string) string {
	switch {
	case strings.HasSuffix(name, "_total"):
		return "counter"
	case strings.HasSuffix(name, "_duration_seconds"):
		return "histogram"
	}
	return "gauge"
}
