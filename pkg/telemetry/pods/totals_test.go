package pods

import (
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/exposition"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/source"
)

type podsByName map[string][]engine.Pod

func (p podsByName) Pods(w *scaling.Workload) []engine.Pod { return p[w.Key.Name] }

// queueOf returns a request for the number of waiting requests of a workload.
func queueOf(name string) source.Request {
	return source.Request{
		Workload: &scaling.Workload{Key: scaling.Key{Namespace: "chat", Name: name}},
		Signal:   &scaling.Signal{Kind: scaling.Total, MaxAge: 2 * time.Minute},
		Source:   &policy.Source{Type: policy.SourceVLLM, Metric: "requestsWaiting"},
	}
}

// A poll deletes the totals of workloads that it does not read, except in namespaces that it failed to read.
func TestTotalsOfWorkloadsThatAreNotReadAreDeleted(t *testing.T) {
	profile, _ := exposition.Engine("vllm")
	pods := podsByName{"llama": {{Name: "llama-0", Ready: true}}, "other": {{Name: "other-0", Ready: true}}}
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	var totals Totals
	poll := func(name string, failed map[string]scaling.Cause) {
		g := NewGauges(profile, New([]source.Request{queueOf(name)}, pods, true))
		g.Add(0, &exposition.Sample{Name: "vllm:num_requests_waiting", Value: 8, At: now})
		round := totals.Begin(now)
		out := make([]scaling.Reading, 1)
		g.Readings(out, round)
		round.Keep(failed)
		if !out[0].Known || out[0].Value != 8 {
			t.Errorf("%s reads %+v, want 8", name, out[0])
		}
	}
	poll("llama", nil)
	poll("other", nil)
	if totals.Len() != 1 {
		t.Errorf("%d totals are kept, want 1: llama was not read", totals.Len())
	}
	poll("llama", map[string]scaling.Cause{"chat": scaling.CauseUnreachable})
	if totals.Len() != 2 {
		t.Errorf("%d totals are kept, want 2: the query for other failed", totals.Len())
	}
}
