package spotbench

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/evaluate"
	"github.com/gpuscaler/gpuscaler/pkg/replay/spotmarket"
)

// The table of spot markets in the replay guide must show the results of `make bench-spot`.
func TestGuideShowsTheResultsOnRecordedMarkets(t *testing.T) {
	guide, err := os.ReadFile("../../../config/guides/replay.md")
	if err != nil {
		t.Fatal(err)
	}
	for name, file := range map[string]string{"AWS g4dn": "bamboo_aws_g4dn-trace.csv", "AWS p3": "bamboo_aws_p3-trace.csv",
		"GCP a100": "bamboo_gcp_a100x1-east1b.txt"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join("..", "..", "..", "..", "shared", "data", "spot", file)
			if _, err := os.Stat(path); err != nil {
				t.Skipf("skipped: the recorded markets are not beside the project: %v", err)
			}
			market, err := spotmarket.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			r, err := Compare(t.Context(), Case{Spot: []*spotmarket.Trace{market}, Replicas: int32(market.Summarize().Mean),
				SpotHourly: evaluate.DefaultSpotHourly, OnDemandHourly: evaluate.DefaultHourly, ColdStart: 5 * time.Minute, Seed: 1})
			if err != nil {
				t.Fatal(err)
			}
			if row := guideRow(name, r); !strings.Contains(string(guide), row+"\n") {
				t.Errorf("config/guides/replay.md has no row\n%s", row)
			}
		})
	}
}

// guideRow returns the row of a market: the share of the replica time that is available, and the cost as a multiple of the lowest cost.
func guideRow(name string, r *Report) string {
	row := "| " + name + " |"
	for _, column := range []string{"gpuscaler", "SkyServe, dynamic fallback", "more on demand", "Karpenter, weighted pools",
		"Karpenter, consolidating to cheaper nodes"} {
		for _, run := range r.Runs {
			if reserve, isReserve := strings.CutSuffix(run.Name, " more on demand"); isReserve && column == "more on demand" {
				row += fmt.Sprintf(" %s more:", strings.TrimPrefix(reserve, "SkyServe, "))
			} else if run.Name != column {
				continue
			}
			row += fmt.Sprintf(" %.2f%% at %.2f |", 100*run.Availability, run.OverLeast)
		}
	}
	return row
}
