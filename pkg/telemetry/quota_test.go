package telemetry

import (
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// The quota is an option of the poller. Selectors that exceed the quota are not queried. The violation must contain the exceeded limit
// and the flag with which the platform team can raise it.
func TestQuotaBoundsTheSelectorsOfEachNamespace(t *testing.T) {
	at := time.Now().Add(-10 * time.Second)
	for _, c := range []struct {
		name  string
		quota Quota
		known int // how many of three selectors must be known; they select different metrics, and their label values have 8 bytes each
		text  string
	}{
		{"default", Quota{}, 3, ""},
		{"selectors", Quota{Selectors: 2}, 2, "more than 2 distinct selectors and latency windows"},
		{"bytes", Quota{SelectorBytes: 20}, 2, "more than 20 bytes"},
	} {
		server := newTestPrometheus(t)
		var all []*policy.Compiled
		for _, metric := range []string{"a", "b", "c"} {
			server.put(metric+`{namespace="chat",queue="xy"}`, at, 1)
			all = append(all, compiled("chat", metric, selectorSource("chat", metric, map[string]string{"queue": "xy"})))
		}
		p := newPoller(t, Options{Quota: c.quota})
		p.SetPolicies(all, platformOf(promSource(server.URL)))
		pollOnce(t, p)
		known := 0
		for _, w := range all {
			if r := read(p, w)[0]; r.Known {
				known++
			} else if r.Cause != scaling.CauseQuota {
				t.Errorf("%s: %+v, want the cause quota", c.name, r)
			}
		}
		if known != c.known || len(server.asked()) != c.known {
			t.Errorf("%s: %d signals are known by %d queries, want %d", c.name, known, len(server.asked()), c.known)
		}
		for _, v := range p.LimitViolations() {
			if !strings.Contains(v.String(), c.text) || !strings.Contains(v.String(), "per-namespace") || v.Namespace != "chat" {
				t.Errorf("%s: %s", c.name, v)
			}
		}
		if n := len(p.LimitViolations()); (n == 0) != (c.text == "") {
			t.Errorf("%s: %d violations", c.name, n)
		}
	}
}
