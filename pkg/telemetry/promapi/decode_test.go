package promapi

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/telemetry/fetch"
)

var roomy = Limits{Bytes: 1 << 20, Series: 100, Labels: 1 << 10}

func decodeAll(text string, l Limits) (out []string, err error) {
	err = Decode(strings.NewReader(text), l, func(s *Series) error {
		at := "-"
		if !s.At.IsZero() {
			at = s.At.UTC().Format("15:04:05.000")
		}
		out = append(out, fmt.Sprintf("%v %g %s %t", s.Labels, s.Value, at, s.Valid))
		return nil
	})
	return out, err
}

func vector(elements string) string {
	return `{"status":"success","data":{"resultType":"vector","result":[` + elements + `]}}`
}

func TestValidAnswers(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       string
	}{
		{"a vector", vector(`{"metric":{"a":"1","b":"x\"y\\z\u00e9"},"value":[3600.25,"1.5"]}`), `[[{a 1} {b x"y\zé}] 1.5 01:00:00.250 true]`},
		{"a matrix: the newest sample", `{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},` +
			`"values":[[60,"1"],[120.5,"2"]]}]}}`, `[[] 2 00:02:00.500 true]`},
		{"spaces", ` { "status" : "success", "data" : { "resultType":"vector", "result" : [ { "metric" : { "a" : "1" , "b" : "2" } , ` +
			`"value" : [ 60 , "1" ] } ] } } `, `[[{a 1} {b 2}] 1 00:01:00.000 true]`},
		{"NaN and infinities", vector(`{"metric":{},"value":[0,"NaN"]},{"metric":{},"value":[0,"+Inf"]},{"metric":{},"value":[0,"-Inf"]}`),
			`[[] NaN 00:00:00.000 true [] +Inf 00:00:00.000 true [] -Inf 00:00:00.000 true]`},
		{"an overflow is an infinity", vector(`{"metric":{},"value":[0,"1e999"]}`), `[[] +Inf 00:00:00.000 true]`},
		{"a native histogram is no float", vector(`{"metric":{"a":"1"},"histogram":[60,{"count":"1"}]}`), `[[{a 1}] NaN - false]`},
		{"nothing", vector(``), `[]`},
		{"null labels", vector(`{"metric":null,"value":[0,"1"]}`), `[[] 1 00:00:00.000 true]`},
		{"warnings about the query", `{"status":"success","warnings":["PromQL warning: x (1:1)","PromQL info: y","3 more warning annotations ` +
			`omitted"],"data":{"resultType":"vector","result":[{"metric":{},"value":[0,"1"]}]}}`, `[[] 1 00:00:00.000 true]`},
		{"no warnings and unknown members", `{"status":"success","infos":["x"],"warnings":null,"data":{"stats":{"a":[1]},` +
			`"resultType":"vector","result":[{"metric":{},"value":[0,"1"],"x":{}}]},"z":1}`, `[[] 1 00:00:00.000 true]`},
		{"an empty matrix element", `{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[]}]}}`,
			`[[] NaN - false]`},
	} {
		got, err := decodeAll(c.text, roomy)
		if text := "[" + strings.Join(got, " ") + "]"; err != nil || text != c.want {
			t.Errorf("%s: %v %s\nwant %s", c.name, err, text, c.want)
		}
	}
}

