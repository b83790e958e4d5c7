// Package clockchange shows that a schedule, as people write it, raises its
// floor at the right second when the clocks of its zone change. The engine runs
// in this process on a clock of the test's: the binary has no flag for one.
package clockchange

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/policy/store"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

const document = `apiVersion: gpuscaler.io/v1alpha1
kind: ScalingPolicy
metadata: {name: chat, namespace: team-chat}
spec:
  scaleTargetRef: {name: chat}
  minReplicas: 1
  maxReplicas: 9
  schedules:
  - {name: window, timezone: Europe/Berlin, start: "START", end: "0 5 * * *", minReplicas: 4}
  behavior: {scaleDown: {stabilizationWindowSeconds: 0}}
`

// idle is a cluster whose Deployment follows at once, and nothing measured.
type idle struct{ replicas int32 }

func (c *idle) View(*scaling.Workload) (engine.View, bool) {
	return engine.View{Replicas: c.replicas, Ready: c.replicas, MinReplicas: -1, MaxReplicas: -1, Operator: scaling.NoOperator}, true
}

func (c *idle) Apply(_ context.Context, changes []engine.Change) error {
	for _, change := range changes {
		c.replicas = change.After.Replicas
	}
	return nil
}

func (*idle) Read(*scaling.Workload, []scaling.Reading) {}

// change is a number and when it came.
type change struct {
	at string
	to int32
}

func TestAFloorRisesAtTheRightSecondAcrossAChangeOfTheClocks(t *testing.T) {
	for _, c := range []struct {
		name, start string
		from        string // a day in the zone
		want        []change
	}{
		// 2026-03-29: at 02:00 it is 03:00, so that 02:30 does not exist.
		{"the day before the gap", "30 2 * * *", "2026-03-28", []change{{"2026-03-28T01:30:00Z", 4}, {"2026-03-28T04:00:00Z", 1}}},
		{"a start inside the gap comes at its end", "30 2 * * *", "2026-03-29", []change{{"2026-03-29T01:00:00Z", 4}, {"2026-03-29T03:00:00Z", 1}}},
		{"a start after the gap is an hour earlier for the world", "15 4 * * *", "2026-03-29", []change{{"2026-03-29T02:15:00Z", 4}, {"2026-03-29T03:00:00Z", 1}}},
		// 2026-10-25: at 03:00 it is 02:00, so that 02:30 comes twice.
		{"of a start that comes twice the first counts", "30 2 * * *", "2026-10-25", []change{{"2026-10-25T00:30:00Z", 4}, {"2026-10-25T04:00:00Z", 1}}},
		{"the day after the fold", "30 2 * * *", "2026-10-26", []change{{"2026-10-26T01:30:00Z", 4}, {"2026-10-26T04:00:00Z", 1}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := day(t, c.start, c.from); !slices.Equal(got, c.want) {
				t.Errorf("it went %v, want %v", got, c.want)
			}
		})
	}
}

// day ticks through the first six hours of a day in Berlin and returns the
// changes of the number.
func day(t *testing.T, start, date string) (changes []change) {
	t.Helper()
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	midnight, err := time.ParseInLocation(time.DateOnly, date, zone)
	if err != nil {
		t.Fatal(err)
	}
	now := midnight.UTC()
	policies := store.New(store.Options{Clock: func() time.Time { return now }})
	path := filepath.Join(t.TempDir(), "chat.yaml")
	text := []byte(strings.ReplaceAll(document, "START", start))
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if report := policies.Load(path); len(report.Problems) > 0 {
		t.Fatal(report.Problems)
	}
	cluster := &idle{replicas: 1}
	last := int32(1)
	e := engine.New(policies, cluster, cluster, engine.Options{OnTransition: func(r engine.Record) {
		if n := r.Decision.Replicas; n != last {
			changes, last = append(changes, change{r.At.UTC().Format(time.RFC3339), n}), n
		}
	}})
	for end := now.Add(7 * time.Hour); now.Before(end); now = now.Add(time.Second) {
		if out := e.Tick(t.Context(), now); len(out.Errors) != 0 || out.Decided != 1 {
			t.Fatalf("at %s: %+v", now, out)
		}
	}
	return changes
}
