package inspect

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/dashboard"
	"github.com/gpuscaler/gpuscaler/pkg/dashboard/explain"
	"github.com/gpuscaler/gpuscaler/pkg/engine"
)

// `gpuscaler status` lists each workload that needs attention with the cause. A workload that has only a pending replica is not listed.
func TestStatusListsTheWorkloadsThatNeedAttention(t *testing.T) {
	at, value := time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC), 3.0
	exact := &explain.ScaledBy{Kind: "HPA", Name: "x", Exact: true}
	all := []explain.Explanation{
		{Policy: "team/good", At: at, Target: 4, Current: 3, Pending: 1, ScaledBy: exact},
		{Policy: "team/absent", NotDecided: "the Deployment does not exist"},
		{Policy: "team/quota", At: at, Rejected: 2, Rejection: engine.Rejection{Kind: "ResourceQuota", Name: "gpus", Text: "exceeded quota"}},
		{Policy: "team/crash", At: at, Crashing: 1, CrashingPod: "crash-1"},
		{Policy: "team/blind", At: at, Degraded: true,
			Signals: []explain.Signal{{Name: "queue", Cause: "unreachable"}, {Name: "gpu", Value: &value}}},
		{Policy: "team/paused", At: at, Operator: &explain.Operator{Paused: true, By: "jane"}},
		{Policy: "team/held", At: at, Mode: "hold", Served: "held by mode: hold"},
		{Policy: "team/watched", At: at, Mode: "advisory", Served: "advisory"},
		{Policy: "team/bounded", At: at, ScaledBy: &explain.ScaledBy{Kind: "HPA", Name: "y"}},
	}
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != dashboard.WorkloadsPath {
			http.NotFound(w, r)
			return
		}
		_ = json.NewEncoder(w).Encode(all)
	}))
	defer page.Close()
	code, out, problem := runLine(t, "status", "--server", page.URL)
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, problem)
	}
	for _, want := range []string{"9 workloads: 2 without a problem\n", "team/absent   the Deployment does not exist\n",
		"ResourceQuota gpus rejects the pods of 2 replicas: exceeded quota\n", "1 replica in a loop of restarts, for example the pod crash-1\n",
		"signals are missing: queue (unreachable)\n", "jane", "held by mode: hold\n", "HPA/y (not exact)\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if strings.Contains(out, "team/good") {
		t.Errorf("a workload without a problem is listed:\n%s", out)
	}
	var read workloadStatus
	if _, out, _ = runLine(t, "status", "--server", page.URL, "-o", "json"); json.Unmarshal([]byte(out), &read) != nil ||
		read.Workloads != 9 || len(read.Attention) != 7 {
		t.Errorf("%s", out)
	}
	all = all[:1]
	if _, out, _ = runLine(t, "status", "--server", page.URL, "-n", "team"); out != "1 workload: 1 without a problem\n" {
		t.Errorf("%q", out)
	}
	page.Close()
	if code, _, problem = runLine(t, "status", "--server", page.URL); code != 1 || problem == "" {
		t.Errorf("without a leader: exit code %d, %q", code, problem)
	}
}
