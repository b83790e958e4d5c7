package engine

import (
	"fmt"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// Ten thousand policies that change every ten minutes fill the history within half an hour. The number of records stays bounded, every
// policy keeps its newest records, and Begins returns the first time for which At finds a record.
func TestHistoryOfTenThousandBusyPoliciesIsBounded(t *testing.T) {
	const policies = 10_000
	h := newHistory()
	if _, ok := h.Begins(scaling.Key{Name: "unknown"}); ok {
		t.Error("Begins found a policy without a decision")
	}
	origin := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	p, at := &scaling.Policy{MinReplicas: 1, MaxReplicas: 5}, origin
	keys := make([]scaling.Key, policies)
	workloads := make([]scaling.Workload, policies)
	for i := range keys {
		keys[i] = scaling.Key{Namespace: "team", Name: fmt.Sprint("chat-", i)}
		workloads[i] = scaling.Workload{Key: keys[i], Policy: p}
	}
	for round := range 6 {
		at = origin.Add(time.Duration(round) * 10 * time.Minute)
		for i := range keys {
			h.add(&Record{At: at, Workload: workloads[i]}, &workloads[i])
		}
	}
	stored := 0
	for _, list := range h.byKey {
		stored += len(list)
	}
	if h.total > historyTotal || h.total != stored {
		t.Errorf("%d records of which %d are counted, want at most %d", stored, h.total, historyTotal)
	}
	for _, k := range []scaling.Key{keys[0], keys[policies/2], keys[policies-1]} {
		first, ok := h.Begins(k)
		if !ok || !first.After(origin) {
			t.Errorf("%s: its memory begins at %s, %t: all of an hour cannot be in it", k, first, ok)
		}
		if _, ok := h.At(k, first.Add(-time.Second)); ok {
			t.Errorf("%s: an answer before its memory begins", k)
		}
		for _, asked := range []time.Time{first, at} {
			if _, ok := h.At(k, asked); !ok {
				t.Errorf("%s: no answer at %s", k, asked)
			}
		}
	}
}
