package tracefile

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/trace"
	"github.com/gpuscaler/gpuscaler/pkg/replay/trace/tracetest"
	"github.com/gpuscaler/gpuscaler/pkg/replay/tracefile/input"
)

func TestInvalidFilesAreRejectedWithTheirLine(t *testing.T) {
	head := "ts,input_tokens,output_tokens\n"
	for _, c := range []struct {
		name, text string
		o          Options
		line       int
		found      string
	}{
		{"nothing", "", Options{}, 0, "an empty file"},
		{"blank lines", "\n\n \n", Options{}, 0, "an empty file"},
		{"comments only", "# a\n# b\n", Options{}, 0, "only comments"},
		{"a header only", head, Options{}, 0, "no requests"},
		{"no time column", "a,b\n1,2\n", Options{}, 1, `no column of timestamps among "a", "b"`},
		{"a column that is not there", "ts,b\n1,2\n", Options{Columns: Columns{OutputTokens: "tokens"}}, 1, `no column "tokens"`},
		{"a name without a header", "1,2\n", Options{Columns: Columns{InputTokens: "tokens"}}, 1, "no header line"},
		{"a position beyond the header", "ts\n1\n", Options{Columns: Columns{Time: "#2"}}, 1, `column "#2"`},
		{"position zero", "ts\n1\n", Options{Columns: Columns{InputTokens: "#0"}}, 1, `column "#0"`},
		{"a short row", head + "1,2,3\n2,3\n", Options{}, 3, "2 columns"},
		{"no timestamp", head + ",2,3\n", Options{}, 2, `timestamp ""`},
		{"negative time", head + "-5,2,3\n", Options{}, 2, `timestamp "-5"`},
		{"NaN time", head + "1,2,3\nNaN,2,3\n", Options{}, 3, `timestamp "NaN"`},
		{"infinite time", head + "Inf,2,3\n", Options{}, 2, `timestamp "Inf"`},
		{"hexadecimal time", head + "0x1p4,2,3\n", Options{}, 2, `timestamp "0x1p4"`},
		{"30 February", head + "2026-02-30 00:00:00,2,3\n", Options{}, 2, "2026-02-30"},
		{"24 o'clock", head + "2026-02-03 24:00:00,2,3\n", Options{}, 2, "24:00:00"},
		{"a leap second", head + "2016-12-31 23:59:60,2,3\n", Options{}, 2, "23:59:60"},
		{"ten digits of a second", head + "2026-02-03 10:00:00.1234567890,2,3\n", Options{}, 2, "1234567890"},
		{"the year 1", head + "0001-01-01 00:00:00,2,3\n", Options{}, 2, "0001-01-01"},
		{"a zone by name", head + "2026-02-03 10:00:00 CET,2,3\n", Options{}, 2, "CET"},
		{"another kind of time", head + "2026-02-03 10:00:00,2,3\n17,2,3\n", Options{}, 3, `timestamp "17"`},
		{"a time far away", head + "2020-02-03 10:00:00,2,3\n2026-02-03 10:00:00,2,3\n", Options{}, 3, "400 days after the start"},
		{"milliseconds taken for seconds", head + "70000000,2,3\n", Options{}, 2, "400 days after the start"},
		{"an hour back, as in autumn", head + "2025-10-26 02:59:59,2,3\n2025-10-26 02:00:00,2,3\n", Options{}, 3, "59m59s before an earlier row"},
		{"newest first", head + "9000,2,3\n8000,2,3\n", Options{}, 3, "before an earlier row"},
		{"negative tokens", head + "1,-2,3\n", Options{}, 2, `input tokens "-2"`},
		{"half a token", head + "1,2,3.5\n", Options{}, 2, `output tokens "3.5"`},
		{"NaN tokens", head + "1,NaN,3\n", Options{}, 2, `input tokens "NaN"`},
		{"absurd tokens", head + "1,2,100000001\n", Options{}, 2, `output tokens "100000001"`},
		{"a quote that never closes", head + "1,\"2,3\n", Options{}, 2, "extraneous or missing \""},
		{"a quote that runs on", head + "1,\"" + strings.Repeat("x\n", input.MaxRecord), Options{}, 2,
			"longer than 1048576 bytes"},
		{"a long line", head + "1,2," + strings.Repeat("3", 2*input.MaxRecord) + "\n", Options{}, 2, "longer than 1048576 bytes"},
		{"too many requests", head + "1,2,3\n2,3,4\n3,4,5\n", Options{MaxRequests: 2}, 4, "more than 2 requests"},
		{"nothing in the slice", head + "1,2,3\n", Options{From: time.Hour}, 0, "no requests"},
		{"a log cannot be scaled up", head + "1,2,3\n", Options{Scale: 2}, 0, "a scale above 1"},
		{"a layout that is not kept", "time\n2026-01-05\n", Options{TimeLayout: "02.01.2006"}, 2, `"2026-01-05"`},
		{"zip", "PK\x03\x04abcdefgh", Options{}, 0, "a zip archive"},
		{"zstd", "\x28\xb5\x2f\xfdabcdefgh", Options{}, 0, "zstd data"},
		{"UTF-16", "\xff\xfet\x00s\x00", Options{}, 0, "UTF-16 text"},
		{"half a gzip", tracetest.Gzipped(t, head+"1,2,3\n")[:30], Options{}, 0, "unexpected EOF"},
		{"a gzip header only", "\x1f\x8b", Options{}, 0, "EOF"},
		{"our own mark, damaged", "# gpuscaler.io/trace start=never duration=1s\nts\n1\n", Options{}, 1, `start "never"`},

		{"a JSON array", `[{"ts":1}]`, Options{}, 0, "a JSON array"},
		{"half an object", `{"ts":1}` + "\n" + `{"ts":`, Options{}, 2, "unexpected end of JSON"},
		{"not an object", `{"ts":1}` + "\n" + `17`, Options{}, 2, "cannot unmarshal"},
		{"a time that is an object", `{"ts":{}}`, Options{}, 1, `timestamp "{}"`},
		{"no time in a later row", `{"ts":1}` + "\n" + `{"t":2}`, Options{}, 2, `timestamp ""`},
		{"no time key", `{"a":1}`, Options{}, 1, "no key of a timestamp"},
		{"a position in JSON", `{"ts":1}`, Options{Columns: Columns{Time: "#1"}}, 1, `position "#1"`},
		{"a long JSON line", `{"ts":1}` + "\n" + `{"ts":2,"p":"` + strings.Repeat("x", 2*input.MaxRecord), Options{}, 2,
			"longer than 1048576 bytes"},

		{"a negative rate", "start,rate\n0,1\n60,-1\n", Options{}, 3, `rate "-1"`},
		{"a NaN rate", "start,rate\n0,1\n60,NaN\n", Options{}, 3, `rate "NaN"`},
		{"no rate", "start,rate\n0,1\n60,\n", Options{}, 3, `rate "nothing"`},
		{"an absurd rate", "start,rate\n0,1\n60,2e6\n", Options{}, 3, "requests in a window"},
		{"an infinite rate", "start,rate\n0,1\n60,+Inf\n", Options{}, 3, "requests in a window"},
		{"a negative CV", "start,rate,cv\n0,1,1\n60,1,-1\n", Options{}, 3, `cv "-1"`},
		{"an absurd CV", "start,rate,cv\n0,1,1\n60,1,1e9\n", Options{}, 3, `cv "1e9"`},
		{"an unknown family", "start,rate,cv,family\n0,1,1,Pareto\n", Options{}, 2, `family "Pareto"`},
		{"windows that overlap", "start,rate\n0,1\n60,1\n60,1\n", Options{}, 4, "starts at or before"},
		{"windows that run backwards", "start,rate\n0,1\n60,1\n30,1\n", Options{}, 4, "starts at or before"},
		{"windows in the wrong unit", "start,rate\n70000000,1\n", Options{}, 2, "400 days after the start"},
		{"one window of unknown length", "start,rate\n0,1\n", Options{}, 0, "a single window"},
		{"rates without traffic", "start,rate\n0,0\n60,0\n", Options{}, 0, "no traffic"},

		{"an unknown format", head + "1,2,3\n", Options{Format: "xml"}, 0, "an option out of range"},
		{"a slice that ends before it begins", head + "1,2,3\n", Options{From: 2 * time.Hour, To: time.Hour}, 0, "an option out of range"},
		{"tokens of no size", head + "1,2,3\n", Options{Tokens: &trace.Tokens{}}, 0, "an option out of range"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Read("trace.csv", strings.NewReader(c.text), c.o)
			tracetest.Refused(t, err, c.line, c.found)
		})
	}
}

