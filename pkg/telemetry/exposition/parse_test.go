package exposition

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
	"time"
)

func splitLines(b []byte) [][]byte   { return bytes.Split(b, []byte("\n")) }
func bytesReader(b []byte) io.Reader { return bytes.NewReader(b) }
func names(s ...string) map[string]bool {
	out := map[string]bool{}
	for _, n := range s {
		out[n] = true
	}
	return out
}

func TestHostilePagesAreRefusedForTheirReason(t *testing.T) {
	small := Limits{Line: 200, Series: 3, Kept: 300}
	for _, c := range []struct {
		name, text string
		limits     Limits
		want       error
	}{
		{"a login page", "<html><body>Sign in</body></html>\n", DefaultLimits, ErrFormat},
		{"JSON", "{\n\"error\": \"x\"}\n", DefaultLimits, ErrFormat},
		{"cut within a line", "a 1\na 2\nb", DefaultLimits, ErrTruncated},
		{"cut within a value, which still looks whole", "a 12\na 34", DefaultLimits, ErrTruncated},
		{"too many series", "a{i=\"1\"} 1\na{i=\"2\"} 1\na{i=\"3\"} 1\na{i=\"4\"} 1\n", small, ErrTruncated},
		{"an endless line", "a{x=\"" + strings.Repeat("y", 300) + "\"} 1\n", small, ErrTruncated},
		{"kept lines of many bytes", strings.Repeat("a{x=\""+strings.Repeat("y", 150)+"\"} 1\n", 2), small, ErrTruncated},
		{"a value that is none", "a x\n", DefaultLimits, ErrFormat},
		{"labels without an end", "a{x=\"1\" 5\n", DefaultLimits, ErrFormat},
		{"a syntax error in a metric that is not read", "zzz{{{{ 5\na 1\n", DefaultLimits, nil},
		{"two TYPE lines for one metric", "# TYPE a gauge\na{p=\"1\"} 1\n# TYPE a gauge\na{p=\"2\"} 1\n", DefaultLimits, nil},
		{"nothing", "", DefaultLimits, nil},
		{"CRLF", "# TYPE a gauge\r\na 1\r\n", DefaultLimits, nil},
	} {
		err := Parse(strings.NewReader(c.text), names("a"), c.limits, scraped, func(*Sample) {})
		if (c.want == nil) != (err == nil) || !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}

func TestSamplesHaveTheirOwnTimes(t *testing.T) {
	page := `# TYPE h histogram
h_bucket{le="0.5"} 1
h_bucket{le="+Inf"} 3
h_sum 4.5
h_count 3
# TYPE c counter
c{x="1"} 7 1700000000000
# TYPE g gauge
g 1.15891634176e+011
u NaN
`
	got := map[string]string{}
	err := Parse(strings.NewReader(page), names("h_bucket", "h_sum", "h_count", "c", "g", "u"), DefaultLimits, scraped, func(s *Sample) {
		got[s.Name+s.Labels.Get("le")] = fmt.Sprintf("%g@%d", s.Value, s.At.Unix())
	})
	at := fmt.Sprintf("@%d", scraped.Unix())
	want := map[string]string{
		"h_bucket0.5": "1" + at, "h_bucket+Inf": "3" + at, "h_sum": "4.5" + at, "h_count": "3" + at,
		"c": "7@1700000000", "g": "1.15891634176e+11" + at, "u": "NaN" + at,
	}
	if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v %v\nwant %v", err, got, want)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("# TYPE vllm:num_requests_waiting gauge\nvllm:num_requests_waiting{model_name=\"m\"} 3.0\n"))
	f.Add([]byte("# TYPE vllm:time_to_first_token_seconds histogram\nvllm:time_to_first_token_seconds_bucket{le=\"0.5\"} 1\n" +
		"vllm:time_to_first_token_seconds_count 1\n"))
	f.Add([]byte("DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu=\"0\",UUID=\"GPU-1\",pod=\"p\",namespace=\"n\"} 0.5\n"))
	f.Add([]byte("num_requests_waiting 1e+011\n{\"quoted\",x=\"1\"} 2\n"))
	f.Add([]byte("vllm:time_to_first_token_seconds_count -1\n# TYPE vllm:num_requests_waiting counter\nvllm:num_requests_waiting NaN\n"))
	p, _ := Engine("nim")
	var all []string
	for _, m := range p.Metrics {
		all = append(all, m.Name)
	}
	read := p.SeriesNames(all...)
	for _, n := range DCGMNames(Activity, Memory) {
		read[n] = true
	}
	f.Fuzz(func(t *testing.T, page []byte) {
		cells := make([]Cell, len(p.Metrics))
		counters := make([]Counters, len(p.Metrics))
		var gpus GPUs
		err := Parse(bytes.NewReader(page), read, Limits{Line: 4096, Series: 100, Kept: 1 << 16}, scraped, func(s *Sample) {
			if !read[s.Name] {
				t.Fatalf("%q is not one of the given series", s.Name)
			}
			for i := range p.Metrics {
				cells[i].Add(p, &p.Metrics[i], s)
				counters[i].Add(&p.Metrics[i], s)
			}
			gpus.Add(s)
		})
		if err != nil {
			return
		}
		usable := func(what string, v Value) {
			if v.Quality == Good && !(v.Value >= 0 && v.Value <= 100*Absurd) {
				t.Fatalf("%s is %v and called good", what, v.Value)
			}
		}
		for i := range p.Metrics {
			m := &p.Metrics[i]
			usable(m.Name, cells[i].Value(m))
			h, at, _ := counters[i].Histogram()
			var w Window
			w.Observe(h, at)
			if gain, _, ok := w.Gain(1); ok {
				t.Fatalf("one observation gained %v", gain)
			}
			for _, q := range []float64{0, 0.5, 0.99} {
				if v, quality := m.Latency(&h, q); quality == Good && (math.IsNaN(v) || v < 0 || math.IsInf(v, 0)) {
					t.Fatalf("%s at %g is %v and called good", m.Name, q, v)
				}
			}
		}
		usable(Activity, gpus.Value(Activity))
		usable(Memory, gpus.Value(Memory))
	})
}

func BenchmarkParsePage(b *testing.B) {
	var page strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&page, "vllm:other_metric_bucket{le=\"%d\",model_name=\"meta-llama/Llama-3.1-8B-Instruct\"} %d\n", i, i)
	}
	page.WriteString("# TYPE vllm:num_requests_waiting gauge\nvllm:num_requests_waiting{model_name=\"m\"} 3.0\n")
	read := names("vllm:num_requests_waiting")
	b.SetBytes(int64(page.Len()))
	b.ReportAllocs()
	for b.Loop() {
		n := 0
		if err := Parse(strings.NewReader(page.String()), read, DefaultLimits, scraped, func(*Sample) { n++ }); err != nil || n != 1 {
			b.Fatal(n, err)
		}
	}
}

// Ticks are recorded as JSON, in which a time can only have a year from 0 to 9999. If a pod serves a timestamp outside these years, the
// recording must not fail.
func TestUnusableTimeOfASampleIsTheZeroTime(t *testing.T) {
	for stamp, want := range map[string]time.Time{
		"1700000000000":        time.UnixMilli(1700000000000),
		"1":                    time.UnixMilli(1),
		"0":                    {},
		"-1":                   {},
		"-99999999999999":      {}, // the year -1199
		"253402300800000":      {}, // the year 10000
		"9223372036854775807":  {},
		"-9223372036854775808": {},
	} {
		n := 0
		err := Parse(strings.NewReader("a 3 "+stamp+"\n"), names("a"), DefaultLimits, scraped, func(s *Sample) {
			n++
			if _, err := s.At.MarshalJSON(); err != nil || !s.At.Equal(want) {
				t.Errorf("stamp %s: %v (%v), want %v", stamp, s.At, err, want)
			}
		})
		if err != nil || n != 1 {
			t.Errorf("stamp %s: %d samples, %v", stamp, n, err)
		}
	}
}
