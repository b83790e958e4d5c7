package trace

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/reproducible"
)

// TimeUnit is the unit of numeric timestamps.
type TimeUnit string

// Values of TimeUnit.
const (
	// AutoUnit uses the unit in the header of the column (t_ms). Without one, a number below 1e8 is seconds since the start, and a greater
	// number is s, ms, us or ns since 1970, depending on its magnitude.
	AutoUnit     TimeUnit = ""
	Seconds      TimeUnit = "s"
	Milliseconds TimeUnit = "ms"
	Microseconds TimeUnit = "us"
	Nanoseconds  TimeUnit = "ns"
)

// perUnit is the number of nanoseconds in one unit.
var perUnit = map[TimeUnit]int64{Seconds: 1e9, Milliseconds: 1e6, Microseconds: 1e3, Nanoseconds: 1}

const (
	// firstEpoch is the limit between times since the start and times since 1970, in seconds. A time since the start is less (at most three
	// years); a time since 1970 is at least this (March 1973).
	firstEpoch   = int64(1e8)
	lastInstant  = int64(7_258_118_400) // the year 2200 in seconds since 1970; a later time probably has a wrong unit
	timesAllowed = "RFC 3339 or YYYY-MM-DD HH:MM:SS, 0 to 9 fraction digits, zone or none, 1970 to 2200; or a number not below 0: seconds " +
		"from the start, or epoch s, ms, us, ns"
)

// clock parses the timestamps of one file, which must all be of the same kind.
type clock struct {
	unit     TimeUnit
	layout   string // Go layout in the options
	location *time.Location

	kind   clockKind
	noZone bool // a timestamp had no zone, so the zone of location was used
	exact  bool // a number had a fraction or an exponent
}

type clockKind uint8

const (
	unset    clockKind = iota
	relative           // times since the start of the trace
	absolute           // times since 1970
)

// instant parses a timestamp. The result is in nanoseconds, since 1970 or since the start of the trace; c.kind says which. If s is not a
// valid timestamp, allowed describes the accepted forms. Otherwise allowed is "".
func (c *clock) instant(s string) (ns int64, allowed string) {
	s = strings.TrimSpace(s)
	kind := absolute
	ok := false
	switch {
	case c.layout != "":
		if ns, ok = c.byLayout(s); !ok {
			return 0, "the layout " + strconv.Quote(c.layout) + ", 1970 to 2200"
		}
	case len(s) > 10 && s[4] == '-' && s[7] == '-':
		ns, ok = c.calendar(s)
	default:
		ns, kind, ok = c.number(s)
	}
	if !ok {
		return 0, timesAllowed
	}
	if c.kind != unset && c.kind != kind {
		return 0, "a timestamp of the same kind as the first row's (from a start, or since 1970)"
	}
	c.kind = kind
	return ns, ""
}

// text formats a time for a message.
func (c *clock) text(ns int64) string {
	if c.kind == absolute {
		return time.Unix(0, ns).UTC().Format(time.RFC3339Nano)
	}
	return time.Duration(ns).String()
}

func (c *clock) byLayout(s string) (int64, bool) {
	t, err := time.ParseInLocation(c.layout, s, c.location)
	if err != nil {
		return 0, false
	}
	return t.UnixNano(), inEpoch(t.Unix())
}

func inEpoch(seconds int64) bool { return seconds >= 0 && seconds < lastInstant }

// calendar parses YYYY-MM-DD[T ]HH:MM:SS[.,fraction][Z|+hh:mm|+hhmm]. time.Parse has no layout for an optional fraction and zone, and is
// three times slower.
func (c *clock) calendar(s string) (int64, bool) {
	if len(s) < 19 || s[13] != ':' || s[16] != ':' || (s[10] != 'T' && s[10] != 't' && s[10] != ' ') {
		return 0, false
	}
	var field [6]int
	for i, at := range [6]int{0, 5, 8, 11, 14, 17} {
		width := 2
		if i == 0 {
			width = 4
		}
		n, ok := digits(s[at : at+width])
		if !ok {
			return 0, false
		}
		field[i] = int(n)
	}
	frac, rest, ok := fraction(s[19:])
	if !ok {
		return 0, false
	}
	seconds, ok := c.inZone(field, strings.TrimSpace(rest))
	if !ok || !inEpoch(seconds) {
		return 0, false
	}
	return seconds*1e9 + frac, true
}

// fraction parses a fraction of a second such as ".123" or ",123" (Python's logging) with up to 9 digits. The result is in nanoseconds.
func fraction(s string) (ns int64, rest string, ok bool) {
	if s == "" || (s[0] != '.' && s[0] != ',') {
		return 0, s, true
	}
	end := 1
	for end < len(s) && '0' <= s[end] && s[end] <= '9' {
		end++
	}
	if end == 1 || end > 10 {
		return 0, "", false
	}
	ns, _ = digits(s[1:end])
	for range 10 - end {
		ns *= 10
	}
	return ns, s[end:], true
}

