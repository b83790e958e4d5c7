package tracefile

import (
	"fmt"
	"strings"
	"testing"
)

const benchRows = 100_000

func benchRead(b *testing.B, text string) {
	b.ReportAllocs()
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		tr, err := Read("bench", strings.NewReader(text), Options{})
		if err != nil || len(mustCollect(b, tr)) != benchRows {
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