func TestInvalidAnswers(t *testing.T) {
	one := `{"metric":{"a":"1"},"value":[0,"1"]}`
	for _, c := range []struct {
		name, text string
		want       string // kind of the expected error: truncated, api or format
	}{
		{"a login page", "<html>", "format"},
		{"nothing at all", "", "truncated"},
		{"cut in the middle", vector(one)[:40], "truncated"},
		{"cut before the last brace", strings.TrimSuffix(vector(one), "}"), "truncated"},
		{"cut within a series", vector(one)[:60], "truncated"},
		{"too many series", vector(strings.Repeat(one+",", 100) + one), "truncated"},
		{"labels without end", vector(`{"metric":{"a":"` + strings.Repeat("x", 2000) + `"},"value":[0,"1"]}`), "truncated"},
		{"a partial answer of VictoriaMetrics", `{"status":"success","isPartial":true,"data":{"resultType":"vector","result":[]}}`, "truncated"},
		{"an answer without what a remote storage has",
			`{"status":"success","warnings":["PromQL warning: x","remote_read: ` +
				`remote server http://old:9090 returned HTTP status 503"],"data":{"resultType":"vector","result":[` + one + `]}}`, "truncated"},
		{"an answer that was cut at a limit",
			`{"status":"success","warnings":["results truncated due to limit"],"data":{"resultType":"vector","result":[` + one + `]}}`, "truncated"},
		{"warnings that are a word", `{"status":"success","warnings":"x","data":{"resultType":"vector","result":[` + one + `]}}`, "format"},
		{"an error with data", `{"status":"error","errorType":"execution","error":"x","data":{"resultType":"vector","result":[` + one + `]}}`,
			"api"},
		{"an error", `{"status":"error","errorType":"timeout","error":"x"}`, "api"},
		{"no status", `{"data":{"resultType":"vector","result":[]}}`, "format"},
		{"no result", `{"status":"success","data":{"resultType":"vector"}}`, "format"},
		{"success without data, whole", `{"status":"success"}`, "format"},
		{"null", `null`, "format"},
		{"a list", `[1,2]`, "format"},
		{"a scalar", `{"status":"success","data":{"resultType":"scalar","result":[0,"1"]}}`, "format"},
		{"a string", `{"status":"success","data":{"resultType":"string","result":[0,"1"]}}`, "format"},
		{"results that are an object", `{"status":"success","data":{"resultType":"vector","result":{}}}`, "format"},
		{"a series that is a number", vector(`5`), "format"},
		{"labels that are a list", vector(`{"metric":["a"],"value":[0,"1"]}`), "format"},
		{"a label that is a number", vector(`{"metric":{"a":1},"value":[0,"1"]}`), "format"},
		{"a value that is a number", vector(`{"metric":{},"value":[0,1]}`), "format"},
		{"a value that is a word", vector(`{"metric":{},"value":[0,"many"]}`), "format"},
		{"a time that is a word", vector(`{"metric":{},"value":["now","1"]}`), "format"},
		{"a time before all time", vector(`{"metric":{},"value":[-1,"1"]}`), "format"},
		{"a time after all time", vector(`{"metric":{},"value":[1e300,"1"]}`), "format"},
		{"a sample with brackets in its string",
			`{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[[0,"[1"]]}]}}`, "format"},
		{"two answers", vector(one) + vector(one), "format"},
		{"words after the answer", vector(one) + "</html>", "format"},
	} {
		_, err := decodeAll(c.text, roomy)
		var api *APIError
		var format *FormatError
		got := "ok"
		switch {
		case errors.Is(err, fetch.ErrTruncated):
			got = "truncated"
		case errors.As(err, &api):
			got = "api"
		case errors.As(err, &format):
			got = "format"
		case err != nil:
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s: %s (%v), want %s", c.name, got, err, c.want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(vector(`{"metric":{"a":"1","b":"\u00e9"},"value":[3600.25,"1.5"]}`)))
	f.Add([]byte(`{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[[60,"1"],[120.5,"2"]]}]}}`))
	f.Add([]byte(`{"status":"error","errorType":"timeout","error":"x"}`))
	f.Add([]byte(`{"data":{"result":[{"metric":{"":""},"value":[]}]},"status":"success"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		l := Limits{Bytes: 1 << 20, Series: 10, Labels: 100}
		n := 0
		err := Decode(bytes.NewReader(text), l, func(s *Series) error {
			n++
			size := 0
			for _, x := range s.Labels {
				size += len(x.Name) + len(x.Value)
			}
			// The limit applies to the encoded labels. Decoded labels are never longer, because the escape sequence \u has six bytes and decodes to
			// at most three.
			if n > l.Series || size > l.Labels {
				t.Fatalf("series %d with %d bytes of labels passed", n, size)
			}
			if s.Valid && (s.At.Before(time.Unix(0, 0)) || s.At.After(time.Unix(1<<33, 0))) {
				t.Fatalf("time %v", s.At)
			}
			return nil
		})
		if err == nil && !bytes.Contains(text, []byte("success")) && !bytes.Contains(text, []byte(`\u`)) {
			t.Fatalf("%q was accepted as a success", text)
		}
	})
}

func BenchmarkDecode10000Series(b *testing.B) {
	var text strings.Builder
	text.WriteString(`{"status":"success","data":{"resultType":"vector","result":[`)
	for i := range 10_000 {
		if i > 0 {
			text.WriteByte(',')
		}
		fmt.Fprintf(&text, `{"metric":{"namespace":"team-%d","pool":"llama-%d","gpuscaler_part":"value"},"value":[1700000000.123,"%d"]}`,
			i%50, i, i)
	}
	text.WriteString(`]}}`)
	b.SetBytes(int64(text.Len()))
	b.ReportAllocs()
	for b.Loop() {
		sum := 0.0
		err := Decode(strings.NewReader(text.String()), Limits{Bytes: 1 << 30, Series: 20_000, Labels: 1 << 10}, func(s *Series) error {
			sum += s.Value
			return nil
		})
		if err != nil || math.Abs(sum-49_995_000) > 1 {
			b.Fatal(err, sum)
		}
	}
}
