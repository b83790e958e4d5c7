package dashboard

import (
	"net"
	"net/http"
	"slices"
	"strings"
)

const (
	// maxQuery is the maximum length of a query in bytes. The links of the page are much shorter.
	maxQuery = 2048
	// maxPath is the maximum length of a path in bytes: enough for a namespace (63) and a name (253) with every byte escaped.
	maxPath = 1024
	// maxSearch is the maximum length of a search in bytes.
	maxSearch = 200
)

// headers contains the HTTP headers of every response. They allow only scripts, styles and connections from this server. They forbid other
// sites to embed the page, and browsers to guess content types.
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

// secure rejects all requests except GET and HEAD requests with an accepted Host header, a short URL and no body. It sets the security
// headers of each response.
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
		case r.ContentLength != 0: // a GET or HEAD request needs no body, but request smuggling needs a body
			h.Set("Connection", "close")
			http.Error(w, "a request must not have a body", http.StatusBadRequest)
		case !acceptedHost(r, hosts):
			http.Error(w, "this server does not have the requested host name: use its IP address or localhost", http.StatusMisdirectedRequest)
		case len(r.URL.RawQuery) > maxQuery || len(r.URL.EscapedPath()) > maxPath:
			http.Error(w, "the URL is too long", http.StatusRequestURITooLong)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// acceptedHost reports whether the Host header of a request is accepted. On loopback, where requests are not authenticated, unknown names
// are rejected, because a malicious web page can resolve its own name to the loopback address (DNS rebinding). On other addresses, every
// name is accepted: users must authenticate with a token, and the API server's service proxy sends its own name.
func acceptedHost(r *http.Request, more []string) bool {
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
