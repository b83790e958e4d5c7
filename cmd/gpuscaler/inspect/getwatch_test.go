package inspect

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/cmd/gpuscaler/commandline"
	"github.com/gpuscaler/gpuscaler/pkg/dashboard/explain"
)

// untilText is an output that cancels a context when it contains a text.
type untilText struct {
	mu     sync.Mutex
	all    bytes.Buffer
	text   string
	cancel context.CancelFunc
}

func (u *untilText) Write(p []byte) (int, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	n, err := u.all.Write(p)
	if strings.Contains(u.all.String(), u.text) {
		u.cancel()
	}
	return n, err
}

// changingPage serves a different response to each of the first five reads: two policies; a changed reason; a changed target; an error; and
// only the first policy. Further reads repeat the last response.
func changingPage(t *testing.T) (address string) {
	t.Helper()
	at := time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC)
	one := func(target int32, why string) explain.Explanation {
		return explain.Explanation{Policy: "team-chat/llama-chat", At: at, Since: at, Target: target, Current: 3, Ready: 3, Mode: "auto",
			Binding: "combine", Why: why}
	}
	other := explain.Explanation{Policy: "team-embed/worker", Mode: "advisory", NotDecided: "the Deployment does not exist"}
	reads := [][]explain.Explanation{{one(4, "gateway 37"), other}, {one(4, "gateway 38"), other}, {one(6, "gateway 58"), other}, nil,
		{one(6, "gateway 58")}}
	n := 0
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		read := reads[min(n, len(reads)-1)]
		if n++; read == nil {
			http.Error(w, "no leader", http.StatusServiceUnavailable)
			return
		}
		_ = json.NewEncoder(w).Encode(read)
	}))
	t.Cleanup(page.Close)
	return page.URL
}

func watch(t *testing.T, until string, args ...string) (code int, out, problems string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	stdout, stderr := &untilText{text: until, cancel: cancel}, &bytes.Buffer{}
	line := append([]string{"get", "-A", "-w", "--interval", "1ms", "--server", changingPage(t)}, args...)
	code = commandline.Run(ctx, rootCommand(), line, stdout, stderr)
	return code, stdout.all.String(), stderr.String()
}

func TestWatchPrintsARowWhenItChanges(t *testing.T) {
	code, out, problems := watch(t, "removed\n")
	if code != commandline.ExitInterrupted || problems != "gpuscaler: no leader; trying again\ncancelled\n" {
		t.Errorf("exit code %d, standard error %q", code, problems)
	}
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	var found []string
	for _, l := range lines {
		f := strings.Fields(l)
		found = append(found, f[0]+" "+f[1])
	}
	want := []string{"POLICY TARGET", "team-chat/llama-chat 4", "team-embed/worker ?", "team-chat/llama-chat 6", "team-embed/worker removed"}
	if strings.Join(found, "\n") != strings.Join(want, "\n") {
		t.Errorf("printed\n%s", out)
	}
	if strings.Index(lines[0], "MODE") != strings.Index(lines[3], "auto") || strings.ContainsAny(out, "\x1b\r") {
		t.Errorf("the columns are not aligned:\n%s", out)
	}
}

func TestWatchWithJSONPrintsOneLineForEachObject(t *testing.T) {
	code, out, _ := watch(t, `"target":6`, "-o", "json")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if code != commandline.ExitInterrupted || len(lines) != 3 {
		t.Fatalf("exit code %d, %d lines:\n%s", code, len(lines), out)
	}
	for _, l := range lines {
		var e explain.Explanation
		if err := json.Unmarshal([]byte(l), &e); err != nil || e.Policy == "" {
			t.Errorf("%v: %s", err, l)
		}
	}
}

func TestWatchRefusesYAMLAndAnInvalidInterval(t *testing.T) {
	for want, args := range map[string][]string{"use text, wide or json": {"-o", "yaml"}, "duration above 0": {"--interval", "0s"}} {
		if code, _, problem := runLine(t, append([]string{"get", "-w", "--server", "http://127.0.0.1:1"}, args...)...); code != 1 ||
			!strings.Contains(problem, want) {
			t.Errorf("%v: exit code %d: %s", args, code, problem)
		}
	}
}

func TestAnInterruptIsReportedAsCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var stdout, stderr bytes.Buffer
	code := commandline.Run(ctx, rootCommand(), []string{"get", "--server", leaderPage(t)}, &stdout, &stderr)
	if code != commandline.ExitInterrupted || stderr.String() != "cancelled\n" {
		t.Errorf("exit code %d: %s", code, stderr.String())
	}
}
