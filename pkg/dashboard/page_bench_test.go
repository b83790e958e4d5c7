package dashboard

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// crowd is a board of n workloads after a busy hour.
func crowd(b *testing.B, n int) *lively {
	b.Helper()
	l := newLively(n, Options{Cluster: "prod"})
	l.now = nine.Add(-time.Hour)
	l.pass(time.Hour, 2*time.Minute)
	return l
}

// BenchmarkOverviewOf1000 renders the first page from a board that just ticked: what a browser waits for.
func BenchmarkOverviewOf1000(b *testing.B) {
	l := crowd(b, 1000)
	var w *httptest.ResponseRecorder
	b.ReportAllocs()
	for b.Loop() {
		l.page.roster.rows = nil
		if w = ask(l.page, "/"); w.Code != http.StatusOK {
			b.Fatal(w.Code)
		}
	}
	b.ReportMetric(float64(w.Body.Len()), "page-bytes")
}

// BenchmarkOverviewOf1000Searched searches and sorts a tick that another reader has already asked for.
func BenchmarkOverviewOf1000Searched(b *testing.B) {
	l := crowd(b, 1000)
	var w *httptest.ResponseRecorder
	for b.Loop() {
		w = ask(l.page, "/?q=team+gateway&sort=-target&per=200")
	}
	b.ReportMetric(float64(w.Body.Len()), "page-bytes")
}

func BenchmarkWorkloadPage(b *testing.B) {
	l := newLively(12, Options{})
	l.pass(9*time.Hour, 30*time.Second)
	var w *httptest.ResponseRecorder
	b.ReportAllocs()
	for b.Loop() {
		w = ask(l.page, "/workloads/team-speech/whisper-large?range=24h")
	}
	b.ReportMetric(float64(w.Body.Len()), "page-bytes")
}

func BenchmarkHistoryOf1000(b *testing.B) {
	l := crowd(b, 1000)
	for b.Loop() {
		ask(l.page, "/history?q=gateway")
	}
}

// BenchmarkSample1000 is what the loop's owner pays every few seconds.
func BenchmarkSample1000(b *testing.B) {
	l := crowd(b, 1000)
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer() // an old decision leaves no sample
		l.now = l.now.Add(5 * time.Second)
		l.engine.Tick(b.Context(), l.now)
		b.StartTimer()
		l.page.Sample(l.now)
	}
	if _, points := l.page.sampler.all(l.now.Add(-time.Minute), l.now); l.page.sampler.series[chatKey].newest != l.now.Unix() || len(points) == 0 {
		b.Fatal("nothing was sampled")
	}
}

// BenchmarkStreamLook is one look of one live reader at a board of 1,000.
func BenchmarkStreamLook(b *testing.B) {
	l := crowd(b, 1000)
	r := get("/events?")
	for b.Loop() {
		l.page.roster.rows = nil
		if s := l.page.overviewScene(r, listing{Page: 1, Per: defaultPer}); len(s.parts) < defaultPer {
			b.Fatal(len(s.parts))
		}
	}
}
