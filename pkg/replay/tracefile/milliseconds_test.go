package tracefile

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/tracefile/timestamp"
)

// logOf returns a CSV log with n rows. The timestamp of row i is step*i in the given number format.
func logOf(n int, step float64, format string) string {
	var b strings.Builder
	b.WriteString("timestamp,output_tokens\n")
	for i := range n {
		fmt.Fprintf(&b, format+",10\n", step*float64(i))
	}
	return b.String()
}

// The header of the column is timestamp, so the unit is not known. Integers since the start must be read as milliseconds if, as seconds,
// they would be a trace of months with few requests.
func TestMillisecondsSinceTheStartAreRecognized(t *testing.T) {
	for _, c := range []struct {
		name, text string
		o          Options
		want       time.Duration
		note       bool
	}{
		{"an hour in ms", logOf(20001, 180, "%.0f"), Options{}, time.Hour, true},
		{"two days in ms", logOf(20001, 8640, "%.0f"), Options{}, 48 * time.Hour, true},
		{"the unit is set", logOf(20001, 180, "%.0f"), Options{TimeUnit: timestamp.Seconds}, 1000 * time.Hour, false},
		{"the column has a unit", strings.Replace(logOf(20001, 180, "%.0f"), "timestamp", "timestamp_s", 1), Options{}, 1000 * time.Hour, false},
		{"an hour in seconds", logOf(20001, 0.18, "%.2f"), Options{}, time.Hour, false},
		{"a month of seconds, often", logOf(300001, 5, "%.0f"), Options{}, 1500000 * time.Second, false},
		{"ten days of seconds, rarely", logOf(1001, 860, "%.0f"), Options{}, 860000 * time.Second, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Read("log.csv", strings.NewReader(c.text), c.o)
			if err != nil {
				t.Fatal(err)
			}
			if got.Duration != c.want || strings.Contains(strings.Join(got.Notes, "\n"), "read as milliseconds") != c.note {
				t.Errorf("%s with notes %q, want %s", got.Duration, got.Notes, c.want)
			}
			requests, err := got.Collect(0)
			if err != nil {
				t.Fatal(err)
			}
			for i := range requests {
				if i > 0 && requests[i].At < requests[i-1].At {
					t.Fatalf("request %d is at %s after %s", i, requests[i].At, requests[i-1].At)
				}
			}
			if at := requests[len(requests)-1].At; at != c.want {
				t.Errorf("the last request is at %s, want %s", at, c.want)
			}
		})
	}
}
