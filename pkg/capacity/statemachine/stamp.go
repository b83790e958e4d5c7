package statemachine

import (
	"hash/fnv"
	"time"
)

func hash(parts ...string) uint64 {
	h := fnv.New64a()
	for _, p := range parts {
		_, _ = h.Write([]byte(p)) // a hash never fails
		_, _ = h.Write([]byte{0})
	}
	return h.Sum64()
}

// jittered returns a duration between 80 and 120 percent of d that depends only on name and level. Because the names of groups differ,
// groups whose launches were refused at the same time retry at different times.
func jittered(d time.Duration, name string, level uint8) time.Duration {
	return d*4/5 + d*2/5/1000*time.Duration(hash(name, string(rune('a'+level)))%1000)
}

// maxStamp limits stamps (times in Unix milliseconds), so that the sum of a stamp and a duration fits in an int64. It is after the year
// 100,000,000.
const maxStamp = int64(1) << 61

// Stamp returns t as Unix milliseconds. Times for which time.Time.UnixMilli would overflow are limited to maxStamp.
func Stamp(t time.Time) int64 {
	const maxSeconds = maxStamp / 1000
	return max(-maxSeconds, min(t.Unix(), maxSeconds))*1000 + int64(t.Nanosecond()/1e6)
}

// Instant converts a stamp (Unix milliseconds) to a time, and 0 to the zero time.
func Instant(at int64) time.Time {
	if at == 0 {
		return time.Time{}
	}
	return time.UnixMilli(at).UTC()
}
