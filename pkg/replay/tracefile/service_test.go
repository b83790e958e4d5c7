package tracefile

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/trace"
	"github.com/gpuscaler/gpuscaler/pkg/replay/trace/tracetest"
	"github.com/gpuscaler/gpuscaler/pkg/replay/tracefile/timestamp"
)

// services returns the service times of the requests of a trace.
func services(t *testing.T, tr *trace.Trace) (out []time.Duration) {
	t.Helper()
	for _, r := range mustCollect(t, tr) {
		out = append(out, r.Service)
	}
	return out
}

// A log without token counts can have the service time of each request. The header contains the unit. Without a unit in the header, the
// times are in seconds.
func TestServiceTimesAreRead(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		name, text string
		o          Options
		want       []time.Duration
		note       string
	}{
		{"the usual header", "ts,service_seconds\n1,0.25\n2,3\n", Options{}, []time.Duration{250 * ms, 3 * time.Second}, ""},
		{"milliseconds in the header", "ts,service_ms\n1,250\n2,3000.5\n", Options{},
			[]time.Duration{250 * ms, 3000*ms + 500*time.Microsecond}, ""},
		{"camel case", "ts,processingTimeMs\n1,250\n", Options{}, []time.Duration{250 * ms}, ""},
		{"a unit in parentheses", "ts,Inference Time (us)\n1,250000\n", Options{}, []time.Duration{250 * ms}, ""},
		{"seconds without a unit", "ts,execution_time\n1,0.25\n", Options{}, []time.Duration{250 * ms}, ""},
		{"durations as text", "ts,service_time\n1,250ms\n2,1m3s\n", Options{}, []time.Duration{250 * ms, 63 * time.Second}, ""},
		{"a column that the user names", "ts,duration\n1,250\n", Options{Columns: Columns{Service: "duration"},
			ServiceUnit: timestamp.Milliseconds},
			[]time.Duration{250 * ms}, ""},
		{"by position, without a header", "1,0.25\n2,1\n", Options{Columns: Columns{Service: "#2"}}, []time.Duration{250 * ms, time.Second}, ""},
		{"an empty cell is unknown, not zero", "ts,service_seconds\n1,\n2,1\n", Options{}, []time.Duration{0, time.Second},
			"rows without a service time: 1"},
		{"zero is known, and short", "ts,service_seconds\n1,0\n2,1\n", Options{}, []time.Duration{1, time.Second},
			"rows with a service time of 0: 1"},
		{"JSON lines", `{"ts":1,"service_ms":250}` + "\n" + `{"ts":2,"service_ms":null}`, Options{}, []time.Duration{250 * ms, 0},
			"rows without a service time: 1"},
		{"a nested JSON key", `{"ts":1,"backend":{"took":0.25}}`, Options{Columns: Columns{Service: "backend.took"}},
			[]time.Duration{250 * ms}, ""},
		{"the name of a service is not a time", "ts,service\n1,llama\n", Options{}, []time.Duration{0}, ""},
		{"a latency may include a queue, so it is not used", "ts,latency_ms\n1,250\n", Options{}, []time.Duration{0},
			`column "latency_ms" is not used`},
	} {
		t.Run(c.name, func(t *testing.T) {
			tr := mustRead(t, c.text, c.o)
			if got := services(t, tr); !slices.Equal(got, c.want) {
				t.Errorf("service times %v, want %v", got, c.want)
			}
			if !strings.Contains(strings.Join(tr.Notes, "\n"), c.note) {
				t.Errorf("notes %q do not contain %q", tr.Notes, c.note)
			}
		})
	}
}

func TestInvalidServiceTimesAreRejectedWithTheirLine(t *testing.T) {
	for _, c := range []struct {
		name, text string
		o          Options
		line       int
		found      string
	}{
		{"negative", "ts,service_seconds\n1,1\n2,-3\n", Options{}, 3, `service time "-3"`},
		{"NaN", "ts,service_seconds\n1,NaN\n", Options{}, 2, `service time "NaN"`},
		{"infinite", "ts,service_seconds\n1,Inf\n", Options{}, 2, `service time "Inf"`},
		{"a word", "ts,service_seconds\n1,fast\n", Options{}, 2, `service time "fast"`},
		{"milliseconds that are taken for seconds", "ts,service_time\n1,250000\n", Options{}, 2, `service time "250000"`},
		{"a negative duration", "ts,service_time\n1,-250ms\n", Options{}, 2, `service time "-250ms"`},
		{"a JSON object", `{"ts":1,"service_ms":{}}`, Options{}, 1, `service time "{}"`},
		{"a unit without a column", "ts\n1\n", Options{ServiceUnit: timestamp.Milliseconds}, 1, "a unit of service times, but no column"},
		{"a column of windowed rates", "start,rate,service_seconds\n0,1,2\n60,1,2\n", Options{Columns: Columns{Service: "service_seconds"}}, 0,
			"a column of service times"},
		{"a column that does not exist", "ts,a\n1,2\n", Options{Columns: Columns{Service: "took"}}, 1, `no column "took"`},
	} {
		_, err := Read("test", strings.NewReader(c.text), c.o)
		t.Run(c.name, func(t *testing.T) { tracetest.Refused(t, err, c.line, c.found) })
	}
	prometheus := `{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[[1700000000,"1"],[1700000060,"1"]]}]}}`
	_, err := Read("test", strings.NewReader(prometheus), Options{Columns: Columns{Service: "took"}})
	tracetest.Refused(t, err, 0, "a column of service times")
}

// WriteCSV writes the service times of a trace, and Open reads them back without a difference.
func TestServiceTimesSurviveWriting(t *testing.T) {
	first := mustRead(t, "ts,service_seconds,status\n1,0.123456789,200\n2,,500\n3,0,200\n", Options{})
	var out bytes.Buffer
	if err := WriteCSV(&out, first); err != nil {
		t.Fatal(err)
	}
	second := mustRead(t, out.String(), Options{})
	if a, b := mustCollect(t, first), mustCollect(t, second); !slices.Equal(a, b) {
		t.Errorf("written %v, read %v\n%s", a, b, out.String())
	}
}

func TestSummaryDescribesServiceTimes(t *testing.T) {
	var text bytes.Buffer
	s := trace.Summarize(mustRead(t, "ts,service_seconds\n1,1\n2,3\n3,\n", Options{}))
	if s.Service.Known != 2 || s.Service.Mean != 2 || s.Service.Max != 3 {
		t.Errorf("%+v, want 2 known with a mean of 2 s and a maximum of 3 s", s.Service)
	}
	if err := s.WriteText(&text); err != nil || !strings.Contains(text.String(), "service   mean 2s") {
		t.Errorf("%v\n%s", err, text.String())
	}
}
