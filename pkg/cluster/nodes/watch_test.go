package nodes

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/cache"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/karpenter"
)

type groups []*capacity.Group

func (g groups) Groups() []*capacity.Group { return g }

func TestAbsentKarpenterIsLoggedOnce(t *testing.T) {
	for name, c := range map[string]struct {
		groups groups
		beta   bool
		skip   bool
		want   string // part of the expected log; empty: nothing is logged
	}{
		"no capacity groups": {nil, false, false, ""},
		"only labels":        {groups{{Name: "chat", NodeSelector: map[string]string{"accelerator": "l40s"}}}, false, true, ""},
		"not installed":      {groups{{Name: "chat"}}, false, false, "capacity groups do nothing until Karpenter is installed"},
		"only v1beta1":       {groups{{Name: "chat"}}, true, false, "kubectl get nodepools.v1.karpenter.sh"},
		"not read":           {groups{{Name: "chat"}}, true, true, "set the chart's mode to karpenter or all"},
	} {
		var text bytes.Buffer
		n := New(Options{Groups: c.groups, BetaServed: func() bool { return c.beta }, SkipNodePools: c.skip,
			Log: slog.New(slog.NewTextHandler(&text, nil))})
		n.logAbsent()
		n.logAbsent()
		log := text.String()
		if c.want == "" && log != "" || strings.Count(log, "level=WARN") > 1 || !strings.Contains(log, c.want) {
			t.Errorf("%s: %q, want %q once", name, log, c.want)
		}
	}
}

// syncing is a kind that the API server serves. While *read is false, its first list has not been read.
type syncing struct{ read *bool }

func (s syncing) Synced() cache.InformerSynced { return func() bool { return *s.read } }

func TestDemandIsCompleteWhenEverythingWasRead(t *testing.T) {
	read := false
	n := newCache(t, nil)
	if !n.complete() || !n.ready() {
		t.Error("without Karpenter there is nothing to read")
	}
	n.Watch(syncing{&read}, syncing{&read})
	if n.complete() {
		t.Error("complete before the informers of nodes and Events were started")
	}
	n.claimsSeen, n.synced = true, append(n.synced, func() bool { return true })
	if n.complete() {
		t.Error("complete before NodePools were read")
	}
	read = true
	if !n.complete() || n.ready() {
		t.Error("not complete, or ready without the schema of NodePools")
	}
	n.SetSchema(karpenter.Schema{Known: true})
	if !n.ready() {
		t.Error("not ready")
	}
	n.WaitForSync(t.Context(), time.Minute) // must return immediately
}