// inZone returns the seconds since 1970 of a date and time in the zone of its suffix, or in c.location without a suffix. It returns false
// for times that do not exist (30 February, 24:00, 23:59:60), which time.Date would change to another time.
func (c *clock) inZone(f [6]int, zone string) (int64, bool) {
	location, offset := time.UTC, int64(0)
	switch {
	case zone == "":
		c.noZone, location = true, c.location
	case zone == "Z" || zone == "z" || zone == "UTC":
	default:
		digitsOnly := strings.Replace(zone[1:], ":", "", 1)
		n, ok := digits(digitsOnly)
		if !ok || len(digitsOnly) != 4 || n/100 > 23 || n%100 > 59 || (zone[0] != '+' && zone[0] != '-') {
			return 0, false
		}
		offset = n/100*3600 + n%100*60
		if zone[0] == '-' {
			offset = -offset
		}
	}
	t := time.Date(f[0], time.Month(f[1]), f[2], f[3], f[4], f[5], 0, location)
	if t.Month() != time.Month(f[1]) || t.Day() != f[2] || t.Minute() != f[4] || t.Second() != f[5] || f[3] > 23 {
		return 0, false
	}
	return t.Unix() - offset, true
}

// number parses a decimal number exactly. A float64 is not precise enough for nanoseconds since 1970.
func (c *clock) number(s string) (int64, clockKind, bool) {
	whole, rest := s, ""
	if i := strings.IndexAny(s, ".eE"); i >= 0 {
		whole, rest = s[:i], s[i:]
	}
	n, ok := digits(whole)
	if !ok && (whole != "" || len(rest) < 2) || strings.ContainsAny(rest, "eE") {
		return c.float(s) // ".5" is a number, but "" and "." are not
	}
	unit := c.unit
	if unit == AutoUnit {
		unit = unitOf(n)
	}
	per := perUnit[unit]
	if n > math.MaxInt64/per {
		return 0, unset, false
	}
	return c.sum(n*per, rest, per)
}

// sum adds the fraction in rest to ns and returns whether the time counts from the start or from 1970. per is the number of nanoseconds in
// the unit of the fraction.
func (c *clock) sum(ns int64, rest string, per int64) (int64, clockKind, bool) {
	if rest != "" && rest != "." {
		c.exact = true
		if len(rest) > 10 && strings.Trim(rest[10:], "0123456789") == "" {
			rest = rest[:10] // further digits are less than a nanosecond and are ignored
		}
		frac, after, ok := fraction(rest)
		if !ok || after != "" {
			return 0, unset, false
		}
		ns += frac / (1e9 / per)
	}
	if ns/1e9 < firstEpoch {
		return ns, relative, true
	}
	return ns, absolute, inEpoch(ns / 1e9)
}

// float parses 1.7e9 and similar numbers with the precision of a float64.
func (c *clock) float(s string) (int64, clockKind, bool) {
	if strings.Trim(s, "0123456789.+-eE") != "" {
		return 0, unset, false // ParseFloat also accepts NaN, Inf and hexadecimal numbers
	}
	x, err := strconv.ParseFloat(s, 64)
	if err != nil || !(x >= 0 && x < 9e18) {
		return 0, unset, false
	}
	unit := c.unit
	if unit == AutoUnit {
		unit = unitOf(int64(x))
	}
	c.exact = true
	per := float64(perUnit[unit])
	if reproducible.Mul(x, per) >= 9e18 {
		return 0, unset, false
	}
	// The integer and the fraction are multiplied by the unit separately. Their product as one float64 would be rounded to a multiple of 256
	// ns.
	whole := math.Floor(x)
	return c.sum(int64(whole)*int64(per)+int64(math.Round(reproducible.Mul(x-whole, per))), "", 1)
}

// unitOf returns the unit of a number of a time since 1970 by its magnitude. Realistic times do not overlap between units: 1e11 s is in the
// year 5138, and 1e11 ms is in 1973.
func unitOf(n int64) TimeUnit {
	switch {
	case n < 1e11:
		return Seconds
	case n < 1e14:
		return Milliseconds
	case n < 1e17:
		return Microseconds
	}
	return Nanoseconds
}

// digits parses an integer of ASCII digits only. It returns false for an empty string and for values above about 9.2e18.
func digits(s string) (int64, bool) {
	if len(s) == 0 || len(s) > 19 {
		return 0, false
	}
	n := int64(0)
	for i := range len(s) {
		d := s[i] - '0'
		if d > 9 || n > (math.MaxInt64-9)/10 {
			return 0, false
		}
		n = n*10 + int64(d)
	}
	return n, true
}
