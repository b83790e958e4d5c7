package trace_test

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/golden"
	"github.com/gpuscaler/gpuscaler/pkg/replay/trace"
	"github.com/gpuscaler/gpuscaler/pkg/replay/tracefile"
)

func TestSummaryAsText(t *testing.T) {
	office, _ := trace.Preset("office")
	office.Seed, office.Start = 1, time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)
	generated, err := trace.Generate(office)
	if err != nil {
		t.Fatal(err)
	}
	log := "TIMESTAMP,ContextTokens,GeneratedTokens\r\n2023-11-16 18:15:46.6805900,374,44\r\n" +
		"2023-11-16 18:15:50.9951690,396,0\r\n2023-11-16 18:29:51.2224670,879,55"
	rates := "0,1.33,8.6,Weibull,0,0\n600,0,0,,0,0\n1200,0.31,0.4,Weibull,0,0\n"
	var sb strings.Builder
	for _, tr := range []*trace.Trace{generated, mustRead(t, log, tracefile.Options{}), mustRead(t, rates, tracefile.Options{})} {
		if err := trace.Summarize(tr).WriteText(&sb); err != nil {
			t.Fatal(err)
		}
		sb.WriteString("\n")
	}
	drawn, err := mustRead(t, rates, tracefile.Options{Seed: 7}).Drawn(0)
	if err != nil {
		t.Fatal(err)
	}
	if err := trace.Summarize(drawn).WriteText(&sb); err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, "testdata/summary.txt", sb.String())
}

func TestSparklineShowsIdleTime(t *testing.T) {
	for _, c := range []struct {
		bins  []float64
		width int
		want  string
	}{
		{[]float64{0, 1, 100}, 10, "·▁█"},
		{[]float64{0, 0, 4, 4}, 2, "·█"},
		{[]float64{0, 0}, 10, "··"},
		{[]float64{1, 2, 3, 4, 5, 6, 7, 8}, 8, "▂▃▄▅▆▇██"},
		{nil, 10, ""},
	} {
		if got := trace.Sparkline(c.bins, c.width); got != c.want {
			t.Errorf("%v: %q, want %q", c.bins, got, c.want)
		}
	}
}

func TestSVG(t *testing.T) {
	tr := mustRead(t, "ts\n1\n2\n61\n200\n", tracefile.Options{})
	tr.Name = `<script>&"`
	var sb strings.Builder
	if err := trace.Summarize(tr).WriteSVG(&sb); err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, "testdata/picture.svg", sb.String())
	for d := xml.NewDecoder(strings.NewReader(sb.String())); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

func mustRead(t *testing.T, text string, o tracefile.Options) *trace.Trace {
	t.Helper()
	tr, err := tracefile.Read("test", strings.NewReader(text), o)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}
