package calendar_test

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/calendar"
)

// TestEveryZoneAgreesWithTheOracle compares the package with the oracle in every IANA zone from 1970 to 2040. It uses windows whose starts
// and ends are near a clock change of the zone, and windows at random instants.
//
// By default, it tests a random sample for each zone. The seed is printed. CALENDAR_SEED repeats the sample of a seed. With CALENDAR_ALL=1
// it tests every clock change of every zone.
func TestEveryZoneAgreesWithTheOracle(t *testing.T) {
	seed := rand.Uint64()
	if text := os.Getenv("CALENDAR_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	stride, changesPerZone, windows, randoms := 24*time.Hour, 4, 3, 2
	if os.Getenv("CALENDAR_ALL") != "" {
		stride, changesPerZone, windows, randoms = time.Hour, 1<<30, 8, 20
	}
	var zones, places, compared int
	for _, name := range zoneNames(t) {
		h := fnv.New64a()
		h.Write([]byte(name))
		rng := rand.New(rand.NewPCG(seed, h.Sum64()))
		loc := zone(t, name)
		around := transitions(loc, stride)
		rng.Shuffle(len(around), func(i, j int) { around[i], around[j] = around[j], around[i] })
		around = around[:min(len(around), changesPerZone)]
		for range randoms {
			around = append(around, y1970.Add(time.Duration(rng.Int64N(int64(y2040.Sub(y1970)/time.Second)))*time.Second))
		}
		for _, at := range around {
			watcher := newWalk(loc, at)
			for range windows {
				start, end := timesNear(rng, loc, at), timesNear(rng, loc, at)
				n, err := compare(t, watcher, start, end)
				if err != nil {
					t.Fatalf("CALENDAR_SEED=%d: %s, around %s, start %q, end %q: %v", seed, name, at.In(loc), start, end, err)
				}
				compared += n
			}
		}
		zones++
		places += len(around)
	}
	t.Logf("CALENDAR_SEED=%d: %d zones, %d places in time, %d answers", seed, zones, places, compared)
	if zones < 400 {
		t.Errorf("only %d zones were visited", zones)
	}
}

// compare compares At with the oracle at several instants: at the beginning, in the middle and at the end of the walk, and one second
// before and after each change. It returns the number of these instants.
func compare(t *testing.T, watcher *walk, start, end string) (int, error) {
	w := &calendar.Window{Location: watcher.zone, Start: bits(t, start), End: bits(t, end)}
	startText, endText := readCron(start), readCron(end)
	want, changes := watcher.changes(&startText, &endText)
	begin, past := watcher.sure()
	instants := []int64{begin, begin + (past-begin)/2, past - 1}
	for _, c := range changes {
		if begin < c && c < past-1 {
			instants = append(instants, c-1, c, c+1)
		}
	}
	for _, at := range instants {
		now, wantNow, i := time.Unix(at, 0), want, 0
		for ; i < len(changes) && changes[i] <= at; i++ {
			wantNow = !wantNow
		}
		active, until := w.At(now)
		if active != wantNow {
			return 0, fmt.Errorf("at %s open is %v, want %v", now.In(watcher.zone), active, wantNow)
		}
		switch {
		case i < len(changes) && changes[i] < past:
			if until.Unix() != changes[i] {
				return 0, fmt.Errorf("at %s until is %s, want %s", now.In(watcher.zone), until, time.Unix(changes[i], 0).In(watcher.zone))
			}
		case !until.IsZero() && until.Unix() < past:
			return 0, fmt.Errorf("at %s until is %s, but nothing changes then", now.In(watcher.zone), until)
		}
	}
	return len(instants), nil
}

// timesNear returns a random cron expression. Its times are near the two times that the zone's clock shows just before and just after the
// given instant.
func timesNear(rng *rand.Rand, loc *time.Location, at time.Time) string {
	before, after := at.Add(-time.Second).In(loc), at.In(loc)
	asUTC := func(t time.Time) time.Time {
		return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), 0, 0, time.UTC)
	}
	low, high := asUTC(before).Add(time.Minute), asUTC(after)
	if high.Before(low) {
		low, high = high, low
	}
	within := func(a, b time.Time) time.Time {
		return a.Add(time.Duration(rng.IntN(int(b.Sub(a)/time.Minute)+1)) * time.Minute)
	}
	pick := []time.Time{
		low, high, low.Add(-time.Minute), high.Add(-time.Minute), low.Add(time.Minute),
		within(low, high), within(low, high), within(low, high),
		within(low.Add(-2*time.Hour), high.Add(2*time.Hour)), within(low.AddDate(0, 0, -1), high.AddDate(0, 0, 1)),
	}[rng.IntN(10)]
	m, h, dom, mo, dow := pick.Minute(), pick.Hour(), pick.Day(), int(pick.Month()), int(pick.Weekday())
	switch rng.IntN(14) {
	case 0, 1, 2, 3:
		return fmt.Sprintf("%d %d * * *", m, h)
	case 4:
		return fmt.Sprintf("%d %d * * %d", m, h, dow)
	case 5:
		return fmt.Sprintf("%d %d * * 1-5", m, h)
	case 6:
		return fmt.Sprintf("%d %d %d %d *", m, h, dom, mo)
	case 7:
		return fmt.Sprintf("%d %d %d * %d", m, h, dom, (dow+3)%7)
	case 8:
		return fmt.Sprintf("%d * * * *", m)
	case 9:
		return fmt.Sprintf("*/%d * * * *", 5+rng.IntN(25))
	case 10:
		return fmt.Sprintf("%d/%d %d-%d * * *", m%20, 7+rng.IntN(20), h/2, h)
	case 11:
		return fmt.Sprintf("%d,%d %d,%d * * *", m, rng.IntN(60), h, (h+1)%24)
	case 12:
		return fmt.Sprintf("%d */%d * * *", m, 2+rng.IntN(5))
	default:
		return fmt.Sprintf("%d %d */%d * %d", m, h, 2+rng.IntN(6), dow)
	}
}
