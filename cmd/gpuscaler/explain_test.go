package main

import (
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/dashboard"
)

func TestMomentsAsPeopleWriteThem(t *testing.T) {
	now := time.Date(2026, 11, 20, 9, 4, 30, 0, time.UTC)
	for text, want := range map[string]string{
		"":                          "0001-01-01T00:00:00Z",
		"09:04":                     "2026-11-20T09:04:00Z",
		"09:05":                     "2026-11-19T09:05:00Z", // not yet today: yesterday
		"03:12:07":                  "2026-11-20T03:12:07Z",
		"10m":                       "2026-11-20T08:54:30Z",
		"-1h":                       "2026-11-20T08:04:30Z",
		"2026-11-20T10:00:00+02:00": "2026-11-20T08:00:00Z",
	} {
		got, err := parseMoment(text, now)
		if err != nil || got.UTC().Format(time.RFC3339) != want {
			t.Errorf("%q: %s, %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"yesterday", "25:00", "9"} {
		if got, err := parseMoment(text, now); err == nil {
			t.Errorf("%q: %s, want an error", text, got)
		}
	}
}

func TestTheListShowsNoNumberWhereThereIsNoDecision(t *testing.T) {
	var out strings.Builder
	all := []dashboard.Explanation{
		{Policy: "team/chat", At: time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC), Target: 6, Mode: "auto", Binding: "combine"},
		{Policy: "team/typo", NotDecided: "not decided: Deployment team/tyop is not seen in the cluster", Mode: "auto"},
	}
	if err := (&explainOptions{output: "text"}).list(all, &out); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(out.String(), "\n")
	if len(lines) != 4 || !strings.Contains(lines[1], "6") || strings.Contains(lines[2], "0") || !strings.Contains(lines[2], all[1].NotDecided) {
		t.Errorf("\n%s", out.String())
	}
}
