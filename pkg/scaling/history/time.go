package history

import "time"

// MaxStamp is the greatest time, in Unix milliseconds. It is after the year 100,000,000, but so small that the sum of a time and a duration
// does not overflow an int64.
const MaxStamp = int64(1) << 61

// Stamp returns t in Unix milliseconds, limited to MaxStamp. It also works for years that are so distant that Time.UnixMilli is undefined.
func Stamp(t time.Time) int64 {
	const maxSeconds = MaxStamp / 1000
	return max(-maxSeconds, min(t.Unix(), maxSeconds))*1000 + int64(t.Nanosecond()/1e6)
}

// Time converts a time in Unix milliseconds to a time.Time in UTC.
func Time(at int64) time.Time { return time.UnixMilli(at).UTC() }
