package tracefile

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/trace"
	"github.com/gpuscaler/gpuscaler/pkg/replay/trace/tracetest"
	"github.com/gpuscaler/gpuscaler/pkg/replay/tracefile/timestamp"
)

func seconds(all []trace.Request) []float64 {
	var out []float64
	for _, r := range all {
		out = append(out, r.At.Seconds())
	}
	return out
}

// Each case has the format of a trace file that is used in practice.
func TestFormsOfRealFiles(t *testing.T) {
	u := trace.UnknownTokens
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, text string
		o          Options
		start      string
		want       []trace.Request
		note       string
	}{
		{"seven digits, no zone, CRLF, no newline at the end",
			"TIMESTAMP,ContextTokens,GeneratedTokens\r\n2023-11-16 18:15:46.6805900,374,44\r\n2023-11-16 18:15:50.9951690,396,109",
			Options{}, "2023-11-16T18:15:46.68059Z", []trace.Request{request(0, 374, 44, false, 0), request(4314579000, 396, 109, false, 0)},
			"without a time zone are read as UTC"},
		{"a zone of its own per row", "time\n2026-03-29T03:00:00+02:00\n2026-03-29T01:00:01Z\n2026-03-28T21:00:02-0400\n", Options{},
			"2026-03-29T01:00:00Z", []trace.Request{request(0, u, u, false, 0), request(time.Second, u, u, false, 0),
				request(2*time.Second, u, u, false, 0)},
			"not recorded"},
		{"local times read in the zone that is given", "time\n2026-01-05 09:00:00\n2026-01-05 09:00:01\n", Options{Location: berlin},
			"2026-01-05T08:00:00Z", []trace.Request{request(0, u, u, false, 0), request(time.Second, u, u, false, 0)},
			"read as Europe/Berlin"},
		{"tied and batched timestamps keep their order", "ts,input_tokens,output_tokens\n1,10,1\n1,20,2\n1,30,3\n", Options{}, "",
			[]trace.Request{request(time.Second, 10, 1, false, 0), request(time.Second, 20, 2, false, 0),
				request(time.Second, 30, 3, false, 0)}, ""},
		{"time that runs backwards a little is sorted", "t_ms,prompt_tokens,completion_tokens\n2000,1,1\n1000,2,2\n1000,3,3\n", Options{}, "",
			[]trace.Request{request(time.Second, 2, 2, false, 0), request(time.Second, 3, 3, false, 0), request(2*time.Second, 1, 1, false, 0)},
			"rows up to 1s before an earlier row, sorted: 2"},
		{"failed rows and zero tokens stay, they were demand (BurstGPT)",
			"Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,ChatGPT,472,18,490,API log\n45,ChatGPT,1087,0,1087,API log\n",
			Options{}, "",
			[]trace.Request{request(5*time.Second, 472, 18, false, 0), request(45*time.Second, 1087, 0, false, 0)},
			"rows with 0 output tokens (failed, or embeddings): 1"},
		{"failed rows go where that is asked", "ts,status,output_tokens\n1,200,5\n2,503,0\n3,ok,0\n4,failed,9\n", Options{DropFailed: true}, "",
			[]trace.Request{request(time.Second, u, 5, false, 0), request(3*time.Second, u, 0, false, 0)}, "failed rows dropped: 2"},
		{"one model of a log", "ts,model\n1,a\n2,b\n3,a\n", Options{Where: map[string]string{"model": "a"}}, "",
			[]trace.Request{request(time.Second, u, u, false, 0), request(3*time.Second, u, u, false, 0)}, "rows filtered out: 1"},
		{"epoch seconds with a fraction", "time\n1700000000.123456789\n1700000001\n", Options{}, "2023-11-14T22:13:20.123456789Z",
			[]trace.Request{request(0, u, u, false, 0), request(876543211, u, u, false, 0)}, ""},
		{"epoch milliseconds", "time\n1700000000123\n1700000000124\n", Options{}, "2023-11-14T22:13:20.123Z",
			[]trace.Request{request(0, u, u, false, 0), request(time.Millisecond, u, u, false, 0)}, ""},
		{"epoch nanoseconds", "time\n1700000000123456789\n1700000000123456790\n", Options{}, "2023-11-14T22:13:20.123456789Z",
			[]trace.Request{request(0, u, u, false, 0), request(1, u, u, false, 0)}, ""},
		{"no header, columns by position", "x,1.5,7\ny,2.5,8\n", Options{Columns: Columns{Time: "#2", InputTokens: "#3"}}, "",
			[]trace.Request{request(1500*time.Millisecond, 7, u, false, 0), request(2500*time.Millisecond, 8, u, false, 0)}, ""},
		{"no header, the first column is the time", "0.5\n1.5\n", Options{}, "", []trace.Request{request(500*time.Millisecond, u, u, false, 0),
			request(1500*time.Millisecond, u, u, false, 0)}, ""},
		{"byte order mark, semicolons, comments, blank lines", "\xef\xbb\xbf# exported\ntime;input tokens\n\n1;2\n", Options{}, "",
			[]trace.Request{request(time.Second, 2, u, false, 0)}, ""},
		{"files joined with cat repeat the header", "ts,input_tokens\n1,2\nts,input_tokens\n3,4\n", Options{}, "",
			[]trace.Request{request(time.Second, 2, u, false, 0), request(3*time.Second, 4, u, false, 0)}, "repeated header lines, skipped: 1"},
		{"a prompt with commas and line breaks in quotes", "ts,prompt,output_tokens\n1,\"hello,\nworld\",3\n", Options{}, "",
			[]trace.Request{request(time.Second, u, 3, false, 0)}, ""},
		{"counts as pandas writes them beside a hole", "ts,input_tokens\n1,374.0\n2,\n", Options{}, "",
			[]trace.Request{request(time.Second, 374, u, false, 0), request(2*time.Second, u, u, false, 0)}, ""},
		{"a layout of its own", "time,status\n16/Nov/2023:18:15:46 +0000,200\n", Options{TimeLayout: "02/Jan/2006:15:04:05 -0700"},
			"2023-11-16T18:15:46Z", []trace.Request{request(0, u, u, false, 0)}, ""},
		{"JSON lines with nested tokens", `{"ts":"2026-01-05T09:00:00Z","usage":{"prompt_tokens":7,"completion_tokens":3}}` + "\n\n" +
			`{"usage":{"prompt_tokens":8,"completion_tokens":null},"ts":"2026-01-05T09:00:01.5Z"}`,
			Options{Columns: Columns{InputTokens: "usage.prompt_tokens", OutputTokens: "usage.completion_tokens"}}, "2026-01-05T09:00:00Z",
			[]trace.Request{request(0, 7, 3, false, 0), request(1500*time.Millisecond, 8, u, false, 0)}, "rows without a token count: 1"},
		{"Mooncake: milliseconds from the start", `{"timestamp": 27482, "input_length": 6955, "output_length": 52, "hash_ids": [46, 47]}` +
			"\n" + `{"timestamp": 30535, "input_length": 6472, "output_length": 26}`,
			Options{TimeUnit: timestamp.Milliseconds}, "", []trace.Request{request(27482*time.Millisecond, 6955, 52, false, 0),
				request(30535*time.Millisecond, 6472, 26, false, 0)}, ""},
		{"a slice", "ts\n1\n2\n3\n4\n", Options{From: 2 * time.Second, To: 4 * time.Second}, "",
			[]trace.Request{request(0, u, u, false, 0), request(time.Second, u, u, false, 0)}, ""},
		{"tokens drawn where none are on record", "ts,input_tokens\n1,\n2,7\n",
			Options{Tokens: &trace.Tokens{Input: trace.TokenDist{Mean: 100}, Output: trace.TokenDist{Mean: 20}}}, "",
			[]trace.Request{request(time.Second, 100, 20, false, 0), request(2*time.Second, 7, 20, false, 0)}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, text := range []string{c.text, tracetest.Gzipped(t, c.text)} {
				tr := mustRead(t, text, c.o)
				if got := mustCollect(t, tr); !slices.Equal(got, c.want) {
					t.Errorf("got  %v\nwant %v", got, c.want)
				}
				start := ""
				if !tr.Start.IsZero() {
					start = tr.Start.Format(time.RFC3339Nano)
				}
				if start != c.start {
					t.Errorf("start %q, want %q", start, c.start)
				}
				if !strings.Contains(strings.Join(tr.Notes, "\n"), c.note) {
					t.Errorf("notes %q do not contain %q", tr.Notes, c.note)
				}
			}
		})
	}
}

