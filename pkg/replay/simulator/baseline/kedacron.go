package baseline

import (
	"fmt"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/gpuscaler/gpuscaler/pkg/calendar"
	"github.com/gpuscaler/gpuscaler/pkg/replay/hpa"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/autoscaler"
)

// CronTrigger is KEDA's cron trigger. It proposes Desired replicas within a time window, and one replica outside of it.
type CronTrigger struct {
	Window  calendar.Window
	Desired int32
}

// NewCron parses the timezone, start and end of a cron trigger.
func NewCron(timezone, start, end string, desired int32) (CronTrigger, error) {
	t := CronTrigger{Desired: desired}
	zone, err := time.LoadLocation(timezone)
	if err != nil {
		return t, fmt.Errorf("cron trigger: %w", err)
	}
	t.Window.Location = zone
	for _, side := range []struct {
		text string
		to   *calendar.Cron
	}{{start, &t.Window.Start}, {end, &t.Window.End}} {
		parsed, err := cron.ParseStandard(side.text)
		if err != nil {
			return t, fmt.Errorf("cron trigger: %w", err)
		}
		s, ok := parsed.(*cron.SpecSchedule)
		if !ok {
			return t, fmt.Errorf("cron trigger: %q is not a cron expression with fields", side.text)
		}
		*side.to = calendar.Cron{Minute: s.Minute, Hour: s.Hour, DayOfMonth: s.Dom, Month: s.Month, DayOfWeek: s.Dow}
	}
	return t, nil
}

func (c *CronTrigger) open(now time.Time) bool {
	open, _ := c.Window.At(now)
	return open
}

// propose returns the number of replicas that the trigger requests: Desired within the window, and 1 outside of it. As in KEDA, the HPA
// reads this number as a metric with the target 1.
func (c *CronTrigger) propose(s *autoscaler.Scene, t hpa.Tolerances) hpa.Proposal {
	value := int64(1)
	if c.open(s.Now) {
		value = int64(c.Desired)
	}
	return hpa.Proposal{Replicas: hpa.AverageValue(value*1000, 1000, s.Status, t), Known: true}
}
