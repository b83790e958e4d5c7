package timestamp

import (
	"testing"
	"time"
)

// FuzzTimestamp checks that a timestamp keeps its meaning when it is written as RFC 3339 and read again.
func FuzzTimestamp(f *testing.F) {
	for _, s := range []string{"2023-11-16 18:15:46.6805900", "2026-03-29T03:00:00+02:00", "1700000000.123456789", "1.7e9", ".5", "17", "0"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		c := Parser{Location: time.UTC}
		ns, allowed := c.Parse(s)
		if allowed != "" {
			return
		}
		if ns < 0 || c.Kind == Relative && ns >= firstEpoch*1e9 {
			t.Fatalf("%q is %d ns, kind %d", s, ns, c.Kind)
		}
		if c.Kind == Relative {
			return
		}
		written := time.Unix(0, ns).UTC().Format(time.RFC3339Nano)
		if again, allowed := c.Parse(written); allowed != "" || again != ns {
			t.Fatalf("%q is %d ns, and %s is %d ns (%s)", s, ns, written, again, allowed)
		}
	})
}
