package tracefile

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/trace"
	"github.com/gpuscaler/gpuscaler/pkg/replay/tracefile/input"
)

// check reads the input raw. It fails the test unless Read returns a complete error, or a trace whose requests are valid, sorted by time,
// and the same at each read.
func check(t *testing.T, raw []byte, o Options) {
	tr, err := Read("fuzz", bytes.NewReader(raw), o)
	if err != nil {
		var e *trace.Error
		if !errors.As(err, &e) || e.File == "" || e.Found == "" || e.Allowed == "" || e.Line < 0 {
			t.Fatalf("not a full refusal: %#v", err)
		}
		return
	}
	if tr.Duration < 0 || tr.Duration > trace.MaxDuration {
		t.Fatalf("duration %v", tr.Duration)
	}
	last, n := time.Duration(0), 0
	again := tr.Stream()
	for r := range tr.All() {
		if r.At < last || r.At > tr.Duration ||
			r.InputTokens < trace.UnknownTokens || r.OutputTokens < trace.UnknownTokens || r.InputTokens > trace.MaxTokens {
			t.Fatalf("request %d: %+v after %v, trace of %v", n, r, last, tr.Duration)
		}
		if other, ok := again.Next(); !ok || other != r {
			t.Fatalf("request %d is %+v, and %+v the second time", n, r, other)
		}
		last = r.At
		if n++; n == 5000 {
			break
		}
	}
	s := trace.Summarize(tr)
	if err := errors.Join(s.WriteText(new(bytes.Buffer)), s.WriteSVG(new(bytes.Buffer))); err != nil {
		t.Fatal(err)
	}
}

func FuzzRequestCSV(f *testing.F) {
	for _, s := range []string{"TIMESTAMP,ContextTokens,GeneratedTokens\r\n2023-11-16 18:15:46.6805900,374,44\r\n2023-11-16 " +
		"18:15:50.9951690,396,109",
		"ts;status\n1;200\n.5;failed\n", "\xef\xbb\xbft_ms\tinput_tokens\n1e3\t374.0\n", "1700000000123\n1700000000124\n",
		mark + "start=none duration=1h\ntimestamp_s\n1.000000001\n", "ts\n\"1\n2\"\n"} {
		f.Add([]byte(s), byte(0))
	}
	f.Fuzz(func(t *testing.T, raw []byte, how byte) {
		check(t, raw, Options{Format: CSV, DropFailed: how&1 > 0, Scale: map[bool]float64{true: 0.5}[how&2 > 0],
			From:    time.Duration(how&4) * time.Second,
			Columns: Columns{InputTokens: map[bool]string{true: "#2"}[how&8 > 0]}, MaxRequests: 10_000})
	})
}

func FuzzJSONLines(f *testing.F) {
	for _, s := range []string{`{"ts":1,"usage":{"prompt_tokens":7}}` + "\n" +
		`{"ts":2.5}`, `{"timestamp":"2026-01-05T09:00:00,5+01:00","status":503}`, `{"ts":null}`, `{"ts":1,"usage":[]}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		check(t, raw, Options{Format: JSONLines, Columns: Columns{InputTokens: "usage.prompt_tokens"}, MaxRequests: 10_000})
	})
}

func FuzzRates(f *testing.F) {
	for _, s := range []string{"0,0,0,,0,0\n600,1.3316666666666668,8.598383725990791,Weibull,0.37,0.39\n1200,0.5,1,Gamma,1,2",
		"start,rps,cv\n2026-01-05T00:00:00Z,1,0\n2026-01-05T00:01:00Z,2,900\n", "start,rate\n0,1e-9\n1e8,3\n"} {
		f.Add([]byte(s), int64(0), int64(0))
	}
	f.Fuzz(func(t *testing.T, raw []byte, from, to int64) {
		check(t, raw, Options{Format: RateCSV, From: time.Duration(from), To: time.Duration(to), Gaps: HoldGaps,
			Tokens: &trace.Tokens{Input: trace.TokenDist{Mean: 10, Sigma: 5}, Output: trace.TokenDist{Mean: 3}}})
	})
}

func FuzzPrometheus(f *testing.F) {
	f.Add([]byte(matrix(`{"metric":{"pod":"a"},"values":[[1700000060,"1"],[1700000120,"0"],[1700000180.000,"2.5"]]}`)), byte(0))
	f.Add([]byte(`{"status":"error","errorType":"bad_data","error":"x"}`), byte(1))
	f.Fuzz(func(t *testing.T, raw []byte, unit byte) {
		check(t, raw, Options{Format: Prometheus, Unit: []RateUnit{PerSecond, PerMinute, PerWindow}[unit%3], Gaps: ZeroGaps})
	})
}

// FuzzAnything reads arbitrary input without a Format in the options, so that Read detects the format, including gzip and tar.
func FuzzAnything(f *testing.F) {
	for _, s := range []string{"ts\n1\n", `{"ts":1}`, "[1]", "\x1f\x8b\x08\x00", "PK\x03\x04", matrix(),
		strings.Repeat("\x00", 257) + "ustar"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) { check(t, raw, Options{MaxRequests: 10_000}) })
}

func FuzzDescription(f *testing.F) {
	f.Add([]byte(described))
	f.Add([]byte("apiVersion: gpuscaler.io/v1alpha1\nkind: Trace\nfile: &a x\nfrom: [1]\nwhere: {a: *a}\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		d, refused := parseDescription(input.Place{File: "fuzz"}, bytes.NewReader(raw))
		if refused == nil && (d.File == "" || d.Kind != "Trace") || refused != nil && (refused.Found == "" || refused.Allowed == "") {
			t.Fatalf("%+v, %v", d, refused)
		}
	})
}
