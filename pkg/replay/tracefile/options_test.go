package tracefile

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/trace"
	"github.com/gpuscaler/gpuscaler/pkg/replay/trace/tracetest"
	"github.com/gpuscaler/gpuscaler/pkg/replay/tracefile/input"
)

func TestOptionsOutOfRangeAreRejected(t *testing.T) {
	for want, o := range map[string]Options{
		"format csv":        {Format: "parquet"},
		"timeUnit s":        {TimeUnit: "h"},
		"unit perSecond":    {Unit: "perHour"},
		"gaps hold":         {Gaps: "guess"},
		"family Gamma":      {Family: "Pareto"},
		"cv 0.001":          {CV: math.NaN()},
		"scale above 0":     {Scale: math.Inf(1)},
		"from at least 0":   {From: -1},
		"maxBackwards":      {MaxBackwards: -1},
		"duration at most":  {Duration: 2 * trace.MaxDuration},
		"tokens with mean":  {Tokens: &trace.Tokens{Input: trace.TokenDist{Mean: 5, Sigma: math.NaN()}, Output: trace.TokenDist{Mean: 5}}},
		"to at most 400":    {To: 2 * trace.MaxDuration},
		"maxRequests at le": {MaxRequests: -1},
	} {
		_, err := Read("x", strings.NewReader("ts\n1\n"), o)
		tracetest.Refused(t, err, 0, want)
	}
}

func TestUnitOfNumericTimestamps(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"t_ms\n1500\n":             1500 * time.Millisecond,
		"timestamp (us)\n1500\n":   1500 * time.Microsecond,
		"time_ns\n1500\n":          1500,
		"time_s\n1500\n":           1500 * time.Second,
		"time\n1500\n":             1500 * time.Second,
		`{"time_ms":1500.25}`:      1500250 * time.Microsecond,
		"time\n1.5e3\n":            1500 * time.Second,
		"time\n0.12345678901234\n": 123456789,
	} {
		if all := mustCollect(t, mustRead(t, text, Options{})); all[0].At != want {
			t.Errorf("%q: at %v, want %v", text, all[0].At, want)
		}
	}
	for text, want := range map[string]string{
		"time\n1700000000123456\n":       "2023-11-14T22:13:20.123456Z",
		"time\n1700000000123.25\n":       "2023-11-14T22:13:20.12325Z",
		"time_ms\n1.700000000123e12\n":   "2023-11-14T22:13:20.123Z",
		"time\n2023-11-14t22:13:20,5z\n": "2023-11-14T22:13:20.5Z",
	} {
		tr := mustRead(t, strings.Replace(text, ",", ".", 1), Options{})
		if got := tr.Start.Format(time.RFC3339Nano); got != want {
			t.Errorf("%q: starts %s, want %s", text, got, want)
		}
	}
}

func TestStatusWordsAndNumbers(t *testing.T) {
	for status, want := range map[string]bool{"200": false, "302": false, "404": true, "503": true, "0": false, "14": true,
		"OK": false, "Failed": true,
		"timeout": true, "null": false, "stop": false} {
		tr := mustRead(t, "ts,status\n1,"+status+"\n", Options{})
		if got := mustCollect(t, tr)[0].Failed; got != want {
			t.Errorf("status %s: failed %v, want %v", status, got, want)
		}
		if strange := strings.Contains(strings.Join(tr.Notes, "\n"),
			`a status such as "stop", read as a success: 1`); strange != (status == "stop") {
			t.Errorf("status %s: notes %q", status, tr.Notes)
		}
	}
}

func TestErrorHasItsCause(t *testing.T) {
	_, err := Read("x", strings.NewReader("ts\n"+strings.Repeat("9", 5000)+"\n"), Options{})
	tracetest.Refused(t, err, 2, `9"...`)
	if len(err.Error()) > 500 {
		t.Errorf("a message of %d bytes", len(err.Error()))
	}
	_, err = Read("x", strings.NewReader("ts\n\"1"+strings.Repeat("\n", 2*input.MaxRecord)), Options{})
	if !errors.Is(err, input.ErrLongRecord) {
		t.Errorf("the cause is lost: %v", err)
	}
}
