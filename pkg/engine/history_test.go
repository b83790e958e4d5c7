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

// With more policies than historyTotal, every policy keeps its previous record after a change of all policies, and the number of records
// stays bounded although policies continue to change.
func TestHistoryOfMorePoliciesThanItsTotalKeepsPreviousRecords(t *testing.T) {
	const policies = historyTotal + 6000
	h, p := newHistory(), &scaling.Policy{MinReplicas: 1, MaxReplicas: 5}
	origin := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	workloads := make([]scaling.Workload, policies)
	add := func(i int, at time.Time) { h.add(&Record{At: at, Workload: workloads[i]}, &workloads[i]) }
	for i := range workloads {
		workloads[i] = scaling.Workload{Key: scaling.Key{Namespace: "team", Name: fmt.Sprint("chat-", i)}, Policy: p}
		add(i, origin)
	}
	const busy, changes = 100, 80 // 100 policies change 80 times: together fewer than the records above one for each policy
	for round := range changes {
		for i := range busy {
			add(i, origin.Add(time.Duration(round+1)*time.Minute))
		}
	}
	for i := range busy {
		if got := len(h.Of(workloads[i].Key, origin, origin.Add(24*time.Hour))); got != changes+1 {
			t.Fatalf("policy %d has %d records, want %d", i, got, changes+1)
		}
	}
	for round := range 3 {
		for i := range workloads {
			add(i, origin.Add(time.Duration(3+round)*time.Hour))
		}
	}
	if h.total > policies+historyTotal/2 {
		t.Errorf("%d records of %d policies", h.total, policies)
	}
	if _, ok := h.At(workloads[0].Key, origin.Add(5*time.Hour)); !ok {
		t.Error("the newest record was deleted")
	}
}
