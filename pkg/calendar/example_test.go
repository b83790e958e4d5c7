package calendar_test

import (
	"fmt"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/gpuscaler/gpuscaler/pkg/calendar"
)

// parse converts a cron expression to bit sets, as package policy does.
func parse(text string) calendar.Cron {
	schedule, err := cron.ParseStandard(text)
	if err != nil {
		panic(err)
	}
	s := schedule.(*cron.SpecSchedule)
	return calendar.Cron{Minute: s.Minute, Hour: s.Hour, DayOfMonth: s.Dom, Month: s.Month, DayOfWeek: s.Dow}
}

func ExampleWindow_At() {
	berlin, _ := time.LoadLocation("Europe/Berlin")
	office := calendar.Window{Name: "office", Location: berlin, Start: parse("0 8 * * 1-5"), End: parse("0 20 * * 1-5")}

	now := time.Date(2026, 11, 20, 9, 4, 0, 0, berlin)
	for range 3 {
		open, until := office.At(now)
		fmt.Println(now.Format("Mon 15:04"), open, "until", until.Format("Mon 15:04"))
		now = until
	}
	// Output:
	// Fri 09:04 true until Fri 20:00
	// Fri 20:00 false until Mon 08:00
	// Mon 08:00 true until Mon 20:00
}

func ExampleWindow_NextStart() {
	berlin, _ := time.LoadLocation("Europe/Berlin")
	office := calendar.Window{Location: berlin, Start: parse("0 8 * * 1-5"), End: parse("0 20 * * 1-5")}
	const lead = 15 * time.Minute // time for the start of a node and of its model

	now := time.Date(2026, 11, 23, 7, 50, 0, 0, berlin)
	start, ok := office.NextStart(now)
	fmt.Println(start.Format("Mon 15:04"), "prewarm:", ok && start.Sub(now) <= lead)
	// Output: Mon 08:00 prewarm: true
}

// The window is open on one day, 25 October. In Berlin, this day has 25 hours.
func ExampleStartsAt() {
	berlin, _ := time.LoadLocation("Europe/Berlin")
	from, _ := time.Parse(time.DateOnly, "2026-10-25")
	to, _ := time.Parse(time.DateOnly, "2026-10-26")
	sale := calendar.Window{Location: berlin, From: calendar.StartsAt(berlin, from), To: calendar.EndsAt(berlin, to)}

	fmt.Println(sale.To.Sub(sale.From))
	fmt.Println(sale.At(time.Date(2026, 10, 25, 12, 0, 0, 0, berlin)))
	// Output:
	// 25h0m0s
	// true 2026-10-26 00:00:00 +0100 CET
}
