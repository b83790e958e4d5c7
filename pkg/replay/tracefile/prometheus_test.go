package tracefile

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gpuscaler/gpuscaler/pkg/replay/trace/tracetest"
)

func matrix(series ...string) string {
	return `{"status":"success","data":{"resultType":"matrix","result":[` + strings.Join(series, ",") + `]}}`
}

func TestSavedRangeQuery(t *testing.T) {
	one := `{"metric":{"pod":"a"},"values":[[1700000060,"1"],[1700000120,"0"],[1700000180.000,"2.5"]]}`
	for _, text := range []string{matrix(one), tracetest.Gzipped(t, matrix(one)), strings.ReplaceAll(matrix(one), ",", ",\n ")} {
		tr := mustRead(t, text, Options{})
		// rate() covers the time before a sample, so the sample at second 60 is the rate of the minute that begins at second 0.
		if want := time.Unix(1700000000, 0).UTC(); !tr.Start.Equal(want) || tr.Duration != 3*time.Minute {
			t.Errorf("start %v, duration %v; want %v, 3m", tr.Start, tr.Duration, want)
		}
		bins := tr.Bins(time.Minute)
		if fmt.Sprint(bins) != "[60 0 150]" {
			t.Errorf("requests a minute %v, want [60 0 150]", bins)
		}
	}
	for unit, want := range map[RateUnit]int{PerSecond: 210, PerMinute: 3, PerWindow: 3} {
		tr := mustRead(t, matrix(strings.Replace(one, `"2.5"`, `"2.5"`, 1)), Options{Unit: unit})
		if n := len(mustCollect(t, tr)); n != want && n != want+1 { // 3.5 requests are 3 or 4
			t.Errorf("%s: %d requests, want %d", unit, n, want)
		}
	}
}

func TestSeriesAreSummed(t *testing.T) {
	a := `{"metric":{"pod":"a"},"values":[[1700000060,"1"],[1700000120,"1"]]}`
	b := `{"metric":{"pod":"b"},"values":[[1700000120,"2"]]}`
	tr := mustRead(t, matrix(a, b), Options{})
	if bins := fmt.Sprint(tr.Bins(time.Minute)); bins != "[60 180]" {
		t.Errorf("requests a minute %v, want [60 180]", bins)
	}
	if notes := strings.Join(tr.Notes, "\n"); !strings.Contains(notes, "clients that begin later or end earlier than others: "+
		"no traffic in the missing time: 1") || !strings.Contains(notes, "2 series, read as requests per second") {
		t.Errorf("notes %q", tr.Notes)
	}
}

func TestNaNIsUnknown(t *testing.T) {
	values := func(nan int) string {
		var vs []string
		for i := range 20 {
			v := "1"
			if i >= 5 && i < 5+nan {
				v = "NaN"
			}
			vs = append(vs, fmt.Sprintf("[%d,%q]", 1700000000+60*i, v))
		}
		return matrix(`{"metric":{},"values":[` + strings.Join(vs, ",") + `]}`)
	}
	tr := mustRead(t, values(5), Options{})
	if n := len(mustCollect(t, tr)); n != 1200 || !strings.Contains(strings.Join(tr.Notes, "\n"),
		"samples that are NaN: treated as missing: 5") {
		t.Errorf("%d requests, notes %q; want the previous rate for five minutes, and a note", n, tr.Notes)
	}
	_, err := Read("p.json", strings.NewReader(values(6)), Options{})
	tracetest.Refused(t, err, 0, "a gap of 6m0s without a rate before 2023-11-14T22:23:20Z")
}

func TestInvalidResponsesAreRejected(t *testing.T) {
	for _, c := range []struct{ name, text, found string }{
		{"Prometheus' own error", `{"status":"error","errorType":"bad_data","error":"invalid parameter \"query\""}`,
			"Prometheus' error bad_data"},
		{"an instant query", `{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1,"1"]}]}}`,
			`resultType "vector"`},
		{"no series", matrix(), "no series"},
		{"histograms", matrix(`{"metric":{},"histograms":[[1700000000,{}]]}`), "native histograms"},
		{"negative", matrix(`{"metric":{},"values":[[1700000000,"1"],[1700000060,"-1"]]}`), "(series 1) sample 2: found value -1"},
		{"infinite", matrix(`{"metric":{},"values":[[1700000000,"+Inf"]]}`), "value +Inf"},
		{"a value that is no number", matrix(`{"metric":{},"values":[[1700000000,"x"]]}`), `sample value "x"`},
		{"a sample of three", matrix(`{"metric":{},"values":[[1700000000,"1",2]]}`), "has not two parts"},
		{"a time that is none", matrix(`{"metric":{},"values":[[17,"1"]]}`), "not in epoch seconds"},
		{"one sample only", matrix(`{"metric":{},"values":[[1700000000,"1"]]}`), "a single window"},
		{"equal times", matrix(`{"metric":{},"values":[[1700000000,"1"],[1700000000,"1"]]}`), "starts at or before"},
		{"cut short", matrix(`{"metric":{}}`)[:60], "unexpected EOF"},
		{"something behind it", matrix(`{"metric":{},"values":[[1700000000,"1"],[1700000060,"1"]]}`) + "{}", "more after the end"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Read("p.json", strings.NewReader(c.text), Options{Format: Prometheus})
			tracetest.Refused(t, err, 0, c.found)
		})
	}
	_, err := Read("p.json", strings.NewReader(`{"metadata":{"gap_seconds":60},"data":[1]}`), Options{})
	tracetest.Refused(t, err, 0, "a spot trace")
}

// Random counts per step are written as a response of Prometheus. The trace that is read from this response must have the same counts.
func TestPrometheusRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		counts := rapid.SliceOfN(rapid.IntRange(0, 50), 2, 40).Draw(t, "counts")
		step := rapid.IntRange(1, 300).Draw(t, "step")
		total := 0
		var values [][2]any
		for i, n := range counts {
			total += n
			values = append(values, [2]any{1700000000 + i*step, fmt.Sprint(n)})
		}
		raw, err := json.Marshal(map[string]any{"status": "success", "data": map[string]any{"resultType": "matrix",
			"result": []any{map[string]any{"metric": map[string]string{"job": "x"}, "values": values}}}})
		if err != nil {
			t.Fatal(err)
		}
		tr, err := Read("p.json", strings.NewReader(string(raw)), Options{Unit: PerWindow})
		if total == 0 {
			if err == nil {
				t.Fatal("a trace of nothing was accepted")
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := tr.Bins(time.Duration(step) * time.Second); fmt.Sprint(got) != fmt.Sprint(counts) {
			t.Errorf("got %v, want %v", got, counts)
		}
	})
}
