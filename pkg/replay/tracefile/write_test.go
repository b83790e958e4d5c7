package tracefile

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gpuscaler/gpuscaler/pkg/replay/trace"
)

func TestWrittenTraceRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, _ := trace.Preset(rapid.SampledFrom(trace.PresetNames()).Draw(t, "preset"))
		p.Duration = time.Duration(rapid.Int64Range(int64(10*time.Minute), int64(2*time.Hour)).Draw(t, "duration"))
		p.Seed = rapid.Uint64().Draw(t, "seed")
		if rapid.Bool().Draw(t, "start") {
			p.Start = time.Unix(0, rapid.Int64Range(1e18, 2e18).Draw(t, "ns")).UTC()
		}
		p.Idle = nil // otherwise all ten minutes would be idle hours, and a trace without requests is refused
		if rapid.Bool().Draw(t, "no tokens") {
			p.Tokens = nil
		}
		wrote, err := trace.Generate(p)
		if err != nil {
			t.Fatal(err)
		}
		var file bytes.Buffer
		if err := WriteCSV(&file, wrote); err != nil {
			t.Fatal(err)
		}
		read, err := Read("x.csv", &file, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if !read.Start.Equal(wrote.Start) || read.Duration != wrote.Duration ||
			!slices.Equal(slices.Collect(read.All()), slices.Collect(wrote.All())) {
			t.Errorf("read start %v, duration %v; wrote %v, %v", read.Start, read.Duration, wrote.Start, wrote.Duration)
		}
	})
}

func TestWrittenLogKeepsFailures(t *testing.T) {
	log := mustRead(t, "time,status,input_tokens\n2026-01-05T09:00:00.000000001Z,500,7\n2026-01-05T09:00:02Z,200,\n", Options{})
	var file bytes.Buffer
	if err := WriteCSV(&file, log); err != nil {
		t.Fatal(err)
	}
	read := mustRead(t, file.String(), Options{})
	if !slices.Equal(mustCollect(t, read), mustCollect(t, log)) || !read.Start.Equal(log.Start) || read.Duration != log.Duration {
		t.Errorf("read back from %s:\n%v from %v, want %v from %v", file.String(), mustCollect(t, read), read.Start,
			mustCollect(t, log), log.Start)
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestWriteErrorIsReturned(t *testing.T) {
	tr := mustRead(t, "ts\n1\n2\n", Options{})
	if err := trace.Summarize(tr).WriteText(full{}); err == nil {
		t.Error("the summary returns no error for a failed write")
	}
	if err := WriteCSV(full{}, tr); err == nil {
		t.Error("the trace returns no error for a failed write")
	}
	if math.IsNaN(trace.Summarize(mustRead(t, "ts\n1\n", Options{})).RPM.Mean) {
		t.Error("one request has no duration, and its mean is not a number")
	}
}
