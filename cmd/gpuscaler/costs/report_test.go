package costs

import (
	"bytes"
	"encoding/csv"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/cmd/gpuscaler/commandline/commandtest"
	"github.com/gpuscaler/gpuscaler/pkg/cost"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/promtest"
)

// aDay is one day of series of a node with one L40S GPU. A chat service uses 25% of the GPU.
const aDay = `DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu="0",UUID="GPU-1",modelName="NVIDIA L40S",Hostname="n1",exported_namespace="team-chat",` +
	`exported_pod="llama-0",pod="exp",namespace="gpu-operator"} 0.25x1440
karpenter_nodes_allocatable{node_name="n1",nodepool="l40s",instance_type="g6e.xlarge",capacity_type="on-demand",zone="us-east-1a",` +
	`resource_type="nvidia.com/gpu"} 1x1440`

// runReport runs `gpuscaler report` on the series of aDay and returns its output.
func runReport(t *testing.T, args ...string) (string, error) {
	t.Helper()
	begin := time.Date(2026, 11, 16, 0, 0, 0, 0, time.UTC)
	server := promtest.Serve(t, begin, aDay)
	c := reportCommand()
	var out bytes.Buffer
	c.SetOut(&out)
	c.SetErr(io.Discard)
	c.SetArgs(append([]string{"--prometheus", server.URL, "--since", "1d", "--until", "2026-11-17"}, args...))
	c.SilenceErrors, c.SilenceUsage = true, true
	err := c.ExecuteContext(t.Context())
	return out.String(), err
}

const platformHead = "apiVersion: gpuscaler.io/v1alpha1\nkind: PlatformConfig\nmetadata: {name: p}\nspec:\n  cluster: prod-use1\n"

func TestReportOfADayWithTheBuiltInPrices(t *testing.T) {
	text, err := runReport(t)
	if err != nil {
		t.Fatal(err)
	}
	// 24 hours at $1.861 cost $44.66. The GPU is busy for 25% of the time, so 75% of the cost is idle.
	for _, want := range []string{"$44.66 for 24.0 GPU-hours: $33.50 (75.0%) was idle", "team-chat/llama", "g6e.xlarge",
		"AWS list, 2026-07-20", "means over 5m"} {
		if !strings.Contains(text, want) {
			t.Errorf("the output does not contain %q:\n%s", want, text)
		}
	}
}

// Pod labels of an exporter are used only if a flag or the PlatformConfig declares that exporters run in its namespace.
func TestReportTrustsDeclaredExportersOnly(t *testing.T) {
	elsewhere := commandtest.File(t, "p.yaml", platformHead+"  dataSources: [{name: prom, type: prometheus, address: \"http://prom\"}]\n  "+
		"exporters: [{type: dcgm, namespace: gpu}]\n")
	for _, args := range [][]string{{"--exporter-namespace", "gpu"}, {"--config", elsewhere}} {
		if text, err := runReport(t, args...); err == nil || !strings.Contains(err.Error(), "gpu-operator/exp are not declared exporters") {
			t.Errorf("%v: %v\n%s", args, err, text)
		}
	}
	if _, err := runReport(t, "--config", elsewhere, "--exporter-namespace", "gpu-operator"); err != nil {
		t.Error(err)
	}
}

func TestChargebackHasTeamClusterAndOverriddenPrice(t *testing.T) {
	platform := commandtest.File(t, "platform.yaml", platformHead+`  teams: [{name: chat, namespaces: [team-chat]}]
  prices: {overrides: [{instanceType: g6e.xlarge, capacityType: on-demand, hourly: 1}]}
`)
	text, err := runReport(t, "--config", platform, "-o", "csv")
	if err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil || len(rows) != 2 {
		t.Fatalf("%v: %s", err, text)
	}
	if got := strings.Join(rows[1][:13], " "); !strings.HasPrefix(got,
		"2026-11-16T00:00:00Z 2026-11-17T00:00:00Z prod-use1 chat team-chat llama") || !strings.HasSuffix(got, " 24.000000") {
		t.Errorf("row %q", got)
	}
}

func TestEveryOutputFormatIsWritten(t *testing.T) {
	for form, want := range map[string]string{"text": "GPU COST", "html": "<svg", "csv": "period_start", "json": `"lines"`,
		"prom": "gpuscaler_cost_dollars{"} {
		if text, err := runReport(t, "-o", form); err != nil || !strings.Contains(text, want) {
			t.Errorf("-o %s: %v, %d bytes", form, err, len(text))
		}
	}
}

func TestReportErrorsNameTheNextStep(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"unknown output format":            {[]string{"-o", "pdf"}, "use text, html, csv, json or prom"},
		"no server":                        {[]string{"--prometheus", ""}, "--prometheus is required"},
		"invalid --since":                  {[]string{"--since", "a week"}, "12h, 7d or 4w"},
		"invalid --until":                  {[]string{"--until", "yesterday"}, "use 2026-11-21"},
		"a step longer than the time":      {[]string{"--step", "20h"}, "at least two steps"},
		"a price book that does not exist": {[]string{"--prices", "/nowhere/prices.yaml"}, "price book: open /nowhere"},
		"a price book with a mistake": {[]string{"--prices", commandtest.File(t, "prices.yaml",
			"apiVersion: gpuscaler.io/v1alpha1\nkind: PriceBook\nmetadata: {name: x}\nspec: {region: []}\n")}, "prices.yaml:4:8: spec.region: " +
			"there is no such field, did you mean \"regions\"?"},
		"a file without a PlatformConfig": {
			[]string{"--config", commandtest.File(t, "policy.yaml", "kind: Nothing\n")}, "no PlatformConfig in"},
		"a day without GPUs":               {[]string{"--until", "2026-01-01"}, "gpuscaler lint --prometheus"},
		"a kubeconfig that does not exist": {[]string{"--kubeconfig", "/nowhere/config"}, "/nowhere/config"},
	} {
		if _, err := runReport(t, c.args...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestStepGrowsWithThePeriod(t *testing.T) {
	for since, want := range map[string]time.Duration{"2h": 2 * time.Minute, "12h": 5 * time.Minute, "1d": 5 * time.Minute,
		"7d": 5 * time.Minute, "4w": 30 * time.Minute, "52w": time.Hour} {
		o := reportOptions{since: since}
		p, err := o.period(time.Date(2026, 11, 21, 19, 46, 59, 0, time.UTC))
		if err != nil || p.Step != want || p.To.Sub(p.From)%want != 0 || !p.To.Equal(p.To.Truncate(want)) {
			t.Errorf("%s: %+v, %v", since, p, err)
		}
		if points := p.To.Sub(p.From) / resolution(p); points > 400 || points < 24 {
			t.Errorf("%s: charts of %d points", since, points)
		}
	}
}

func TestPrintedPriceBookIsAValidPriceBook(t *testing.T) {
	var out bytes.Buffer
	o := reportOptions{printPrices: true}
	if err := o.run(t.Context(), &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	o = reportOptions{prices: commandtest.File(t, "prices.yaml", out.String())}
	platform, err := openPlatform(nil)
	if err != nil {
		t.Fatal(err)
	}
	if book, err := o.book(platform); err != nil || !book.Price(cost.Offer{InstanceType: "p5.48xlarge", CapacityType: cost.OnDemand,
		Region: "us-east-1"}, cost.Price{}).Known() {
		t.Errorf("%v", err)
	}
}
