package store_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/store"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// configMapLimit is the largest size of a ConfigMap that the API server accepts.
const configMapLimit = 1 << 20

// typicalPolicy returns a policy of about 400 bytes.
func typicalPolicy(i, maxReplicas int) string {
	return fmt.Sprintf(`---
apiVersion: gpuscaler.io/v1alpha1
kind: ScalingPolicy
metadata: {name: model-%05d, namespace: team-%d}
spec:
  scaleTargetRef: {name: model-%05d}
  maxReplicas: %d
  cooldownPeriod: 15m
  signals:
  - {name: queue, type: vllm, target: 10}
  - {name: kv, type: vllm, metric: kvCacheUsage, target: 80%%}
  schedules:
  - {name: office, timezone: Europe/Berlin, start: "0 8 * * 1-5", end: "0 20 * * 1-5", minReplicas: 2}
`, i, i%50, i, maxReplicas)
}

// delivery writes n policies into directories, with perMap policies in each directory, and returns the directories as paths. Each directory
// represents a mounted ConfigMap: the chart also mounts the ConfigMaps in its value configMaps as directories.
func delivery(t testing.TB, n, perMap int) (dir string, paths []store.Path) {
	t.Helper()
	dir = t.TempDir()
	for first := 0; first < n; first += perMap {
		name := filepath.Join(dir, fmt.Sprintf("policies-%d", first/perMap))
		if err := os.Mkdir(name, 0o700); err != nil {
			t.Fatal(err)
		}
		writePart(t, name, first, min(first+perMap, n), 12)
		paths = append(paths, store.Path{Name: name, Namespaces: []string{store.AnyNamespace}})
	}
	return dir, paths
}

// writePart writes the policies with the numbers first to end-1 into one file. The first policy has the given maxReplicas, and the other
// policies have 12.
func writePart(t testing.TB, dir string, first, end, maxReplicas int) {
	t.Helper()
	var text strings.Builder
	for i := first; i < end; i++ {
		text.WriteString(typicalPolicy(i, maxReplicas))
		maxReplicas = 12
	}
	if text.Len() >= configMapLimit {
		t.Fatalf("%d policies have %d bytes, and a ConfigMap at most %d", end-first, text.Len(), configMapLimit)
	}
	if err := os.WriteFile(filepath.Join(dir, "policies.yaml"), []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Ten thousand policies do not fit into one ConfigMap. They fit into five ConfigMaps, and all policies must be loaded. An edit of one
// policy must change only this policy, and the other policies must not be compiled again.
func TestTenThousandPoliciesInSeveralConfigMaps(t *testing.T) {
	const n, perMap, edited = 10_000, 2_000, 6_000
	dir, paths := delivery(t, n, perMap)
	policies := store.New(store.Options{})
	if report := policies.LoadPaths(paths...); len(report.Problems) > 0 || len(policies.Current()) != n {
		t.Fatalf("%d in force\n%.2000s", len(policies.Current()), policy.Render(report.Problems))
	}
	before := map[scaling.Key]*scaling.Policy{}
	for _, w := range policies.Current() {
		before[w.Key] = w.Policy
	}
	writePart(t, filepath.Join(dir, fmt.Sprintf("policies-%d", edited/perMap)), edited, edited+perMap, 20)
	if report := policies.LoadPaths(paths...); !report.Changed || len(report.Problems) > 0 {
		t.Fatalf("changed: %t\n%.2000s", report.Changed, policy.Render(report.Problems))
	}
	for _, w := range policies.Current() {
		want := int32(12)
		if w.Key.Name == fmt.Sprintf("model-%05d", edited) {
			want = 20
		}
		if w.Policy.MaxReplicas != want || (w.Policy == before[w.Key]) != (want == 12) {
			t.Errorf("%s: maxReplicas %d, want %d; compiled again: %t", w.Key, w.Policy.MaxReplicas, want, w.Policy != before[w.Key])
		}
	}
}

// BenchmarkEditOneOf10000Policies measures how long a load takes after one policy was edited.
func BenchmarkEditOneOf10000Policies(b *testing.B) {
	dir, paths := delivery(b, many, 2_000)
	policies := store.New(store.Options{})
	policies.LoadPaths(paths...)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		b.StopTimer()
		writePart(b, filepath.Join(dir, "policies-3"), 6_000, 8_000, 13+i%2)
		b.StartTimer()
		if report := policies.LoadPaths(paths...); !report.Changed || len(report.Problems) > 0 {
			b.Fatalf("changed: %t\n%.2000s", report.Changed, policy.Render(report.Problems))
		}
	}
}
