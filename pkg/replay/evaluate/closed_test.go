package evaluate

import (
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/calendar"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// The warning about a schedule with zero replicas while requests arrive names the schedule.
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
