package inspect

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/dashboard/explain"
)

// explain must send --at to the server unparsed, because the server's clock can differ from the local clock. In the demo, whose clock is
// simulated, --at 09:04 is a time on the demo's clock.
func TestAtRefersToTheServersClock(t *testing.T) {
	t.Setenv("TZ", "Europe/Berlin")
	var asked url.Values
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.Query()
		fmt.Fprint(w, `{"policy": "team/chat"}`)
	}))
	defer page.Close()
	o := explainOptions{leader: leaderFlags{server: page.URL}, at: "09:04", output: "json"}
	if err := o.run(t.Context(), []string{"team/chat"}, io.Discard); err != nil {
		t.Fatal(err)
	}
	if asked.Get("at") != "09:04" || asked.Get("zone") != "Europe/Berlin" {
		t.Errorf("asked for %v", asked)
	}
}

func TestZoneWithoutANameIsAnOffset(t *testing.T) {
	t.Setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
	if got := zoneName(time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC)); !regexp.MustCompile(`^[+-]\d\d:\d\d$`).MatchString(got) {
		t.Errorf("zone %q", got)
	}
}

func TestErrorOfThePageIsPrinted(t *testing.T) {
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "this replica does not lead: ask the leader", http.StatusServiceUnavailable)
	}))
	defer page.Close()
	o := explainOptions{leader: leaderFlags{server: page.URL}, output: "text"}
	if err := o.run(t.Context(), []string{"team/chat"},
		io.Discard); err == nil || err.Error() != "this replica does not lead: ask the leader" {
		t.Errorf("err = %v", err)
	}
}

func TestListShowsNoTargetWithoutADecision(t *testing.T) {
	var out strings.Builder
	all := []explain.Explanation{
		{Policy: "team/chat", At: time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC), Target: 6, Mode: "auto", Binding: "combine"},
		{Policy: "team/typo", NotDecided: "not decided: Deployment team/tyop is not in the cluster", Mode: "auto"},
	}
	if err := (&explainOptions{output: "text"}).list(all, &out); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(out.String(), "\n")
	if len(lines) != 4 || !strings.Contains(lines[1], "6") || strings.Contains(lines[2], "0") || !strings.Contains(lines[2],
		all[1].NotDecided) {
		t.Errorf("\n%s", out.String())
	}
}
