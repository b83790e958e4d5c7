package controller

import (
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/gpuscaler/gpuscaler/cmd/gpuscaler/commandline/commandtest"
	"github.com/gpuscaler/gpuscaler/pkg/cost"
	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/store"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/usage"
)

const ownBook = `apiVersion: gpuscaler.io/v1alpha1
kind: PriceBook
metadata: {name: ours}
spec:
  regions:
  - name: us-east-1
    source: invoice
    asOf: "2026-07-20"
    instanceTypes:
    - {name: g6e.xlarge, gpus: 1, on-demand: 1.5}
`

const platformHead = "apiVersion: gpuscaler.io/v1alpha1\nkind: PlatformConfig\nmetadata: {name: p}\nspec:\n"

func spendingOf(t *testing.T, spec, path string) *spending {
	t.Helper()
	documents := store.New(store.Options{})
	if problems := documents.Load(commandtest.File(t, "platform.yaml", platformHead+spec)).Problems; policy.Errors(problems) > 0 {
		t.Fatal(policy.Render(problems))
	}
	platform := documents.Platform()
	log := slog.New(slog.DiscardHandler)
	return &spending{prices: &prices{path: path, platform: func() *policy.Platform { return platform }, log: log}, live: usage.NewLive(nil,
		log)}
}

func TestPresentCostUsesPlatformPricesThenThePriceBook(t *testing.T) {
	book := commandtest.File(t, "prices.yaml", ownBook)
	for name, c := range map[string]struct {
		prices, path, kind, zone string
		want                     float64
	}{
		"no region":                     {"{}", "", "on-demand", "", 0},
		"the region of the node's zone": {"{}", "", "on-demand", "us-east-1b", 1.861},
		"the region's":                  {"{region: us-east-1}", "", "on-demand", "", 1.861},
		"another region's":              {"{region: eu-west-1}", "", "on-demand", "", 0},
		"spot without a list price":     {"{region: us-east-1}", "", "spot", "", 0},
		"an override": {"{region: us-east-1, overrides: [{instanceType: g6e.xlarge, capacityType: on-demand, hourly: 1}]}",
			"", "on-demand", "", 1},
		"a mounted book":             {"{region: us-east-1}", book, "on-demand", "", 1.5},
		"a book that is not mounted": {"{region: us-east-1, book: /etc/gpuscaler/prices/prices.yaml}", "", "on-demand", "", 0},
		"an override before a book": {"{region: us-east-1, overrides: [{instanceType: g6e.xlarge, capacityType: on-demand, hourly: 1}]}",
			book, "on-demand", "", 1},
		"an override without a book": {"{region: us-east-1, overrides: [{instanceType: g6e.xlarge, capacityType: on-demand, hourly: 1}]}",
			"/nowhere", "on-demand", "", 1},
	} {
		s := spendingOf(t, "  prices: "+c.prices+"\n", c.path)
		if got := s.hourly(cost.Offer{InstanceType: "g6e.xlarge", CapacityType: c.kind, Zone: c.zone}); got != c.want {
			t.Errorf("%s: $%g, want $%g", name, got, c.want)
		}
	}
}

// The price book is a file of a ConfigMap, which can change while the controller runs. If the new file is invalid, the last valid prices
// must remain.
func TestPriceBookIsReloadedAndAnInvalidOneIsIgnored(t *testing.T) {
	path := commandtest.File(t, "prices.yaml", ownBook)
	s := spendingOf(t, "  prices: {region: us-east-1}\n", path)
	offer := cost.Offer{InstanceType: "g6e.xlarge", CapacityType: cost.OnDemand}
	for _, step := range []struct {
		text string
		want float64
	}{{ownBook, 1.5}, {strings.Replace(ownBook, "1.5", "1.25", 1), 1.25}, {strings.Replace(ownBook, "1.5", "-3", 1), 1.25}, {"",
		1.25}, {ownBook, 1.5}} {
		if err := os.WriteFile(path, []byte(step.text), 0o600); err != nil {
			t.Fatal(err)
		}
		s.prices.reread()
		if got := s.hourly(offer); got != step.want {
			t.Errorf("$%g after\n%s\nwant $%g", got, step.text, step.want)
		}
	}
}
