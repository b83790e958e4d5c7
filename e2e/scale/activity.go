package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	eventsv1 "k8s.io/api/events/v1"

	"github.com/gpuscaler/gpuscaler/e2e/controller"
	"github.com/gpuscaler/gpuscaler/e2e/usage"
)

// totals contains the values of cumulative counters at one time.
type totals struct {
	at             time.Time
	queries, bytes int64          // queries of gpuscaler to Prometheus, and bytes of the responses
	requests       map[string]int // requests of gpuscaler to the API server, by verb and resource
	cpu            map[string]time.Duration
	ticks, ticking float64 // number of ticks of the leader, and their duration in seconds
	heap           float64 // bytes of the leader's heap in use
}

func (c *cluster) totals(ctx context.Context) (t totals, err error) {
	t.at, t.queries, t.bytes = time.Now(), c.prometheus.queries.Load(), c.prometheus.bytes.Load()
	if t.requests, err = c.requests.Requests(); err != nil {
		return t, err
	}
	if t.cpu, err = c.cpu(); err != nil || c.ours == nil {
		return t, err
	}
	for name, sum := range map[string]*float64{
		"gpuscaler_tick_duration_seconds_count": &t.ticks, "gpuscaler_tick_duration_seconds_sum": &t.ticking,
		"go_memstats_heap_inuse_bytes": &t.heap,
	} {
		// An error means that no replica is the leader. The value is then 0, and the report omits it.
		*sum, _ = usage.Sum(ctx, http.DefaultClient, c.ours.MetricsURL(), name, "")
	}
	return t, nil
}

// quiet waits for the duration d without reading or changing a policy, and returns a text with the activity in this time.
func (c *cluster) quiet(ctx context.Context, adapter string, d time.Duration) (string, error) {
	step("%s: without reads and changes", adapter)
	return c.activity(ctx, adapter+" without reads and changes", func() error {
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
}

// activity calls run, and returns a text with the numbers of queries, ticks, requests to the API server and Events, and with the CPU time,
// during the call.
func (c *cluster) activity(ctx context.Context, what string, run func() error) (string, error) {
	before, err := c.totals(ctx)
	if err != nil {
		return "", err
	}
	if err := run(); err != nil {
		return "", err
	}
	after, err := c.totals(ctx)
	if err != nil {
		return "", err
	}
	text := fmt.Sprintf("%s, %s: ", what, after.at.Sub(before.at).Round(time.Second))
	if c.ours != nil {
		sent, err := c.events(ctx, before.at)
		if err != nil {
			return "", err
		}
		text += after.since(before) + "; " + sent + "; "
	}
	return text + "CPU seconds per policy and hour: " + after.cpuSince(before, c.n), nil
}

// since returns a text with gpuscaler's queries, ticks and requests since an earlier time.
func (t *totals) since(earlier totals) string {
	minutes := t.at.Sub(earlier.at).Minutes()
	text := fmt.Sprintf("%.0f queries and %.0f KiB a minute from Prometheus; ", float64(t.queries-earlier.queries)/minutes,
		float64(t.bytes-earlier.bytes)/1024/minutes)
	if n := t.ticks - earlier.ticks; n > 0 { // negative if another replica became the leader
		text += fmt.Sprintf("a tick takes %.1f ms; ", (t.ticking-earlier.ticking)*1000/n)
	}
	if t.heap > 0 {
		text += fmt.Sprintf("the heap in use has %.0f MiB; ", t.heap/(1<<20))
	}
	var requests []string
	for _, name := range slices.Sorted(maps.Keys(t.requests)) {
		if made := t.requests[name] - earlier.requests[name]; made > 0 {
			requests = append(requests, fmt.Sprintf("%d %s", made, name))
		}
	}
	return text + "requests to the API server: " + cmp.Or(strings.Join(requests, ", "), "none")
}

// cpuSince returns a text with the CPU time, per policy and hour, of gpuscaler and of each process on which it depends since an earlier
// time.
func (t *totals) cpuSince(earlier totals, policies int) string {
	hours := t.at.Sub(earlier.at).Hours() * float64(policies)
	var texts []string
	for _, match := range []string{controller.Namespace, nullCommand, "kube-apiserver", "etcd", "prometheus"} {
		spent := time.Duration(0)
		for name := range t.cpu {
			if strings.Contains(name, match) {
				spent += max(0, t.cpu[name]-earlier.cpu[name]) // the difference is negative if the process was restarted
			}
		}
		if spent > 0 {
			texts = append(texts, fmt.Sprintf("%s %.3f", strings.TrimSuffix(match, "-system"), spent.Seconds()/hours))
		}
	}
	return strings.Join(texts, ", ")
}

// events returns a text about the Events that gpuscaler sent since the given time: for each reason, the number of Events and the oldest
// note.
func (c *cluster) events(ctx context.Context, since time.Time) (string, error) {
	var list eventsv1.EventList
	if err := c.stack.Client.List(ctx, &list); err != nil {
		return "", err
	}
	count, note := map[string]int{}, map[string]string{}
	for _, e := range list.Items {
		if e.ReportingController == "gpuscaler.io/gpuscaler" && e.EventTime.After(since) {
			count[e.Reason]++
			note[e.Reason] = cmp.Or(note[e.Reason], e.Note)
		}
	}
	text := "no Events"
	for _, reason := range slices.Sorted(maps.Keys(count)) {
		text += fmt.Sprintf(", %d Events %s (%s)", count[reason], reason, note[reason])
	}
	return strings.TrimPrefix(text, "no Events, "), nil
}