func archive(t *testing.T, members map[string]string, order ...string) string {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, name := range order {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(members[name]))}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, members[name]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return tracetest.Gzipped(t, out.String())
}

func TestInvalidFileOfAnArchiveIsNamed(t *testing.T) {
	good := "0,1,1,Gamma,0,0\n600,0,0,,0,0\n"
	members := map[string]string{"d/a.csv": good, "d/b.csv": strings.Replace(good, "600", "550", 1),
		"d/bad.csv": "0,1,1,Gamma,0,0\n600,x,0,,0,0\n",
		"d/log.csv": "ts,input_tokens\n1,2\n", "README": "hello", "d/._a.csv": "\x00\x05", "empty.csv": ""}
	tr := mustRead(t, archive(t, members, "README", "d/._a.csv", "d/a.csv"), Options{})
	if n := len(mustCollect(t, tr)); n != 600 || !strings.Contains(strings.Join(tr.Notes, "\n"), "members that are not .csv, skipped: 2") {
		t.Errorf("%d requests, notes %q", n, tr.Notes)
	}
	for _, c := range []struct {
		members []string
		line    int
		found   string
	}{
		{[]string{"d/a.csv", "d/bad.csv"}, 2, "x.tar.gz(d/bad.csv):2"},
		{[]string{"d/log.csv"}, 0, "without a column of rates"},
		{[]string{"empty.csv"}, 0, "x.tar.gz(empty.csv): found an empty file"},
		{[]string{"README"}, 0, "an archive without a .csv"},
	} {
		_, err := Read("x.tar.gz", strings.NewReader(archive(t, members, c.members...)), Options{})
		tracetest.Refused(t, err, c.line, c.found)
	}
	whole := archive(t, members, "d/a.csv", "d/b.csv")
	_, err := Read("x.tar.gz", strings.NewReader(whole[:len(whole)-30]), Options{})
	tracetest.Refused(t, err, 0, "unexpected EOF")
}

// A client must have the same arrivals whether its file is the only file of the archive or follows the file of another client.
func TestClientsAreIndependent(t *testing.T) {
	members := map[string]string{"a.csv": "0,0.1,2,Gamma,0,0\n600,0.2,3,Weibull,0,0\n", "b.csv": "0,0,0,,0,0\n600,0.000001,1,Gamma,0,0\n"}
	alone := mustCollect(t, mustRead(t, archive(t, members, "a.csv"), Options{Seed: 5}))
	both := mustCollect(t, mustRead(t, archive(t, members, "b.csv", "a.csv"), Options{Seed: 5}))
	if len(alone) != 180 || len(both) < 180 {
		t.Fatalf("%d alone, %d together", len(alone), len(both))
	}
	i := 0
	for _, r := range both {
		if i < len(alone) && r == alone[i] {
			i++
		}
	}
	if i != len(alone) {
		t.Errorf("arrival %d of the client is elsewhere beside another", i)
	}
}

func TestMissingFile(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "no.csv")
	if _, err := Open(missing, Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Open: %v", err)
	}
	if _, err := Open(missing+".yaml", Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("trace.yaml: %v", err)
	}
}
