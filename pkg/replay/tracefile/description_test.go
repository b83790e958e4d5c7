package tracefile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/trace/tracetest"
)

const described = `apiVersion: gpuscaler.io/v1alpha1
kind: Trace
file: log.csv
columns: {time: when, inputTokens: "#3"}
where: {model: chat}
timezone: Europe/Berlin
from: 60
to: 1h30m
scale: 1
tokens: {input: {mean: 900, sigma: 0}, output: {mean: 12}}
`

func writeFile(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestDescriptionConfiguresTheFile(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir, "log.csv", "when,model,n\n2026-01-05 09:00:00,chat,5\n2026-01-05 09:01:30,chat,6\n"+
		"2026-01-05 09:02:00,embed,7\n2026-01-05 10:29:00,chat,\n2026-01-05 12:00:00,chat,9\n")
	path := writeFile(t, dir, "trace.yaml", described)
	tr, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	all := mustCollect(t, tr)
	if len(all) != 2 || all[0] != request(30*time.Second, 6, 12, false, 0) ||
		all[1] != request(88*time.Minute, 900, 12, false, 0) {
		t.Errorf("got %v", all)
	}
	if want := time.Date(2026, 1, 5, 8, 1, 0, 0, time.UTC); !tr.Start.Equal(want) || tr.Duration != 89*time.Minute || tr.Name != "log.csv" {
		t.Errorf("%s starts %v for %v, want log.csv, %v, 1h29m", tr.Name, tr.Start, tr.Duration, want)
	}
	flags, err := Open(path, Options{From: 95 * time.Second, Where: map[string]string{"model": "embed"}})
	if err != nil {
		t.Fatal(err)
	}
	if all := mustCollect(t, flags); len(all) != 1 || all[0].InputTokens != 7 {
		t.Errorf("flags do not win over the file: %v", all)
	}
}

func TestInvalidDescriptionIsRejectedWithItsLine(t *testing.T) {
	head := "apiVersion: gpuscaler.io/v1alpha1\nkind: Trace\nfile: x.csv\n"
	for _, c := range []struct {
		name, text string
		line       int
		found      string
	}{
		{"an unknown field", head + "colums: {}\n", 4, "field colums not found"},
		{"a duration without a unit", head + "from: soon\n", 4, `duration "soon"`},
		{"no YAML", head + "from: [\n", 4, "did not find expected node content"},
		{"another version", strings.Replace(head, "v1alpha1", "v9", 1), 0, `apiVersion "gpuscaler.io/v9"`},
		{"another kind", strings.Replace(head, "kind: Trace", "kind: ScalingPolicy", 1), 0, `kind "ScalingPolicy"`},
		{"no file", strings.Replace(head, "file: x.csv\n", "", 1), 0, "no file"},
		{"two documents", head + "---\n" + head, 0, "a second document"},
		{"empty", "", 0, "EOF"},
		{"huge", head + strings.Repeat("# x\n", maxDescription), 0, "more than 64 KiB"},
		{"a zone that is none", head + "timezone: Mars/Olympus\n", 0, "Mars/Olympus"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Open(writeFile(t, t.TempDir(), "trace.yaml", c.text), Options{})
			tracetest.Refused(t, err, c.line, c.found)
		})
	}
}
