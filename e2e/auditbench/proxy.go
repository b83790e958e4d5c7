package main

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gpuscaler/gpuscaler/e2e/stack"
)

// proxy forwards requests to the Prometheus server. It records the time and the size of each response.
type proxy struct {
	url    string
	server *httptest.Server

	mu      sync.Mutex
	queries []query
}

// query is a query with its response.
type query struct {
	text       string
	begin, end time.Time
	bytes      int64
	status     int
}

// newProxy starts a proxy in front of the Prometheus server of the stack.
func newProxy(s *stack.Stack) (*proxy, error) {
	u, err := url.Parse(s.Prometheus.URL)
	if err != nil {
		return nil, err
	}
	forward := httputil.NewSingleHostReverseProxy(u)
	p := &proxy{}
	p.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := query{begin: time.Now(), text: r.URL.Path}
		if form, err := parameters(r); err == nil && form.Has("query") {
			q.text = form.Get("query")
		}
		counted := &countingWriter{ResponseWriter: w, status: http.StatusOK}
		forward.ServeHTTP(counted, r)
		q.end, q.bytes, q.status = time.Now(), counted.bytes, counted.status
		p.mu.Lock()
		defer p.mu.Unlock()
		p.queries = append(p.queries, q)
	}))
	p.url = p.server.URL
	return p, nil
}

func (p *proxy) close() { p.server.Close() }

// countingWriter counts the bytes of a response body.
type countingWriter struct {
	http.ResponseWriter
	bytes  int64
	status int
}

func (w *countingWriter) Write(b []byte) (int, error) {
	n, err := w.ResponseWriter.Write(b)
	w.bytes += int64(n)
	return n, err
}

func (w *countingWriter) WriteHeader(code int) {
	w.status = code
	w.ResponseWriter.WriteHeader(code)
}

// print prints the phases of an audit that ran from begin to end, and the slowest expressions.
func (p *proxy) print(begin, end time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.queries) == 0 {
		fmt.Println("  no queries")
		return
	}
	first, last := p.queries[0].begin, p.queries[0].end
	bytes, failed := int64(0), 0
	type total struct {
		text  string
		n     int
		took  time.Duration
		bytes int64
	}
	byText := map[string]*total{}
	for _, q := range p.queries {
		first, last, bytes = earliest(first, q.begin), latest(last, q.end), bytes+q.bytes
		if q.status != http.StatusOK {
			failed++
		}
		t := byText[q.text]
		if t == nil {
			t = &total{text: q.text}
			byText[q.text] = t
		}
		t.n, t.took, t.bytes = t.n+1, t.took+q.end.Sub(q.begin), t.bytes+q.bytes
	}
	fmt.Printf("  start and API server %.1f s, queries %.1f s, replay, bound and report %.1f s\n", first.Sub(begin).Seconds(),
		last.Sub(first).Seconds(), end.Sub(last).Seconds())
	fmt.Printf("  %d queries (%d expressions, %d failed), responses of %.1f MiB\n", len(p.queries), len(byText), failed,
		float64(bytes)/(1<<20))
	var all []*total
	for _, t := range byText {
		all = append(all, t)
	}
	slices.SortFunc(all, func(a, b *total) int { return cmp.Or(-cmp.Compare(a.took, b.took), cmp.Compare(a.text, b.text)) })
	fmt.Println("  seconds of the queries of each expression; up to four queries run at the same time:")
	for _, t := range all {
		text := t.text
		if metric := metrics.FindAllString(text, -1); len(metric) > 0 {
			text = strings.Join(slices.Compact(metric), " ")
		}
		fmt.Printf("  %7.2f s %3d queries %7.2f MiB  %s\n", t.took.Seconds(), t.n, float64(t.bytes)/(1<<20), text)
	}
}

// metrics matches the names of the functions and metrics in a query that distinguish the queries of the audit.
var metrics = regexp.MustCompile(`(kube_[a-z_]+|vllm:[a-z_]+|DCGM_[A-Z_]+|[a-z]+_over_time|increase)`)

// parameters returns the parameters of a request and leaves its body readable.
func parameters(r *http.Request) (url.Values, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	form, err := url.ParseQuery(string(body))
	if form.Get("query") == "" {
		return r.URL.Query(), err
	}
	return form, err
}

// machineLoad returns the load averages of the last 1, 5 and 15 minutes.
func machineLoad() string {
	text, err := os.ReadFile("/proc/loadavg")
	if fields := strings.Fields(string(text)); err == nil && len(fields) > 2 {
		return strings.Join(fields[:3], " ")
	}
	return "unknown"
}
