package report

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/e2e/stack"
	"github.com/gpuscaler/gpuscaler/pkg/cost"
)

// The report is about half a minute of one node with four GPUs at $10.493 an hour. Two GPUs are allocated and 25% busy. The other two GPUs
// have no metrics.
func TestReportOfHalfAMinuteWithARealPrometheus(t *testing.T) {
	stack.Eventually(t, 2*time.Minute, "forty seconds of samples of both GPUs", func(ctx context.Context) error {
		n, err := shared.Prometheus.Value(ctx, `min(count_over_time(DCGM_FI_PROF_GR_ENGINE_ACTIVE{exported_namespace="team-chat"}[2m]))`)
		if err == nil && n < 40 {
			err = fmt.Errorf("%g samples", n)
		}
		return err
	})
	args := []string{"report", "--prometheus", shared.Prometheus.URL, "--kubeconfig", shared.Kubeconfig, "--since", "30s", "--step", "5s",
		"--cluster", "e2e"}
	text, code := gpuscaler(t, append(args, "-o", "json")...)
	if code != 0 {
		t.Fatalf("exit code %d", code)
	}
	var b cost.Bill
	if err := json.Unmarshal([]byte(text), &b); err != nil {
		t.Fatal(err)
	}
	near := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 0.01*want {
			t.Errorf("%s is %g, want %g", what, got, want)
		}
	}
	const hours = 30.0 / 3600
	near("GPU-hours", b.Total.GPUHours, 4*hours)
	near("cost", b.Total.Cost, 10.493*hours)
	near("unmeasured", b.Total.Unmeasured, 10.493*hours/2)
	if len(b.Workloads) != 1 || b.Workloads[0].Name != "team-chat/chat" {
		t.Fatalf("workloads %+v", b.Workloads)
	}
	chat := b.Workloads[0]
	near("the chat's GPU-hours", chat.GPUHours, 2*hours)
	near("the chat's activity", chat.Activity().Value, 0.25)
	near("the chat's idle cost", chat.IdleByActivity, 10.493*hours/2*0.75)
	near("the parts' sum", b.Total.Busy+b.Total.Idle()+b.Total.Unmeasured, b.Total.Cost)

	for form, want := range map[string]string{"text": "team-chat/chat", "csv": ",e2e,,team-chat,chat,", "html": "<svg",
		"prom": `gpuscaler_cost_dollars{cluster="e2e",namespace="team-chat"`} {
		if text, code := gpuscaler(t, append(args, "-o", form)...); code != 0 || !strings.Contains(text, want) {
			t.Errorf("-o %s: exit code %d, without %q:\n%.2000s", form, code, want, text)
		} else if form == "text" {
			t.Log("\n" + text)
		}
	}
}

// While Prometheus is stopped, the command must return an error and must not hang.
func TestReportFailsWithoutItsServer(t *testing.T) {
	if _, code := gpuscaler(t, "report", "--prometheus", "http://127.0.0.1:1", "--since", "1h"); code != 1 {
		t.Errorf("exit code %d", code)
	}
}
