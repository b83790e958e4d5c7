package evaluate

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// recorded starts a Prometheus server with two series of 1 request per second and returns its URL. asked counts the HTTP requests to the
// server. Like a real Prometheus server, it refuses queries for more than 11,000 points.
func recorded(t *testing.T, asked *int) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*asked++
		if err := r.ParseForm(); err != nil || !strings.HasSuffix(r.URL.Path, "/api/v1/query_range") {
			http.Error(w, "what?", http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		number := func(name string) float64 { v, _ := strconv.ParseFloat(r.Form.Get(name), 64); return v }
		from, to, step := number("start"), number("end"), number("step")
		if r.Form.Get("query") != "sum by (pool) (rate(x[1m]))" || (to-from)/step > 11_000 {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"status":"error","errorType":"bad_data","error":"exceeded maximum resolution of 11,000 points per timeseries"}`)
			return
		}
		var series []string
		for _, pool := range []string{"a", "b"} {
			var values []string
			for at := from; at <= to; at += step {
				values = append(values, fmt.Sprintf(`[%.3f,"1"]`, at))
			}
			series = append(series, fmt.Sprintf(`{"metric":{"pool":%q},"values":[%s]}`, pool, strings.Join(values, ",")))
		}
		fmt.Fprintf(w, `{"status":"success","data":{"resultType":"matrix","result":[%s]}}`, strings.Join(series, ","))
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func execute(args ...string) (string, error) {
	var out bytes.Buffer
	root := rootCommand()
	root.SetOut(&out)
	root.SetErr(&out)
	root.SetArgs(args)
	err := root.Execute()
	return out.String(), err
}

// Two weeks with a step of one minute have more points than one response may contain, so the trace is fetched with several queries. The
// saved file must contain the same trace.
func TestTraceIsFetchedInPartsAndSavedAsOne(t *testing.T) {
	asked := 0
	saved := filepath.Join(t.TempDir(), "fortnight.json")
	live, err := execute("trace", "--prometheus", recorded(t, &asked), "--query", "sum by (pool) (rate(x[1m]))", "--start", "-2w", "--end",
		"2026-11-21T00:00:00Z", "--save", saved)
	if err != nil {
		t.Fatal(err)
	}
	if asked != 3 {
		t.Errorf("asked %d times for 20,161 points", asked)
	}
	fromFile, err := execute("trace", saved)
	if err != nil {
		t.Fatal(err)
	}
	_, live, _ = strings.Cut(live, "\n") // the first line is the name of the trace
	_, fromFile, _ = strings.Cut(fromFile, "\n")
	if live != fromFile {
		t.Errorf("fetched:\n%s\nsaved:\n%s", live, fromFile)
	}
	if !strings.Contains(live, "2 series") || !strings.Contains(live, "2026-11-06") {
		t.Errorf("%s", live)
	}
}

func TestReplayAndTuneFetchOnce(t *testing.T) {
	for _, command := range []string{"replay", "tune"} {
		asked := 0
		text, err := execute(command, "--config", "../../../config/examples/scenarios/inflight.yaml", "--measure", "inflight=inSystem",
			"--prometheus", recorded(t, &asked),
			"--query", "sum by (pool) (rate(x[1m]))", "--start", "-20m", "--end", "2026-11-21T00:00:00Z")
		if err != nil || asked != 1 {
			t.Errorf("%s: %v, asked %d times\n%s", command, err, asked, text)
		}
	}
}

func TestFetchErrorsNameTheCause(t *testing.T) {
	asked := 0
	url := recorded(t, &asked)
	file := filepath.Join(t.TempDir(), "requests.csv")
	if err := os.WriteFile(file, []byte("time\n0\n1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ want, args string }{
		{"--prometheus needs --query", ""},
		{"exceeded maximum", "--query up"},
		{"is not before", "--query up --start 200 --end 100"},
		{"use 2026-11-14", "--query up --start yesterday"},
		{"at least 1s", "--query up --step 1ms"},
		{"a longer --step", "--query up --start -10y"},
		{"use one of them", "--query up " + file},
	} {
		if text, err := execute(append([]string{"trace", "--prometheus", url},
			strings.Fields(c.args)...)...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q\n%s", c.args, err, c.want, text)
		}
	}
	if _, err := execute("trace"); err == nil || !strings.Contains(err.Error(), "--prometheus") {
		t.Errorf("nothing named: %v", err)
	}
	if _, err := execute("trace", "--prometheus", "http://127.0.0.1:1", "--query", "up"); err == nil || !strings.Contains(err.Error(),
		"127.0.0.1:1") {
		t.Errorf("without a server: %v", err)
	}
}

func TestInstants(t *testing.T) {
	before := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"now": before, "-7d": before.AddDate(0, 0, -7), "-90m": before.Add(-90 * time.Minute), "2026-11-14T01:00:00+01:00": before.AddDate(0, 0,
			-7), "1794960000.5": time.UnixMilli(1794960000500),
	} {
		if got, err := instantOf("--start", text, before); err != nil || !got.Equal(want) {
			t.Errorf("%s: %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "-", "-7", "--7d", "7d", "NaN", "1e300", "-0d"} {
		if got, err := instantOf("--start", text, before); err == nil {
			t.Errorf("%q is read as %v", text, got)
		}
	}
}
