package main

import (
	"slices"
	"testing"
	"time"
)

// The policies in a sample must be distinct and include the first and the last policy. A small number of policies must all be in the
// sample.
func TestSampleCoversAllPolicies(t *testing.T) {
	for _, n := range []int{100, 299, 300, 301, 1000, 10_000, 50_000} {
		s := sample(n)
		if len(s) != min(n, maxSample) || s[0] != 0 || s[len(s)-1] != n-1 || len(slices.Compact(slices.Clone(s))) != len(s) {
			t.Errorf("of %d policies, %d are read, from %d to %d", n, len(s), s[0], s[len(s)-1])
		}
	}
}

func TestReadsAreAsFrequentAsOfHPAsButNotMoreThanTheRate(t *testing.T) {
	for _, c := range []struct {
		n, rate int
		want    time.Duration
	}{
		{1000, 0, 15 * time.Millisecond}, {1000, 200, 15 * time.Millisecond},
		{10_000, 0, 1500 * time.Microsecond}, {10_000, 200, 5 * time.Millisecond},
	} {
		if got := pace(c.n, c.rate); got != c.want {
			t.Errorf("%d policies and at most %d reads a second: a read every %s, want %s", c.n, c.rate, got, c.want)
		}
	}
}

func TestTwentyPoliciesHaveAQueryOfTheirOwn(t *testing.T) {
	for _, n := range []int{100, 333, 10_000} {
		c, queries := &cluster{n: n}, 0
		for i := range n {
			if c.oneOff(i) {
				queries++
			}
		}
		if queries != oneOffs {
			t.Errorf("%d of %d policies have a query of their own", queries, n)
		}
	}
}

// The CPU time of a restarted process is lower than before. The report must omit it, because the time in the period is unknown.
func TestCPUOfARestartedProcessIsLeftOut(t *testing.T) {
	began := time.Date(2026, 11, 28, 8, 0, 0, 0, time.UTC)
	before := totals{at: began, cpu: map[string]time.Duration{"etcd": time.Second, "kube-apiserver": time.Minute}}
	after := totals{at: began.Add(time.Hour), cpu: map[string]time.Duration{"etcd": 21 * time.Second, "kube-apiserver": time.Second}}
	if got, want := after.cpuSince(before, 10), "etcd 2.000"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// The activity of a period must not include requests and Events from before the period.
func TestActivityCountsRequestsOfOnePeriod(t *testing.T) {
	began := time.Date(2026, 11, 28, 8, 0, 0, 0, time.UTC)
	before := totals{at: began, queries: 100, bytes: 1 << 20, ticks: 10, ticking: 1, requests: map[string]int{"list pods": 4, "get leases": 1}}
	after := totals{at: began.Add(2 * time.Minute), queries: 124, bytes: 3 << 20, ticks: 130, ticking: 1.6, heap: 50 << 20,
		requests: map[string]int{"list pods": 4, "get leases": 61}}
	want := "12 queries and 1024 KiB a minute from Prometheus; a tick takes 5.0 ms; the heap in use has 50 MiB; " +
		"requests to the API server: 60 get leases"
	if got := after.since(before); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
