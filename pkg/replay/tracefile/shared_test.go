package tracefile

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/trace"
	"github.com/gpuscaler/gpuscaler/pkg/shareddata"
)

// stats returns the reference values for a file from the shared stats.json, which a separate program computed.
func stats(t *testing.T, file string) map[string]any {
	raw, err := os.ReadFile(shareddata.Path(t, "stats.json"))
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]map[string]any
	if err := json.Unmarshal(raw, &all); err != nil {
		t.Fatal(err)
	}
	if all[file] == nil {
		t.Fatalf("stats.json does not know %s", file)
	}
	return all[file]
}

// rounded rounds the exact binary value of x. It must round as Python does, because a Python program computed the reference values in
// stats.json. For example, the float64 795.65 is slightly less than 795.65, so it rounds to 795.6.
func rounded(x float64, digits int) float64 {
	y, err := strconv.ParseFloat(strconv.FormatFloat(x, 'f', digits, 64), 64)
	if err != nil {
		panic(err)
	}
	return y
}

func TestAzureHourAgreesWithReferenceCounts(t *testing.T) {
	const file = "AzureLLMInferenceTrace_conv.csv"
	tr, err := Open(shareddata.Path(t, "requests/"+file), Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := trace.Summarize(tr)
	got := map[string]any{
		"requests": s.Requests, "duration_s": rounded(s.Duration.Seconds(), 3), "bins": len(s.Bins), "bin_s": s.Bin.Seconds(),
		"min": s.RPM.Min, "p50": s.RPM.P50, "p95": s.RPM.P95, "max": s.RPM.Max, "zero_bins": s.ZeroBins,
		"max_gap_s": rounded(s.LongestGap.Seconds(), 1), "gaps_over_5min": s.Over5m, "gaps_over_10min": s.Over10m,
		"gap_time_over_10min_frac": s.Over10mFrac, "bins_sha256": s.BinsSHA256(),
	}
	want := stats(t, file)
	for name := range want {
		if fmt.Sprint(got[name]) != fmt.Sprint(want[name]) {
			t.Errorf("%s = %v, stats.json has %v", name, got[name], want[name])
		}
	}
	if s.RPM.MinWhole <= s.RPM.Min || s.Partial == 0 {
		t.Errorf("the last 22 s (%v requests) pass for a quiet minute: MinWhole %v, Partial %v", s.RPM.Min, s.RPM.MinWhole, s.Partial)
	}
	if want := time.Date(2023, 11, 16, 18, 15, 46, 680590000, time.UTC); !tr.Start.Equal(want) {
		t.Errorf("start %v, want %v", tr.Start, want)
	}
}

func TestServeGenRatesAgreeWithReferenceSums(t *testing.T) {
	for _, set := range []string{"deepseek-r1", "m-large"} {
		t.Run(set, func(t *testing.T) {
			file := "servegen_" + set + "_traces.tar.gz"
			tr, err := Open(shareddata.Path(t, "requests/"+file), Options{})
			if err != nil {
				t.Fatal(err)
			}
			s := trace.Summarize(tr)
			got := map[string]any{
				"clients": s.Clients, "windows": len(s.Bins), "window_s": s.Bin.Seconds(), "duration_s": s.Duration.Seconds(),
				"total_requests": float64(s.Requests),
				"rpm_min":        rounded(s.RPM.Min, 1), "rpm_p50": rounded(s.RPM.P50, 1), "rpm_p95": rounded(s.RPM.P95, 1),
				"rpm_max": rounded(s.RPM.Max, 1),
			}
			want := stats(t, file)
			for name := range want {
				if fmt.Sprint(got[name]) != fmt.Sprint(want[name]) {
					t.Errorf("%s = %v, stats.json has %v", name, got[name], want[name])
				}
			}
		})
	}
}

// In every window of every client, the number of generated arrivals is the recorded number. The whole day therefore has exactly the
// recorded number of requests.
func TestDrawnServeGenDayHasTheRecordedRequests(t *testing.T) {
	tr, err := Open(shareddata.Path(t, "requests/servegen_deepseek-r1_traces.tar.gz"), Options{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	perWindow := make([]float64, 144)
	last := time.Duration(0)
	for r := range tr.All() {
		if r.At < last {
			t.Fatalf("arrival at %v after one at %v", r.At, last)
		}
		last = r.At
		perWindow[int(r.At/(10*time.Minute))]++
	}
	for i, w := range tr.Windows() {
		if perWindow[i] != math.Round(w.Requests) {
			t.Errorf("window %d: %v drawn, %v recorded", i, perWindow[i], w.Requests)
		}
	}
}

func TestSliceHasTheSameArrivals(t *testing.T) {
	file := shareddata.Path(t, "requests/servegen_deepseek-r1_traces.tar.gz")
	whole, err := Open(file, Options{Seed: 1, To: 3 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	from, to := 65*time.Minute, 125*time.Minute // neither is on the border of a window
	slice, err := Open(file, Options{Seed: 1, From: from, To: to})
	if err != nil {
		t.Fatal(err)
	}
	s := slice.Stream()
	n := 0
	for want := range whole.All() {
		if want.At < from || want.At >= to {
			continue
		}
		got, ok := s.Next()
		if want.At -= from; !ok || got != want {
			t.Fatalf("request %d is %v, %v in the slice and %v in the whole", n, got, ok, want)
		}
		n++
	}
	if _, more := s.Next(); more || n == 0 || slice.Duration != time.Hour {
		t.Errorf("%d requests, more %v, duration %v; want some, false, 1h", n, more, slice.Duration)
	}
}
