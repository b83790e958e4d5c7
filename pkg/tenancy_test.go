package pkg_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// attempt is one thing that somebody hostile tries, and what they get.
type attempt struct {
	what string
	fell string // a peer that something like it happened to, by its CVE or issue
	gets string // stands in what they get, which the table shows as a whole
	try  func(t *testing.T) string
}

// entrance is one way in, and who stands before it.
type entrance struct {
	name, who string
	attempts  []attempt
}

const hostileCases = "../config/security/hostile-cases.md"

// TestWhatTheHostileGet runs every attempt against the real code. A row fails where what they get differs from the row of the table in
// hostileCases; UPDATE_GOLDEN=1 writes the table. `make defences` shows that each row fails without its defence.
func TestWhatTheHostileGet(t *testing.T) {
	entrances := []entrance{policyFiles(t), annotationEntrance(t), operators(), explainAndPage(t), metricsAPI(t), ports(t), scaler(t), sources(t)}
	update := os.Getenv("UPDATE_GOLDEN") != ""
	golden := goldenRows(t)
	got := make([][]string, len(entrances))
	n, ran := 0, 0
	for i, e := range entrances {
		n += len(e.attempts)
		got[i] = make([]string, len(e.attempts))
		t.Run(e.name, func(t *testing.T) {
			for j, a := range e.attempts {
				t.Run(a.what, func(t *testing.T) {
					watchRow(t, e.name, a.what)
					ran++
					got[i][j] = tidy(a.try(t))
					if !strings.Contains(got[i][j], a.gets) {
						t.Errorf("they get %q, want %q in it", got[i][j], a.gets)
					}
					if want := golden[e.name][cell(a.what)]; !update && cell(got[i][j]) != want {
						t.Errorf("they get %q, and the table says %q; UPDATE_GOLDEN=1 writes it after review", got[i][j], want)
					}
				})
			}
		})
	}
	if n < 100 {
		t.Errorf("%d attempts, want at least 100", n)
	}
	if ran == n && !t.Failed() { // else -run chose some
		compare(t, table(entrances, got, n))
	}
}

// watchRow is for `make defences`, which names a file for the rows' results, and rows that are left out because they ended the process.
func watchRow(t *testing.T, entrance, row string) {
	t.Helper()
	file := os.Getenv("HOSTILE_ROWS")
	if file == "" {
		return
	}
	name := entrance + ": " + row
	note := func(what string) {
		f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err == nil {
			_, err = fmt.Fprintf(f, "%s\t%s\n", what, name)
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			t.Error(err)
		}
	}
	if slices.Contains(strings.Split(os.Getenv("HOSTILE_SKIP"), "\n"), name) {
		t.Skip("it ended the process before")
	}
	note("begins")
	t.Cleanup(func() {
		if t.Failed() {
			note("fails")
		} else {
			note("passes")
		}
	})
}

// goldenRows reads what the table says that each attempt gets, by the way in.
func goldenRows(t *testing.T) map[string]map[string]string {
	t.Helper()
	text, err := os.ReadFile(hostileCases)
	if err != nil {
		t.Fatal(err)
	}
	rows, name := map[string]map[string]string{}, ""
	for _, line := range strings.Split(string(text), "\n") {
		if heading, ok := strings.CutPrefix(line, "## "); ok {
			name, rows[heading] = heading, map[string]string{}
		}
		cells := strings.Split(strings.ReplaceAll(line, `\|`, "\x00"), " | ")
		if what, ok := strings.CutPrefix(cells[0], "| "); ok && len(cells) == 3 {
			rows[name][strings.ReplaceAll(what, "\x00", `\|`)] = strings.ReplaceAll(cells[1], "\x00", `\|`)
		}
	}
	return rows
}

// cell writes a text as a cell of the table.
func cell(text string) string {
	text = strings.NewReplacer("|", `\|`, "<", "&lt;", ">", "&gt;").Replace(text)
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 { // characters that hide or reorder text
			return '?'
		}
		return r
	}, text)
}

// tidy takes out what differs from run to run, and the end of what is long.
func tidy(text string) string {
	text = regexp.MustCompile(`127\.0\.0\.1:\d+`).ReplaceAllString(text, "127.0.0.1:PORT")
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "?")), " ")
	if r := []rune(text); len(r) > 230 {
		text = string(r[:230]) + "…"
	}
	return text
}

func table(entrances []entrance, got [][]string, n int) string {
	var b strings.Builder
	fmt.Fprintf(&b, `# What the hostile get

%d things that somebody hostile may try, by the way in that they have, and what they get. Written by the test that tries them
(`+"`pkg/tenancy_test.go`"+`), against the real code of each room; `+"`UPDATE_GOLDEN=1 go test ./pkg -run Hostile`"+` rewrites it.
The last column names a peer that something like it happened to.
`, n)
	for i, e := range entrances {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n| attempt | what they get | peers |\n|---|---|---|\n", e.name, e.who)
		for j, a := range e.attempts {
			fmt.Fprintf(&b, "| %s | %s | %s |\n", cell(a.what), cell(got[i][j]), cell(a.fell))
		}
	}
	return b.String()
}

func compare(t *testing.T, text string) {
	t.Helper()
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.MkdirAll(filepath.Dir(hostileCases), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(hostileCases, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(hostileCases)
	if err != nil {
		t.Fatal(err)
	}
	old := strings.Split(string(want), "\n")
	for i, line := range strings.Split(text, "\n") {
		if i >= len(old) || old[i] != line {
			t.Fatalf("%s:%d differs; UPDATE_GOLDEN=1 rewrites it after review\n got %s", hostileCases, i+1, line)
		}
	}
}

// within fails an attempt that makes us work for long: a flood is an attempt too.
func within(t *testing.T, limit time.Duration, f func() string) string {
	t.Helper()
	start := time.Now()
	text := f()
	if took := time.Since(start); took > limit {
		t.Errorf("it took %s, more than %s", took, limit)
	}
	return text
}
