package dashboard

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// FuzzQuery checks that every page responds to any query without a panic, and that the response escapes the text of the query.
func FuzzQuery(f *testing.F) {
	l := clusterAtNine(3, Options{})
	for _, seed := range []string{
		"q=team&show=degraded&sort=-target&page=2&per=5", "at=2026-11-20T08:40:00Z&range=1h", "at=2026-11-20T08:40&q=%3Cscript%3E",
		"page=-1&per=0&range=x", "at=2026-11-20T08:40:00Z&at=2026-11-20T08:50:00Z", "at=&at=", "at=1m&at=2m&at=3m",
		"at=0000-01-01T00:00:00Z", "at=9999-12-31T23:59:59Z&range=24h", "sort=--name&page=9223372036854775807",
		"q=%ff%00\"'><script>", "%zz&;",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		for _, path := range []string{"/", "/history", "/workloads/team-chat/llama-chat", "/workloads/team-chat/llama-chat/compare"} {
			r := get(path)
			r.URL = &url.URL{Path: path, RawQuery: raw}
			w := ask(l.page, path, func(x *http.Request) { *x = *r })
			switch body := w.Body.String(); {
			case w.Code != 200 && w.Code != 400 && w.Code != 404 && w.Code != 414:
				t.Fatalf("%s?%q: %d", path, raw, w.Code)
			case strings.Contains(body, "<script>"):
				t.Fatalf("%s?%q is not escaped", path, raw)
			}
		}
	})
}
