package readable

import (
	"testing"
	"time"
)

func TestFormatsOfNumbers(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1383669: "1,383,669", -1000: "-1,000", -100: "-100"} {
		if got := Count(n); got != want {
			t.Errorf("%d is %q, want %q", n, got, want)
		}
	}
	for d, want := range map[time.Duration]string{0: "0s", 14 * day: "14d", 27*time.Hour + time.Minute: "1d3h1m",
		58*time.Minute + 21722*time.Millisecond: "58m22s",
		time.Hour:                               "1h", 90 * time.Minute: "1h30m", time.Minute: "1m", 4314 * time.Millisecond: "4.3s",
		250 * time.Millisecond: "250ms", 2*day - time.Second: "2d"} {
		if got := Duration(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
	for x, want := range map[float64]string{0: "0", 0.774: "0.774", 5.53: "5.5", 331.7: "332", 12000.4: "12,000", 1e-7: "1e-07"} {
		if got := Number(x); got != want {
			t.Errorf("%v is %q, want %q", x, got, want)
		}
	}
}
