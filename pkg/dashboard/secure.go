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
		case r.ContentLength != 0: // where a body ends is what smuggled requests disagree about
			h.Set("Connection", "close")
			http.Error(w, "a question has no body", http.StatusBadRequest)
		case !ourHost(r, hosts):
			http.Error(w, "this name is not ours: ask by address or as localhost", http.StatusMisdirectedRequest)
		case len(r.URL.RawQuery) > maxQuery || len(r.URL.EscapedPath()) > maxPath:
			http.Error(w, "the address is too long", http.StatusRequestURITooLong)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// ourHost keeps out names that a foreign page pointed at our loopback address (DNS rebinding): behind a port-forward there is no other
// guard. Off loopback any name will do, as the API server's proxy passes its own; there, who asks must show a token.
func ourHost(r *http.Request, more []string) bool {
	if at, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr); ok && !at.IP.IsLoopback() {
		return true
	}
	name, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		name = r.Host
	}
	name = strings.ToLower(strings.TrimSuffix(strings.Trim(name, "[]"), "."))
	return net.ParseIP(name) != nil || name == "localhost" || strings.HasSuffix(name, ".localhost") || slices.Contains(more, name)
}
