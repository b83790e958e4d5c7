package pkg_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
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

// Every attempt runs against the real code of its room, and what it gets stands in a table for people. UPDATE_GOLDEN=1 rewrites it.
func TestWhatTheHostileGet(t *testing.T) {
	entrances := []entrance{policyFiles(t), annotations(t), operators(), explainAndPage(t), metricsAPI(t), ports(t), scaler(t), sources(t)}
	got := make([][]string, len(entrances))
	n := 0
	for i, e := range entrances {
		n += len(e.attempts)
		got[i] = make([]string, len(e.attempts))
		t.Run(e.name, func(t *testing.T) {
			for j, a := range e.attempts {
				t.Run(a.what, func(t *testing.T) {
					got[i][j] = tidy(a.try(t))
					if !strings.Contains(got[i][j], a.gets) {
						t.Errorf("they get %q, want %q in it", got[i][j], a.gets)
					}
				})
			}
		})
	}
	if n < 100 {
		t.Errorf("%d attempts, want at least 100", n)
	}
	if !t.Failed() {
		compare(t, table(entrances, got, n))
	}
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
	cell := func(text string) string {
		text = strings.NewReplacer("|", `\|`, "<", "&lt;", ">", "&gt;").Replace(text)
		return strings.Map(func(r rune) rune {
			if r < ' ' || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 { // what hides or turns text round
				return '?'
			}
			return r
		}, text)
	}
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
