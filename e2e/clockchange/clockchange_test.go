// Package clockchange tests that a schedule increases minReplicas at the right second when daylight saving time begins or ends. The engine
// runs in this process with a simulated clock, because the binary has no flag for its clock.
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

// idle is a cluster with one Deployment, whose replicas equal the target immediately. The workload has no signals.
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

// change is a target and the time of the change.
type change struct {
	at string
	to int32
}

func TestScheduleStartsAtTheRightSecondAcrossDaylightSavingTime(t *testing.T) {
	for _, c := range []struct {
		name, start string
		from        string // the simulated date in the time zone of Berlin
		want        []change
	}{
		// On 2026-03-29 clocks move from 02:00 to 03:00, so 02:30 does not exist.
		{"the day before the gap", "30 2 * * *", "2026-03-28", []change{{"2026-03-28T01:30:00Z", 4}, {"2026-03-28T04:00:00Z", 1}}},
		{"a start inside the gap applies at the end of the gap", "30 2 * * *", "2026-03-29",
			[]change{{"2026-03-29T01:00:00Z", 4}, {"2026-03-29T03:00:00Z", 1}}},
		{"a start after the gap is an hour earlier in UTC", "15 4 * * *", "2026-03-29",
			[]change{{"2026-03-29T02:15:00Z", 4}, {"2026-03-29T03:00:00Z", 1}}},
		// On 2026-10-25 clocks move from 03:00 to 02:00, so 02:30 exists twice.
		{"the first of two possible starts applies", "30 2 * * *", "2026-10-25",
			[]change{{"2026-10-25T00:30:00Z", 4}, {"2026-10-25T04:00:00Z", 1}}},
		{"the day after the fold", "30 2 * * *", "2026-10-26", []change{{"2026-10-26T01:30:00Z", 4}, {"2026-10-26T04:00:00Z", 1}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := day(t, c.start, c.from); !slices.Equal(got, c.want) {
				t.Errorf("changes %v, want %v", got, c.want)
			}
		})
	}
}

// day simulates the first seven hours of a date in Berlin with a schedule that begins at start, and returns the changes of the target.
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