func TestScaleKeepsAShareOfALog(t *testing.T) {
	var sb strings.Builder
	sb.WriteString("ts\n")
	for i := range 20000 {
		fmt.Fprintf(&sb, "%d\n", i)
	}
	kept := mustCollect(t, mustRead(t, sb.String(), Options{Scale: 0.25, Seed: 3}))
	if len(kept) < 4750 || len(kept) > 5250 { // 5000 are expected; the test allows four standard deviations
		t.Errorf("%d of 20000 kept, want about 5000", len(kept))
	}
	again := mustCollect(t, mustRead(t, sb.String(), Options{Scale: 0.25, Seed: 3}))
	other := mustCollect(t, mustRead(t, sb.String(), Options{Scale: 0.25, Seed: 4}))
	if !slices.Equal(kept, again) || slices.Equal(kept, other) {
		t.Error("the same seed must keep the same rows, another seed others")
	}
}

// A server may write a row when a request ends, so the start times in a log are not in order. Read sorts the requests by start time.
func TestLogIsSorted(t *testing.T) {
	order := rand.New(rand.NewPCG(1, 2)).Perm(500)
	var sb strings.Builder
	sb.WriteString("ts\n")
	for _, i := range order {
		fmt.Fprintf(&sb, "%d\n", i)
	}
	got := seconds(mustCollect(t, mustRead(t, sb.String(), Options{})))
	for i, s := range got {
		if s != float64(i) {
			t.Fatalf("request %d at %v s", i, s)
		}
	}
}

