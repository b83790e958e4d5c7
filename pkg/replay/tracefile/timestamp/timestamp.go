// Package timestamp parses the timestamps of trace files: dates and times with or without a zone, numbers since 1970 in seconds to
// nanoseconds, and numbers since the start of a trace. All timestamps of a file have the same [Kind].
//
// Times are integers in nanoseconds. A float64 is not precise enough for nanoseconds since 1970.
package timestamp

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/reproducible"
	"github.com/gpuscaler/gpuscaler/pkg/replay/tracefile/input"
)

// Unit is the unit of numeric timestamps.
type Unit string

// Values of Unit.
const (
	// Auto uses the unit in the header of the column (t_ms). Without a unit in the header, a number below 1e8 is seconds since the start, and
	// a greater number is s, ms, us or ns since 1970, depending on its magnitude.
	Auto         Unit = ""
	Seconds      Unit = "s"
	Milliseconds Unit = "ms"
	Microseconds Unit = "us"
	Nanoseconds  Unit = "ns"
)

// Nanoseconds returns the number of nanoseconds in one unit, and 0 for Auto and for an unknown unit.
func (u Unit) Nanoseconds() int64 {
	switch u {
	case Seconds:
		return 1e9
	case Milliseconds:
		return 1e6
	case Microseconds:
		return 1e3
	case Nanoseconds:
		return 1
	}
	return 0
}

const (
	// firstEpoch is the limit, in seconds, between times since the start and times since 1970. A smaller number is a time since the start, of
	// at most three years. Any other number is a time since 1970, that is, in March 1973 or later.
	firstEpoch   = int64(1e8)
	lastInstant  = int64(7_258_118_400) // the year 2200 in seconds since 1970; a later time probably has a wrong unit
	timesAllowed = "RFC 3339 or YYYY-MM-DD HH:MM:SS, 0 to 9 fraction digits, zone or none, 1970 to 2200; or a number not below 0: seconds " +
		"from the start, or epoch s, ms, us, ns"
)

// Parser parses the timestamps of one file, which must all be of the same kind.
type Parser struct {
	Unit     Unit           // unit of numbers; it may be changed between two timestamps
	Layout   string         // Go layout of the timestamps; "": the forms of this package
	Location *time.Location // time zone of timestamps without a zone

	Kind   Kind // kind of the timestamps so far; Unset before the first one
	NoZone bool // a timestamp had no zone, so Location was used
	Exact  bool // a number had a fraction or an exponent
}

// Kind is the reference time of the timestamps of a file: the start of the trace, or 1970.
type Kind uint8

// Values of Kind.
const (
	Unset    Kind = iota
	Relative      // times since the start of the trace
	Absolute      // times since 1970
)

// Parse parses a timestamp. The result is in nanoseconds, since 1970 or since the start of the trace; c.Kind says which. If s is not a
// valid timestamp, allowed describes the accepted forms. Otherwise allowed is "".
func (c *Parser) Parse(s string) (ns int64, allowed string) {
	s = strings.TrimSpace(s)
	kind := Absolute
	ok := false
	switch {
	case c.Layout != "":
		if ns, ok = c.byLayout(s); !ok {
			return 0, "the layout " + strconv.Quote(c.Layout) + ", 1970 to 2200"
		}
	case len(s) > 10 && s[4] == '-' && s[7] == '-':
		ns, ok = c.calendar(s)
	default:
		ns, kind, ok = c.number(s)
	}
	if !ok {
		return 0, timesAllowed
	}
	if c.Kind != Unset && c.Kind != kind {
		return 0, "a timestamp of the same kind as the first row's (from a start, or since 1970)"
	}
	c.Kind = kind
	return ns, ""
}

// Text formats a time for a message.
func (c *Parser) Text(ns int64) string {
	if c.Kind == Absolute {
		return time.Unix(0, ns).UTC().Format(time.RFC3339Nano)
	}
	return time.Duration(ns).String()
}

func (c *Parser) byLayout(s string) (int64, bool) {
	t, err := time.ParseInLocation(c.Layout, s, c.Location)
	if err != nil {
		return 0, false
	}
	return t.UnixNano(), InRange(t.Unix())
}

// InRange reports whether a time in seconds since 1970 is plausible: not negative and before the year 2200.
func InRange(seconds int64) bool { return seconds >= 0 && seconds < lastInstant }

