package calendar_test

import (
	"sort"
	"strconv"
	"strings"
	"time"
)

// The oracle is a second, simple implementation of the package. It uses neither bit sets nor the rules of a zone. It converts a cron
// expression to tables of booleans, finds the spans by checking every minute of the wall clock, and finds out what the clock shows by
// calling time.In for many instants. Then it applies the definition in the package documentation: a span begins at the first instant at
// which the clock has reached the start, and ends at the last instant at which the clock reaches the end.

type field [64]bool

type text struct {
	minute, hour, dom, month, dow field
	domStar, dowStar              bool
}

func readCron(s string) text {
	f := strings.Fields(s)
	return text{
		minute: readField(f[0], 0, 59), hour: readField(f[1], 0, 23), dom: readField(f[2], 1, 31),
		month: readField(f[3], 1, 12), dow: readField(f[4], 0, 6),
		domStar: f[2] == "*", dowStar: f[4] == "*",
	}
}

func readField(s string, low, high int) (out field) {
	for part := range strings.SplitSeq(s, ",") {
		span, stepText, stepped := strings.Cut(part, "/")
		a, b, ranged := strings.Cut(span, "-")
		from, to, step := low, high, 1
		if span != "*" {
			from, _ = strconv.Atoi(a)
			if to = from; ranged {
				to, _ = strconv.Atoi(b)
			} else if stepped {
				to = high
			}
		}
		if stepped {
			step, _ = strconv.Atoi(stepText)
		}
		for i := from; i <= to; i += step {
			out[i] = true
		}
	}
	return out
}

func (c *text) onDay(t time.Time) bool {
	dom, dow := c.dom[t.Day()], c.dow[t.Weekday()]
	if c.domStar || c.dowStar {
		return c.month[t.Month()] && dom && dow
	}
	return c.month[t.Month()] && (dom || dow)
}

func (c *text) onMinute(m int) bool { return c.hour[m/60] && c.minute[m%60] }

// naive is one span on the wall clock, in minutes since 1970 on that clock.
type naive struct{ start, end int64 }

// naiveSpans returns the spans that overlap the wall-clock days [from, to), by checking every minute. First it searches back, day by day,
// for the latest start or end before the parameter from. This start or end determines whether a span is open at the beginning of the range.
func naiveSpans(start, end *text, from, to time.Time) []naive {
	const long = 11 * 366
	active, opened := false, int64(0)
back:
	for d := 1; d < long; d++ {
		t := from.AddDate(0, 0, -d)
		starts, ends := start.onDay(t), end.onDay(t)
		for m := 1439; m >= 0 && (starts || ends); m-- {
			switch {
			case ends && end.onMinute(m):
				break back
			case starts && start.onMinute(m):
				// The span may have begun at an earlier start. This makes no difference, because both starts are before from.
				active, opened = true, t.Unix()/60+int64(m)
				break back
			}
		}
	}
	var spans []naive
	for t := from; t.Before(to); t = t.AddDate(0, 0, 1) {
		starts, ends := start.onDay(t), end.onDay(t)
		for m := range 1440 {
			now := t.Unix()/60 + int64(m)
			switch {
			case ends && end.onMinute(m):
				if active {
					spans = append(spans, naive{opened, now})
				}
				active = false
			case starts && start.onMinute(m) && !active:
				active, opened = true, now
			}
		}
	}
	if active {
		spans = append(spans, naive{opened, to.AddDate(100, 0, 0).Unix() / 60})
	}
	return spans
}

// walk contains what the clock of the zone shows at each instant of a range. The instants are step seconds apart.
type walk struct {
	zone        *time.Location
	begin, step int64
	shows       []int64 // seconds since 1970 on the clock
	highest     []int64 // greatest value of shows up to this index
	lowest      []int64 // lowest value of shows from this index on
}

// A walk covers the time from margin before its center until margin after its center. In the first and the last verge seconds, a walk
// cannot compute whether a window is open, because in a fold this depends on what the clock shows before or after the walk.
const (
	margin = 3 * 24 * time.Hour
	verge  = 24 * 60 * 60
)

// sure returns the range [begin, past) of instants for which the walk can compute whether a window is open.
func (w *walk) sure() (begin, past int64) {
	return w.begin + verge, w.begin + int64(len(w.shows))*w.step - verge
}

func newWalk(zone *time.Location, around time.Time) *walk {
	begin := around.Add(-margin).Truncate(time.Hour)
	w := &walk{zone: zone, begin: begin.Unix(), step: 60}
	for _, t := range []time.Time{around, begin, around.Add(margin)} {
		if t.In(zone).Second() != t.Second() {
			w.step = 30 // until 1972, Africa/Monrovia was 44 minutes and 30 seconds behind
		}
	}
	for t := begin; t.Before(around.Add(margin)); t = t.Add(time.Duration(w.step) * time.Second) {
		local := t.In(zone)
		y, mo, d := local.Date()
		h, mi, s := local.Clock()
		w.shows = append(w.shows, time.Date(y, mo, d, h, mi, s, 0, time.UTC).Unix())
	}
	w.highest, w.lowest = make([]int64, len(w.shows)), make([]int64, len(w.shows))
	high, low := w.shows[0], w.shows[len(w.shows)-1]
	for i, shown := range w.shows {
		high = max(high, shown)
		w.highest[i] = high
		j := len(w.shows) - 1 - i
		low = min(low, w.shows[j])
		w.lowest[j] = low
	}
	return w
}

// changes returns whether the window is open at the beginning of the walk, and the instants within the walk at which it opens or closes.
func (w *walk) changes(start, end *text) (atBegin bool, changes []int64) {
	from := time.Unix(w.lowest[0], 0).UTC().Truncate(24*time.Hour).AddDate(0, 0, -1)
	to := time.Unix(w.highest[len(w.highest)-1], 0).UTC().Truncate(24*time.Hour).AddDate(0, 0, 2)
	n := len(w.shows)
	last := -1 // index of the change that closed the latest span
	for _, s := range naiveSpans(start, end, from, to) {
		first := sort.Search(n, func(i int) bool { return w.highest[i] >= s.start*60 })
		past := sort.Search(n, func(i int) bool { return w.lowest[i] >= s.end*60 })
		if first >= past || first == n {
			continue // the span is before the walk, in a gap, or after the walk
		}
		switch {
		case first == 0 && last < 0:
			atBegin = true
		case first <= last: // the span touches or overlaps the previous span
			changes = changes[:len(changes)-1]
		case first > 0:
			changes = append(changes, w.begin+int64(first)*w.step)
		}
		if last = past; past < n {
			changes = append(changes, w.begin+int64(past)*w.step)
		} else {
			break
		}
	}
	return atBegin, changes
}
