package dashboard

import (
	"net"
	"net/http"
	"slices"
	"strings"
)

const (
	// maxQuery bounds the query of a request: each of our own links stays far below.
	maxQuery = 2048
	// maxPath is enough for a namespace (63) and a name (253), each byte escaped.
	maxPath = 1024
	// maxSearch bounds what people search for, in bytes.
	maxSearch = 200
)

// headers are sent with every answer. No script, style or connection but our own files; no frame around us, no guess at types.
var headers = map[string]string{
	"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
		"form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
	"Cross-Origin-Opener-Policy":   "same-origin",
	"Cross-Origin-Resource-Policy": "same-origin",
	"Permissions-Policy":           "camera=(), geolocation=(), microphone=()",
	"Referrer-Policy":              "same-origin",
	"X-Content-Type-Options":       "nosniff",
	"X-Frame-Options":              "DENY",
}

// secure refuses whatever is not a small question to this very server.
func secure(hosts []string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		for name, value := range headers {
			h.Set(name, value)
		}
		h.Set("Cache-Control", "no-store")
		switch {
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			h.Set("Allow", "GET, HEAD")
			http.Error(w, "this page is read-only", http.StatusMethodNotAllowed)
		case !ourHost(r.Host, hosts):
			http.Error(w, "this name is not ours: ask by address, as localhost, or through the cluster", http.StatusMisdirectedRequest)
		case len(r.URL.RawQuery) > maxQuery || len(r.URL.EscapedPath()) > maxPath:
			http.Error(w, "the address is too long", http.StatusRequestURITooLong)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// ourHost keeps out names that a foreign page pointed at our address (DNS rebinding): behind a port-forward there is no other guard.
// The API server's proxy asks by address, a Service is asked by its cluster name.
func ourHost(host string, more []string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = host
	}
	name = strings.ToLower(strings.TrimSuffix(strings.Trim(name, "[]"), "."))
	switch {
	case net.ParseIP(name) != nil, name == "localhost", strings.HasSuffix(name, ".localhost"):
		return true
	case !strings.Contains(name, "."), strings.HasSuffix(name, ".svc"), strings.HasSuffix(name, ".svc.cluster.local"):
		return name != "" // no public name has a single label or ends in svc
	}
	return slices.Contains(more, name)
}
