package browser

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/cost"
	"github.com/gpuscaler/gpuscaler/pkg/cost/report"
)

// The HTML reports of audit, replay and report must work as files, without a server, because users open them from a disk or as an
// attachment.
func TestReports(t *testing.T) {
	b := open(t)
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name+".html") }

	gpuscaler(t, "audit", "--sample", "-o", "html", "--file", file("audit"))
	b.look("audit", "file://"+file("audit"))

	requests := filepath.Join(dir, "requests.csv")
	gpuscaler(t, "trace", "generate", "diurnal", "--for", "30m", "--rate", "2", "--file", requests)
	gpuscaler(t, "replay", "--config", "config/examples/scenarios/objective.yaml", "--requests", requests, "--baselines", "keda",
		"--bound", "-o", "html", "--file", file("replay"))
	b.look("replay", "file://"+file("replay"))

	if err := writeBill(file("cost")); err != nil {
		t.Fatal(err)
	}
	b.look("cost", "file://"+file("cost"))
}

// writeBill writes the cost report of a day. A node with four GPUs costs $8 per hour. A chat service uses two of the GPUs, which are busy
// from 08:00 to 18:00.
func writeBill(file string) error {
	from := time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)
	ledger := cost.NewLedger(cost.Options{})
	for hour := range 24 {
		activity := 0.02
		if hour >= 8 && hour < 18 {
			activity = 0.8
		}
		at := from.Add(time.Duration(hour) * time.Hour)
		node := cost.Node{Name: "gpu-0", GPUs: 4, Observed: cost.Price{Hourly: 8, From: "Karpenter"}}
		for _, id := range []string{"GPU-1", "GPU-2"} {
			node.Devices = append(node.Devices, cost.Device{ID: id, Slices: []cost.Slice{{
				Pods: []cost.Pod{{Namespace: "team-chat", Name: "llama-chat-" + id, Workload: "llama-chat"}}, Activity: cost.Of(activity),
			}}})
		}
		ledger.Add(cost.Interval{At: at, Hours: 1, Nodes: []cost.Node{node}})
	}
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	defer out.Close()
	return report.WriteHTML(out, ledger.Bill(cost.Period{From: from, To: from.Add(24 * time.Hour), Step: time.Hour}))
}
