package trace

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/golden"
)

func TestSummaryAsText(t *testing.T) {
	office, _ := Preset("office")
	office.Seed, office.Start = 1, time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)
	log := "TIMESTAMP,ContextTokens,GeneratedTokens\r\n2023-11-16 18:15:46.6805900,374,44\r\n" +
		"2023-11-16 18:15:50.9951690,396,0\r\n2023-11-16 18:29:51.2224670,879,55"
	rates := "0,1.33,8.6,Weibull,0,0\n600,0,0,,0,0\n1200,0.31,0.4,Weibull,0,0\n"
	var sb strings.Builder
	for _, tr := range []*Trace{mustGenerate(t, office), mustRead(t, log, Options{}), mustRead(t, rates, Options{})} {
		if err := Summarize(tr).WriteText(&sb); err != nil {
			t.Fatal(err)
		}
		sb.WriteString("\n")
	}
	drawn, err := mustRead(t, rates, Options{Seed: 7}).Drawn(0)
	if err != nil {
		t.Fatal(err)
	}
	if err := Summarize(drawn).WriteText(&sb); err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, "testdata/summary.txt", sb.String())
}

func TestSpotSummaryAsText(t *testing.T) {
	var sb strings.Builder
	for _, text := range []string{"480000,add,a\n540000,add,b\n4000000,remove,a\n4000000,remove,b\n9000000,add,c\n",
		"2021-12-11, 11:11:30, 55\n2021-12-11, 11:13:10, 55\n2021-12-11, 11:15:50, 30\n"} {
		if err := mustReadSpot(t, text).Summarize().WriteText(&sb); err != nil {
			t.Fatal(err)
		}
	}
	golden.Compare(t, "testdata/spot.txt", sb.String())
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
		if got := Sparkline(c.bins, c.width); got != c.want {
			t.Errorf("%v: %q, want %q", c.bins, got, c.want)
		}
	}
}

func TestFormatsOfNumbers(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1383669: "1,383,669", -1000: "-1,000", -100: "-100"} {
		if got := grouped(n); got != want {
			t.Errorf("%d is %q, want %q", n, got, want)
		}
	}
	for d, want := range map[time.Duration]string{0: "0s", 14 * day: "14d", 27*time.Hour + time.Minute: "1d3h1m",
		58*time.Minute + 21722*time.Millisecond: "58m22s",
		time.Hour:                               "1h", 90 * time.Minute: "1h30m", time.Minute: "1m", 4314 * time.Millisecond: "4.3s",
		250 * time.Millisecond: "250ms", 2*day - time.Second: "2d"} {
		if got := human(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
	for x, want := range map[float64]string{0: "0", 0.774: "0.774", 5.53: "5.5", 331.7: "332", 12000.4: "12,000", 1e-7: "1e-07"} {
		if got := compact(x); got != want {
			t.Errorf("%v is %q, want %q", x, got, want)
		}
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestWriteErrorIsReturned(t *testing.T) {
	tr := mustRead(t, "ts\n1\n2\n", Options{})
	if err := Summarize(tr).WriteText(full{}); err == nil {
		t.Error("the summary returns no error for a failed write")
	}
	if err := tr.WriteCSV(full{}); err == nil {
		t.Error("the trace returns no error for a failed write")
	}
	if math.IsNaN(Summarize(mustRead(t, "ts\n1\n", Options{})).RPM.Mean) {
		t.Error("one request has no duration, and its mean is not a number")
	}
}

func TestSVG(t *testing.T) {
	tr := mustRead(t, "ts\n1\n2\n61\n200\n", Options{})
	tr.Name = `<script>&"`
	var sb strings.Builder
	if err := Summarize(tr).WriteSVG(&sb); err != nil {
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
