package dashboard

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// busyCluster returns a cluster with n workloads after one simulated hour under load.
func busyCluster(b *testing.B, n int) *testCluster {
	b.Helper()
	l := newTestCluster(n, Options{Cluster: "prod"})
	l.now = nine.Add(-time.Hour)
	l.pass(time.Hour, 2*time.Minute)
	return l
}

// BenchmarkOverviewOf1000 renders the first page for 1,000 workloads, without cached rows, as in the first request after a tick.
func BenchmarkOverviewOf1000(b *testing.B) {
	l := busyCluster(b, 1000)
	var w *httptest.ResponseRecorder
	b.ReportAllocs()
	for b.Loop() {
		l.page.cache.rows = nil
		if w = ask(l.page, "/"); w.Code != http.StatusOK {
			b.Fatal(w.Code)
		}
	}
	b.ReportMetric(float64(w.Body.Len()), "page-bytes")
}

// BenchmarkOverviewOf1000Searched searches and sorts the cached rows of 1,000 workloads.
func BenchmarkOverviewOf1000Searched(b *testing.B) {
	l := busyCluster(b, 1000)
	var w *httptest.ResponseRecorder
	for b.Loop() {
		w = ask(l.page, "/?q=team+gateway&sort=-target&per=200")
	}
	b.ReportMetric(float64(w.Body.Len()), "page-bytes")
}

func BenchmarkWorkloadPage(b *testing.B) {
	l := newTestCluster(12, Options{})
	l.pass(9*time.Hour, 30*time.Second)
	var w *httptest.ResponseRecorder
	b.ReportAllocs()
	for b.Loop() {
		w = ask(l.page, "/workloads/team-speech/whisper-large?range=24h")
	}
	b.ReportMetric(float64(w.Body.Len()), "page-bytes")
}

func BenchmarkHistoryOf1000(b *testing.B) {
	l := busyCluster(b, 1000)
	for b.Loop() {
		ask(l.page, "/history?q=gateway")
	}
}

// BenchmarkSample1000 measures one call of Page.Sample with 1,000 workloads.
func BenchmarkSample1000(b *testing.B) {
	l := busyCluster(b, 1000)
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer() // each iteration needs a new decision, because Sample ignores old decisions
		l.now = l.now.Add(5 * time.Second)
		l.engine.Tick(b.Context(), l.now)
		b.StartTimer()
		l.page.Sample(l.now)
	}
	_, points := l.page.sampler.all(l.now.Add(-time.Minute), l.now)
	if l.page.sampler.series[chatKey].newest != l.now.Unix() || len(points) == 0 {
		b.Fatal("there is no sample")
	}
}

// BenchmarkSnapshotOf1000 measures one update of a live page with 1,000 workloads.
func BenchmarkSnapshotOf1000(b *testing.B) {
	l := busyCluster(b, 1000)
	r := get("/events?")
	for b.Loop() {
		l.page.cache.rows = nil
		if s := l.page.overviewSnapshot(r, listing{Page: 1, Per: defaultPer}); len(s.parts) < defaultPer {
			b.Fatal(len(s.parts))
		}
	}
}
