package calendar_test

import (
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/calendar"
)

type question struct {
	name string
	w    *calendar.Window
	now  time.Time
}

func questions(t testing.TB) []question {
	office := window(t, "Europe/Berlin", "0 8 * * 1-5", "0 20 * * 1-5")
	quarter := window(t, "Europe/Berlin", "*/10 * * * *", "5/10 * * * *")
	apia := window(t, "Pacific/Apia", "*/2 * * * *", "1/2 * * * *")
	leap := window(t, "America/New_York", "0 8 29 2 *", "0 20 29 2 *")
	never := window(t, "UTC", "0 8 30 2 *", "0 20 30 2 *")
	once := &calendar.Window{Location: zone(t, "Asia/Tokyo"), From: y1970, To: y2040}
	return []question{
		{"open", office, at(t, office, "Fri 2026-11-20 12:00")},
		{"shut over the weekend", office, at(t, office, "Sat 2026-11-21 12:00")},
		{"beyond the zone's list", office, at(t, office, "Fri 2046-11-23 12:00")},
		{"in a fold", quarter, at(t, quarter, "2026-10-25 02:20:00 +0200")},
		{"29 February", leap, at(t, leap, "Fri 2096-11-23 12:00")},
		{"never fires", never, at(t, never, "Fri 2026-11-20 12:00")},
		{"once", once, at(t, office, "Fri 2026-11-20 12:00")},
		{"worst, 720 windows in one gap", apia, at(t, apia, "2011-12-29 23:59:00 -1000")},
	}
}

func BenchmarkAt(b *testing.B) {
	for _, q := range questions(b) {
		b.Run(q.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				q.w.At(q.now)
			}
		})
	}
}

func BenchmarkNextStart(b *testing.B) {
	q := questions(b)[0]
	b.ReportAllocs()
	for b.Loop() {
		q.w.NextStart(q.now)
	}
}

func TestAtDoesNotAllocate(t *testing.T) {
	for _, q := range questions(t) {
		if n := testing.AllocsPerRun(10, func() { q.w.At(q.now) }); n != 0 {
			t.Errorf("%s: %v allocations, want none", q.name, n)
		}
	}
}