// calendar parses YYYY-MM-DD[T ]HH:MM:SS[.,fraction][Z|+hh:mm|+hhmm]. It does not use time.Parse, because that has no layout for an
// optional fraction and zone, and is three times slower.
func (c *Parser) calendar(s string) (int64, bool) {
	if len(s) < 19 || s[13] != ':' || s[16] != ':' || (s[10] != 'T' && s[10] != 't' && s[10] != ' ') {
		return 0, false
	}
	var field [6]int
	for i, at := range [6]int{0, 5, 8, 11, 14, 17} {
		width := 2
		if i == 0 {
			width = 4
		}
		n, ok := input.Digits(s[at : at+width])
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
	if !ok || !InRange(seconds) {
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
	ns, _ = input.Digits(s[1:end])
	for range 10 - end {
		ns *= 10
	}
	return ns, s[end:], true
}

// inZone returns the seconds since 1970 of a date and time in the zone of its suffix, or in c.Location without a suffix. It returns false
// for times that do not exist (30 February, 24:00, 23:59:60), which time.Date would change to another time.
func (c *Parser) inZone(f [6]int, zone string) (int64, bool) {
	location, offset := time.UTC, int64(0)
	switch {
	case zone == "":
		c.NoZone, location = true, c.Location
	case zone == "Z" || zone == "z" || zone == "UTC":
	default:
		digitsOnly := strings.Replace(zone[1:], ":", "", 1)
		n, ok := input.Digits(digitsOnly)
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
func (c *Parser) number(s string) (int64, Kind, bool) {
	whole, rest := s, ""
	if i := strings.IndexAny(s, ".eE"); i >= 0 {
		whole, rest = s[:i], s[i:]
	}
	n, ok := input.Digits(whole)
	if !ok && (whole != "" || len(rest) < 2) || strings.ContainsAny(rest, "eE") {
		return c.float(s) // ".5" is parsed below, but "" and "." are not numbers
	}
	unit := c.Unit
	if unit == Auto {
		unit = unitOf(n)
	}
	per := unit.Nanoseconds()
	if n > math.MaxInt64/per {
		return 0, Unset, false
	}
	return c.sum(n*per, rest, per)
}

// sum returns the time ns plus the fraction in rest. It also returns whether this time is since the start of the trace or since 1970. The
// parameter per is the number of nanoseconds in the unit of the fraction.
func (c *Parser) sum(ns int64, rest string, per int64) (int64, Kind, bool) {
	if rest != "" && rest != "." {
		c.Exact = true
		if len(rest) > 10 && strings.Trim(rest[10:], "0123456789") == "" {
			rest = rest[:10] // further digits are less than a nanosecond and are ignored
		}
		frac, after, ok := fraction(rest)
		if !ok || after != "" {
			return 0, Unset, false
		}
		ns += frac / (1e9 / per)
	}
	if ns/1e9 < firstEpoch {
		return ns, Relative, true
	}
	return ns, Absolute, InRange(ns / 1e9)
}

// float parses 1.7e9 and similar numbers with the precision of a float64.
func (c *Parser) float(s string) (int64, Kind, bool) {
	if strings.Trim(s, "0123456789.+-eE") != "" {
		return 0, Unset, false // ParseFloat also accepts NaN, Inf and hexadecimal numbers
	}
	x, err := strconv.ParseFloat(s, 64)
	if err != nil || !(x >= 0 && x < 9e18) {
		return 0, Unset, false
	}
	unit := c.Unit
	if unit == Auto {
		unit = unitOf(int64(x))
	}
	c.Exact = true
	per := float64(unit.Nanoseconds())
	if reproducible.Mul(x, per) >= 9e18 {
		return 0, Unset, false
	}
	// The integer and the fraction are multiplied by the unit separately. Their product as one float64 would be rounded to a multiple of 256
	// ns.
	whole := math.Floor(x)
	return c.sum(int64(whole)*int64(per)+int64(math.Round(reproducible.Mul(x-whole, per))), "", 1)
}

// unitOf returns the unit of a number of a time since 1970 by its magnitude. Realistic times do not overlap between units: 1e11 s is in the
// year 5138, and 1e11 ms is in 1973.
func unitOf(n int64) Unit {
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