func TestRatesWithAndWithoutHeader(t *testing.T) {
	serveGen := "0,0,0,,0,0\n600,1.3316666666666668,8.598383725990791,Weibull,0.37,0.39\n1200,0.5,1,Gamma,1,2"
	named := "start,rate,cv,family\n" +
		"2026-01-05T00:00:00Z,0,0,\n" +
		"2026-01-05T00:10:00Z,1.3316666666666668,8.598383725990791,Weibull\n" +
		"2026-01-05T00:20:00Z,0.5,1,Gamma\n"
	short := "start,rps\n0,0\n600,1.3316666666666668\n1200,0.5\n"
	for _, text := range []string{serveGen, named, short, tracetest.Gzipped(t, serveGen)} {
		tr := mustRead(t, text, Options{Seed: 9})
		want := []trace.Window{{Length: 10 * time.Minute}, {At: 10 * time.Minute, Length: 10 * time.Minute, Requests: 799},
			{At: 20 * time.Minute, Length: 10 * time.Minute, Requests: 300}}
		if got := tr.Windows(); tr.Kind != trace.Rates || !slices.EqualFunc(got, want, func(a, b trace.Window) bool {
			return a.At == b.At && a.Length == b.Length && rounded(a.Requests, 6) == b.Requests
		}) {
			t.Errorf("%s: windows %v, want %v", tr.Kind, got, want)
		}
		if n := len(mustCollect(t, tr)); n != 1099 || tr.Duration != 30*time.Minute {
			t.Errorf("%d requests in %v, want 1099 in 30m", n, tr.Duration)
		}
	}
}

func TestGapInARateIsNotZero(t *testing.T) {
	text := "start,rate\n0,1\n60,1\n120,1\n540,1\n600,1\n" // the rates from 180 to 540 s are not known
	_, err := Read("hole.csv", strings.NewReader(text), Options{})
	tracetest.Refused(t, err, 5, "a gap of 6m0s")
	for _, c := range []struct {
		gaps Gaps
		want int
	}{{HoldGaps, 660}, {ZeroGaps, 300}} {
		if got := len(mustCollect(t, mustRead(t, text, Options{Gaps: c.gaps}))); got != c.want {
			t.Errorf("gaps %q: %d requests, want %d", c.gaps, got, c.want)
		}
	}
	short := mustRead(t, "start,rate\n0,1\n60,1\n120,1\n240,1\n", Options{})
	if n := len(mustCollect(t, short)); n != 300 || !strings.Contains(strings.Join(short.Notes, "\n"),
		"gaps in the rates, filled with the previous rate: 1") {
		t.Errorf("a gap of a minute: %d requests, notes %q; want the previous rate and a note", n, short.Notes)
	}
}

func TestDistantWindowsAreSummedInMinutes(t *testing.T) {
	tr := mustRead(t, "start,rate\n0,1e6\n0.000000001,0\n0.000000002,0\n30000000,0\n", Options{Gaps: ZeroGaps, Unit: PerSecond, Scale: 1e3})
	if n := len(tr.Windows()); n != 500_001 {
		t.Errorf("%d slots, want one a minute of 30 million seconds", n)
	}
}

// A log contains the requests of two models. If only the rows of one model are read, the arrival times are still relative to the first row
// of the log.
func TestFilterDoesNotChangeTheStart(t *testing.T) {
	text := "time,model\n2026-01-05T09:00:00Z,a\n2026-01-05T09:00:05Z,b\n2026-01-05T09:00:09Z,a\n"
	b := mustRead(t, text, Options{Where: map[string]string{"model": "b"}})
	if got := seconds(mustCollect(t, b)); len(got) != 1 || got[0] != 5 || b.Duration != 9*time.Second {
		t.Errorf("arrivals at %v in %v, want at 5 s in 9s", got, b.Duration)
	}
}
