package trace

import (
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/reproducible"
)

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
			w := ClientWindow{Length: 10 * time.Minute, Requests: 48_000, CV: 1.7, Family: family}
			next := w
			next.At = w.Length
			benchStream(b, NewRates(Header{Duration: 2 * w.Length}, []Client{{Windows: []ClientWindow{w, next}}}, Drawing{}))
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
