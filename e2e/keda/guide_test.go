package keda

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/e2e/stack"
)

func guide(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../config/guides/keda.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The manifest in the guide must work with the addresses of this test suite.
func TestManifestOfTheGuideWorks(t *testing.T) {
	t.Parallel()
	var manifest string
	for i, block := range strings.Split(guide(t), "```") {
		if i%2 == 1 && strings.Contains(block, "kind: ScaledObject") {
			manifest = strings.TrimPrefix(block, "yaml\n")
		}
	}
	s := place(t, "readme", 0)
	here := []string{
		"redis.team-embed.svc:6379", redis, "embed-worker", name, "namespace: team-embed", "namespace: " + s.ns, "embed-jobs", s.queue(),
		// The new window is open at any time of day.
		`office Europe/Berlin "0 8 * * 1-5" "0 20 * * 1-5" min=2`, `office UTC "0 0 1 1 *" "1 0 1 1 *" min=2`,
		`metadata: {scalerAddress: "dns:///gpuscaler-scaler.gpuscaler-system.svc:9090"}`,
		fmt.Sprintf("metadata: {scalerAddress: %q}", scaler.Address),
	}
	for i := 0; i < len(here); i += 2 {
		if !strings.Contains(manifest, here[i]) {
			t.Fatalf("no %q in\n%s", here[i], manifest)
		}
	}
	manifest = strings.NewReplacer(here...).Replace(manifest)
	apply(t, manifest)
	s.backlog(t, 700)
	stack.Eventually(t, time.Minute, "four for 700 jobs at 200 a replica", s.has(4))
}

// Each row of the guide's conformance table must name a test. Package cmd/gpuscaler checks that the test exists.
func TestConformanceTableNamesTests(t *testing.T) {
	t.Parallel()
	_, table, _ := strings.Cut(guide(t), "| KEDA | with gpuscaler | test |\n|---|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	rows := strings.Split(table, "\n")
	if len(rows) < 20 {
		t.Fatalf("%d rows", len(rows))
	}
	test := regexp.MustCompile("`Test[A-Za-z0-9]+`")
	for _, row := range rows {
		if !test.MatchString(row) && !strings.Contains(row, "| the same") {
			t.Errorf("%s names no test", row)
		}
	}
}
