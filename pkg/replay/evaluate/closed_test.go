package evaluate

import (
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/calendar"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
	"github.com/gpuscaler/gpuscaler/pkg/scaling/objective"
)

// If a schedule permits no replicas while requests arrive, the warning contains the name of the schedule.
func TestClosedScheduleWarningNamesTheSchedule(t *testing.T) {
	c := small(t, nil)
	for name, want := range map[string]string{"night": "schedule night keeps zero replicas while ",
		"": "schedule 1 keeps zero replicas while "} {
		closed := calendar.Window{Name: name, From: c.start().Add(5 * time.Minute), To: c.start().Add(time.Hour)}
		c.Policy = chat(func(p *scaling.Policy) { p.Schedules = []scaling.Schedule{{Window: closed, Min: -1, Max: 0}} })
		if w := c.closedBySchedule(); len(w) != 1 || !strings.HasPrefix(w[0], want) {
			t.Errorf("%q: %q", name, w)
		}
	}
}

// The policy has a cooldown of 0. Without an objective, each pause between two requests therefore counts as a wake. With an objective, the
// policy keeps the last replica while another request is likely, so the pauses must not count as wakes.
func TestPausesBetweenRequestsAreNoWakesForAnObjective(t *testing.T) {
	c := small(t, nil)
	c.Policy = chat(func(p *scaling.Policy) { p.MinReplicas, p.CooldownPeriod = 0, 0 })
	if a, w := c.admission(); a.Wakes < 1000 || len(w) != 1 {
		t.Fatalf("without an objective: %d wakes, %q", a.Wakes, w)
	}
	c.Policy.Workload.Policy.Objective = &objective.Objective{Limit: 10 * time.Second, Percentile: 99}
	if a, w := c.admission(); a.Wakes != 0 || !a.CanMeet || len(w) != 0 {
		t.Errorf("with an objective: %d wakes, can meet the SLO: %t, %q", a.Wakes, a.CanMeet, w)
	}
}
