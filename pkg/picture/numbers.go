package picture

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// Step returns the smallest number of the form 1, 2 or 5 times a power of ten that is not less than v. It returns 1 if v is not positive.
func Step(v float64) float64 {
	if !(v > 0) || math.IsInf(v, 0) {
		return 1
	}
	unit := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 5} {
		if unit*m >= v {
			return unit * m
		}
	}
	return unit * 10
}

// Short formats a number for an axis, for example 150k or 0.05.
func Short(v float64) string {
	suffix := ""
	for _, unit := range []string{"k", "M"} {
		if v >= 9999.5 { // such a number would be formatted with an exponent, for example as 1e+04
			v, suffix = v/1000, unit
		}
	}
	return strconv.FormatFloat(v, 'g', 4, 64) + suffix
}

// Thousands formats an integer with a comma after each group of three digits, for example 1,468,165.
func Thousands(n int64) string {
	text := strconv.FormatInt(n, 10)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// Span formats a duration, for example as 12ms, 7.5s or 1d12h30m.
func Span(d time.Duration) string {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	}
	text, d := "", d.Round(time.Second)
	for _, u := range []struct {
		unit time.Duration
		name string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}} {
		if n := d / u.unit; n > 0 {
			text += fmt.Sprintf("%d%s", n, u.name)
			d -= n * u.unit
		}
	}
	return text
}

// Clock formats a number of seconds since the start as hours and minutes: 1:30 is an hour and a half. Seconds are added if they are not 0.
func Clock(seconds float64) string {
	s := int64(seconds)
	if s%60 != 0 {
		return fmt.Sprintf("%d:%02d:%02d", s/3600, s/60%60, s%60)
	}
	return fmt.Sprintf("%d:%02d", s/3600, s/60%60)
}
