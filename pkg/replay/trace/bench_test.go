package trace

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/reproducible"
)

const benchRows = 100_000

func benchRead(b *testing.B, text string) {
	b.ReportAllocs()
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		tr, err := Read("bench", strings.NewReader(text), Options{})
		if err != nil || len(tr.log) != benchRows {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(benchRows)*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}

func BenchmarkReadCSV(b *testing.B) {
	var sb strings.Builder
	sb.WriteString("TIMESTAMP,ContextTokens,GeneratedTokens\n")
	for i := range benchRows {
		fmt.Fprintf(&sb, "2023-11-16 18:%02d:%02d.%07d,%d,%d\n", i/6000%60, i/100%60, i%100*100000, i%4000, i%1000)
	}
	benchRead(b, sb.String())
}

func BenchmarkReadJSONLines(b *testing.B) {
	var sb strings.Builder
	for i := range benchRows {
		fmt.Fprintf(&sb, `{"timestamp":%d.25,"input_tokens":%d,"output_tokens":%d,"model":"chat"}`+"\n", i, i%4000, i%1000)
	}
	benchRead(b, sb.String())
}

func benchStream(b *testing.B, tr *Trace) {
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		for range tr.All() {
			n++
		}
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "requests/s")
}

func BenchmarkDrawRates(b *testing.B) {
	for _, family := range []reproducible.Family{reproducible.Gamma, reproducible.Weibull} {
		b.Run(string(family), func(b *testing.B) {
			benchStream(b, mustRead(b, "start,rate,cv,family\n0,80,1.7,"+string(family)+"\n600,80,1.7,"+string(family)+"\n", Options{}))
		})
	}
}

func BenchmarkGenerateDiurnalDay(b *testing.B) {
	p, _ := Preset("diurnal")
	tr, err := Generate(p)
	if err != nil {
		b.Fatal(err)
	}
	benchStream(b, tr)
}

func BenchmarkSummarizeDay(b *testing.B) {
	tr, err := Generate(Profile{Rate: 2, Duration: 24 * time.Hour})
	if err != nil {
		b.Fatal(err)
	}
	drawn, err := tr.Drawn(0)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if s := Summarize(drawn); s.Requests == 0 {
			b.Fatal("nothing")
		}
	}
}
