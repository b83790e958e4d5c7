package store_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/store"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// writeMany writes n policies into files with a hundred policies each, and a PlatformConfig into another file.
func writeMany(b *testing.B, n int) string {
	dir := b.TempDir()
	config := platform(`mode: auto, dataSources: [{name: prom, type: prometheus, address: "http://prom"}], queries: [{name: ` +
		`gateway-queue, query: q, workloadLabel: pool}]`)
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	write("platform.yaml", config)
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, `---
apiVersion: gpuscaler.io/v1alpha1
kind: ScalingPolicy
metadata: {name: model-%d, namespace: team-%d}
spec:
  scaleTargetRef: {name: model-%d}
  minReplicas: 0
  maxReplicas: 12
  cooldownPeriod: 15m
  signals:
  - {name: gateway, type: prometheus, queryRef: gateway-queue, target: 10}
  - {name: kv, type: vllm, metric: kvCacheUsage, target: 80%%}
  - {name: gpu, type: dcgm, target: 70%%}
  formula: "max(gateway.replicas, has(kv.value) ? kv.replicas : 0, gpu.replicas)"
  schedules:
  - {name: office, timezone: Europe/Berlin, start: "0 8 * * 1-5", end: "0 20 * * 1-5", minReplicas: 2}
  - {name: night, timezone: Europe/Berlin, start: "0 23 * * *", end: "0 6 * * *", maxReplicas: 0}
`, i, i%50, i)
		if i%100 == 99 || i == n-1 {
			write(fmt.Sprintf("policies-%05d.yaml", i), text.String())
			text.Reset()
		}
	}
	return dir
}

const many = 10_000

func BenchmarkLoad10000Policies(b *testing.B) {
	dir := writeMany(b, many)
	b.ReportAllocs()
	for b.Loop() {
		policies := store.New(store.Options{})
		if report := policies.Load(dir); len(report.Problems) > 0 || len(policies.Current()) != many {
			b.Fatalf("%d in force\n%.2000s", len(policies.Current()), policy.Render(report.Problems))
		}
	}
}

func BenchmarkReload10000PoliciesUnchanged(b *testing.B) {
	dir := writeMany(b, many)
	policies := store.New(store.Options{})
	policies.Load(dir)
	b.ReportAllocs()
	for b.Loop() {
		if report := policies.Load(dir); report.Changed {
			b.Fatal("changed")
		}
	}
}

// BenchmarkHold10000Policies measures the duration of a load after the mode of the PlatformConfig was changed to hold. A hold must take
// effect within a tick.
func BenchmarkHold10000Policies(b *testing.B) {
	dir := writeMany(b, many)
	policies := store.New(store.Options{})
	policies.Load(dir)
	file := filepath.Join(dir, "platform.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		b.Fatal(err)
	}
	modes := []string{"mode: hold", "mode: auto"}
	for i := 0; b.Loop(); i++ {
		if err := os.WriteFile(file, []byte(strings.Replace(string(text), "mode: auto", modes[i%2], 1)), 0o600); err != nil {
			b.Fatal(err)
		}
		if report := policies.Load(dir); !report.Changed {
			b.Fatal("unchanged")
		}
		if w := policies.Current()[many-1]; (w.Mode == scaling.Hold) != (i%2 == 0) {
			b.Fatalf("mode %s", w.Mode)
		}
	}
}

func BenchmarkHeapPerPolicy(b *testing.B) {
	dir := writeMany(b, many)
	for b.Loop() {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		policies := store.New(store.Options{})
		policies.Load(dir)
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/many, "B/policy")
		runtime.KeepAlive(policies)
	}
}

func BenchmarkCurrent(b *testing.B) {
	dir := writeMany(b, many)
	policies := store.New(store.Options{})
	policies.Load(dir)
	b.ReportAllocs()
	for b.Loop() {
		if len(policies.Current()) != many {
			b.Fatal("lost")
		}
	}
}

func BenchmarkSet10000Objects(b *testing.B) {
	for b.Loop() {
		policies := store.New(store.Options{})
		for i := range many {
			o := scaledObject(map[string]string{"gpuscaler.io/queue-source": "keda/sqs", "gpuscaler.io/queue-depth-per-replica": "10"})
			o.Name = fmt.Sprintf("object-%d", i)
			o.Target.Name = o.Name
			if problems := setObject(policies, o); len(problems) > 0 {
				b.Fatal(policy.Render(problems))
			}
		}
		if len(policies.Current()) != many {
			b.Fatal("lost")
		}
	}
}
