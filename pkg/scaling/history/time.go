package history

import "time"

// MaxStamp limits every time, so that the sum of a time and a duration does not overflow an int64. It is after the year 100,000,000.
const MaxStamp = int64(1) << 61

// Stamp returns t in Unix milliseconds, limited to MaxStamp. It also works for years for which the result of Time.UnixMilli is undefined.
func Stamp(t time.Time) int64 {
	const maxSeconds = MaxStamp / 1000
	return max(-maxSeconds, min(t.Unix(), maxSeconds))*1000 + int64(t.Nanosecond()/1e6)
}

// Time returns the time at, in Unix milliseconds, as a time.Time in UTC.
func Time(at int64) time.Time { return time.UnixMilli(at).UTC() }
