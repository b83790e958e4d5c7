package fields_test

import (
	"github.com/spf13/cobra"

	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/cmd/gpuscaler/costs"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/promtest"
)

// machines is one day of DCGM and node series for four nodes: an on-demand node, a spot node in another zone, a node with unknown zone and
// price, and a reserved node.
const machines = `DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu="0",UUID="GPU-1",Hostname="n1",exported_namespace="team-chat",` +
	`exported_pod="llama-0",pod="exp",namespace="gpu-operator"} 0.25x1440
DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu="0",UUID="GPU-2",Hostname="n2",exported_namespace="team-chat",exported_pod="llama-1",pod="exp",` +
	`namespace="gpu-operator"} 0.5x1440
DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu="0",UUID="GPU-3",Hostname="n3",exported_namespace="team-chat",exported_pod="llama-2",pod="exp",` +
	`namespace="gpu-operator"} 0.75x1440
DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu="0",UUID="GPU-4",Hostname="n4",exported_namespace="team-chat",exported_pod="llama-3",pod="exp",` +
	`namespace="gpu-operator"} 0.75x1440
karpenter_nodes_allocatable{node_name="n1",nodepool="l",instance_type="g5.xlarge",capacity_type="on-demand",zone="us-east-1a",` +
	`resource_type="nvidia.com/gpu"} 1x1440
karpenter_nodes_allocatable{node_name="n2",nodepool="l",instance_type="g5.xlarge",capacity_type="spot",zone="us-east-1b",` +
	`resource_type="nvidia.com/gpu"} 1x1440
karpenter_nodes_allocatable{node_name="n3",nodepool="l",instance_type="g5.xlarge",capacity_type="on-demand",` +
	`resource_type="nvidia.com/gpu"} 1x1440
karpenter_nodes_allocatable{node_name="n4",nodepool="l",instance_type="g5.xlarge",capacity_type="reserved",zone="us-east-1a",` +
	`resource_type="nvidia.com/gpu"} 1x1440
karpenter_cloudprovider_instance_type_offering_price_estimate{instance_type="g5.xlarge",capacity_type="spot",zone="us-east-1b"} 0.3x1440`

// costLines returns the lines of the cost report for one day. They contain only amounts that the report computes.
func costLines(t *testing.T, d docSet) (out []string) {
	t.Helper()
	dir := t.TempDir()
	text := func(kind string) string { return strings.ReplaceAll(d.text(kind), "PRICES", dir) }
	for name, content := range map[string]string{"platform.yaml": text("platform"), "book.yaml": text("book"),
		"cheap.yaml": strings.ReplaceAll(text("book"), "on-demand: 1", "on-demand: 0.9")} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	server := promtest.Serve(t, time.Date(2026, 11, 16, 0, 0, 0, 0, time.UTC), machines)
	c := &cobra.Command{Use: "gpuscaler", SilenceErrors: true, SilenceUsage: true}
	c.AddCommand(costs.Commands()...)
	var written bytes.Buffer
	c.SetOut(&written)
	c.SetErr(io.Discard)
	args := []string{"report", "--prometheus", server.URL, "--since", "1d", "--until", "2026-11-17", "-o", "json",
		"--config", filepath.Join(dir, "platform.yaml")}
	if !strings.Contains(text("platform"), "book: ") {
		args = append(args, "--prices", filepath.Join(dir, "book.yaml"))
	}
	c.SetArgs(args)
	if err := c.ExecuteContext(t.Context()); err != nil {
		t.Fatalf("%v\nin\n%s\n%s", err, text("platform"), text("book"))
	}
	var bill struct{ Lines []map[string]any }
	if err := json.Unmarshal(written.Bytes(), &bill); err != nil {
		t.Fatal(err)
	}
	for _, line := range bill.Lines {
		out = append(out, fmt.Sprintf("%v %v: %v of %v GPU-hours", line["workload"], line["capacityType"], line["cost"], line["gpuHours"]))
	}
	slices.Sort(out)
	return out
}

// priceProbes returns a probe for each field that changes a cost report. A probe changes the field and compares the result (see
// fieldProbe).
func priceProbes(*testing.T) []fieldProbe {
	override := fields("instanceType", "g5.xlarge", "capacityType", "on-demand", "hourly", 7.0, "region", "us-east-1")
	commitment := fields("instanceType", "g5.xlarge", "count", 1, "hourly", 3.0, "region", "us-east-1")
	region := edit{"platform spec.prices.region": "us-east-1"}
	at := "book spec.regions[0].instanceTypes[0]."
	all := []fieldProbe{
		{field: "platform spec.prices.region", was: "us-east-1", is: "eu-west-1", see: costLines},
		{field: "platform spec.prices.source", was: "karpenter", is: "book", see: costLines},
		{field: "platform spec.prices.book", was: "PRICES/book.yaml", is: "PRICES/cheap.yaml", see: costLines},
		{field: "book spec.regions[0].name", is: "eu-west-1", with: region, see: costLines},
		{field: at + "name", is: "g6.xlarge", with: region, see: costLines},
		{field: at + "gpus", is: 4, with: region, see: costLines},
		{field: at + "on-demand", is: 2.0, with: region, see: costLines},
		{field: at + "spot", is: 2.0, with: edit{"platform spec.prices.source": "book"}, see: costLines},
		{field: at + "reserved", is: 2.0, with: region, see: costLines},
	}
	for kind, lists := range map[string]string{"platform": "platform spec.prices.", "book": "book spec."} {
		o, c := joined(region, edit{lists + "overrides": []any{override}}), joined(region, edit{lists + "commitments": []any{commitment}})
		all = append(all,
			fieldProbe{field: lists + "overrides[0].instanceType", is: "g6.xlarge", with: o, see: costLines},
			fieldProbe{field: lists + "overrides[0].capacityType", is: "reserved", with: o, see: costLines},
			fieldProbe{field: lists + "overrides[0].region", is: "eu-west-1", with: o, see: costLines},
			fieldProbe{field: lists + "overrides[0].hourly", is: 8.0, with: o, see: costLines},
			fieldProbe{field: lists + "commitments[0].instanceType", is: "g6.xlarge", with: c, see: costLines},
			fieldProbe{field: lists + "commitments[0].count", is: 3, with: c, see: costLines},
			fieldProbe{field: lists + "commitments[0].region", is: "eu-west-1", with: c, see: costLines},
			fieldProbe{field: lists + "commitments[0].hourly", is: 4.0, with: c, see: costLines})
		_ = kind
	}
	return all
}
