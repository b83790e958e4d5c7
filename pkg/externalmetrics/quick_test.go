package externalmetrics

import (
	"crypto/tls"
	"crypto/x509"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"runtime"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/rest"
	external "k8s.io/metrics/pkg/apis/external_metrics/v1beta1"
	externalclient "k8s.io/metrics/pkg/client/external_metrics"
	"pgregory.net/rapid"
)

// both returns two servers with the same decisions: one with the fast path, and one that uses only the library.
func both(t testing.TB) (quickly, library *Server) {
	t.Helper()
	certificate, err := SelfSigned("localhost")
	if err != nil {
		t.Fatal(err)
	}
	config := func() ServerConfig {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		return ServerConfig{Listener: l, Certificate: certificate, Open: true}
	}
	p := NewProvider(decisions, func() time.Time { return nine })
	if quickly, err = NewServer(config(), p); err != nil {
		t.Fatal(err)
	}
	if library, err = newServer(config(), func(_ *genericapiserver.Config, api http.Handler) http.Handler { return api }, p); err != nil {
		t.Fatal(err)
	}
	return quickly, library
}

const protobuf = "application/vnd.kubernetes.protobuf"

var (
	namespaces = []string{"team-chat", "team-code", "*", "Team", "team%2Dchat", "a/b", "-"}
	metrics    = []string{MetricName, "queue-depth", "*", "gpuscaler%2Ddesired-replicas", MetricName + "/x", MetricName + "/"}
	queries    = []string{readQuery, "labelSelector=" + PolicyLabel + "=", "labelSelector=", "labelSelector=" + PolicyLabel + "%3D%3D",
		"fieldSelector=metadata.name%3D", ""}
	policies = []string{"chat", "night", "new", "old", "held", "advised", "typo", "in", "", "chat,app=x", "-chat", "chat-", "a.b_c",
		"%63hat", "chat%20", "chat+", "CHAT"}
	trailers = []string{"", "&pretty=true", "&watch=true", "&limit=1", "&labelSelector=x", "&timeoutSeconds=5", "&fieldSelector=a", "#x"}
	methods  = []string{"GET", "HEAD", "POST", "OPTIONS"}

	accepts = rapid.SampledFrom([]string{"", "application/json", "application/json, */*", protobuf, protobuf + ",application/json",
		protobuf + ", */*", "application/yaml",
		"text/html", "application/json;as=Table;g=meta.k8s.io;v=v1", "application/json;pretty=1", "image/png", "application/cbor"})
	agents    = rapid.SampledFrom([]string{"kube-controller-manager/v1.36.0", "", "curl/8.5", "Mozilla/5.0"})
	encodings = rapid.SampledFrom([]string{"", "gzip"})
)

// anyRead generates the request with which an HPA reads a metric. No part, one part or all parts of the URL are unusual.
func anyRead(t *rapid.T) *http.Request {
	odd, part := rapid.IntRange(-1, 6).Draw(t, "odd"), 0
	draw := func(from []string) string {
		defer func() { part++ }()
		if part != odd && odd != 6 {
			return from[0]
		}
		return rapid.SampledFrom(from).Draw(t, from[0])
	}
	target := readPath + draw(namespaces) + "/" + draw(metrics) + "?" + draw(queries) + draw(policies) + draw(trailers)
	u, err := url.ParseRequestURI(target)
	if err != nil {
		t.Skip("no address: " + target)
	}
	r := httptest.NewRequest(draw(methods), "/", nil)
	r.URL, r.RequestURI = u, target
	for name, value := range map[string]string{"Accept": accepts.Draw(t, "accept"), "User-Agent": agents.Draw(t, "agent"),
		"Accept-Encoding": encodings.Draw(t, "encoding")} {
		if value != "" {
			r.Header.Set(name, value)
		}
	}
	return r
}

func TestFastPathAnswersLikeTheLibrary(t *testing.T) {
	quickly, library := both(t)
	short := 0
	rapid.Check(t, func(t *rapid.T) {
		r := anyRead(t)
		got, want := httptest.NewRecorder(), httptest.NewRecorder()
		quickly.library.Handler.ServeHTTP(got, r.Clone(t.Context()))
		library.library.Handler.ServeHTTP(want, r.Clone(t.Context()))
		if got.Code != want.Code || got.Body.String() != want.Body.String() {
			t.Fatalf("%d %q\nwant %d %q", got.Code, got.Body, want.Code, want.Body)
		}
		for _, h := range []http.Header{got.Header(), want.Header()} {
			h.Del("Audit-Id")
		}
		if !maps.EqualFunc(got.Header(), want.Header(), func(a, b []string) bool { return reflect.DeepEqual(a, b) }) {
			t.Fatalf("headers %v\nwant %v", got.Header(), want.Header())
		}
		if _, _, ok := parseRead(r.URL); ok && r.Method == http.MethodGet && got.Code == http.StatusOK {
			short++
		}
	})
	if short == 0 {
		t.Error("no request went the short way")
	}
}

// The fast path and the library must pass the same attributes to the authorizer, because a difference could grant access to another
// namespace. The fast path omits only the selectors; an authorizer could use them to grant access to a part of a namespace.
func TestFastPathAuthorizesLikeTheLibrary(t *testing.T) {
	library := genericapiserver.NewRequestInfoResolver(&genericapiserver.Config{LegacyAPIGroupPrefixes: sets.NewString("/api")})
	rapid.Check(t, func(t *rapid.T) {
		r := anyRead(t)
		got, gotErr := quickInfo{library}.NewRequestInfo(r)
		want, wantErr := library.NewRequestInfo(r)
		if want != nil {
			want.LabelSelector, want.FieldSelector = "", ""
		}
		if !reflect.DeepEqual(got, want) || (gotErr == nil) != (wantErr == nil) {
			t.Fatalf("%+v, %v\nwant %+v, %v", got, gotErr, want, wantErr)
		}
	})
}

func benchmarkRead(b *testing.B, handler http.Handler, edit func(*http.Request)) {
	request := httptest.NewRequest(http.MethodGet, metricPath(MetricName, PolicyLabel+"=chat"), nil)
	b.ReportAllocs()
	start := cpu()
	for b.Loop() {
		w := httptest.NewRecorder()
		edit(request) // sets the headers of the front proxy for each request, because authentication removes them
		if handler.ServeHTTP(w, request); w.Code != http.StatusOK {
			b.Fatalf("%d %s", w.Code, w.Body)
		}
	}
	b.ReportMetric(float64(cpu()-start)/float64(b.N), "cpu-ns/op")
}

// BenchmarkRead measures one read of an HPA: the whole chain of handlers, without the client and its connection.
func BenchmarkRead(b *testing.B) {
	quickly, library := both(b)
	for _, way := range []struct {
		name   string
		server *Server
	}{{"ours", quickly}, {"library", library}} {
		for _, accept := range []string{"application/json", protobuf + ",application/json"} {
			b.Run(way.name+"/"+accept, func(b *testing.B) {
				benchmarkRead(b, way.server.library.Handler, func(r *http.Request) { r.Header.Set("Accept", accept) })
			})
		}
	}
}

// throughFrontProxy returns a server with authentication and authorization. It also returns a function that adds to a request the
// certificate and the headers with which the front proxy forwards requests of the user anna.
func throughFrontProxy(t testing.TB) (*Server, func(*http.Request)) {
	f := newFront(t)
	close(f.listable)
	server, _ := guarded(t, f)
	until(t, "it is ready", func() bool { return server.Ready() == nil })
	pair := f.proxy.client(t, "front-proxy-client").Certificates[0]
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	return server, func(r *http.Request) {
		r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}}
		as("anna")(r)
	}
}

// BenchmarkReadThroughTheFrontProxy measures a read with authentication and authorization. The verified certificate of the front proxy and
// the permission of the user are cached.
func BenchmarkReadThroughTheFrontProxy(b *testing.B) {
	server, forwarded := throughFrontProxy(b)
	benchmarkRead(b, server.library.Handler, forwarded)
}

// The three measured reads make 60, 58 and 72 allocations. The limits in this test are higher, because a garbage collection empties the
// library's pools of reusable objects.
func TestReadAllocatesLittle(t *testing.T) {
	quickly, _ := both(t)
	proxied, forwarded := throughFrontProxy(t)
	for _, c := range []struct {
		name               string
		handler            http.Handler
		edit               func(*http.Request)
		allocations, bytes float64
	}{
		{"JSON", quickly.library.Handler, func(r *http.Request) { r.Header.Set("Accept", "application/json") }, 80, 7500},
		{"protobuf", quickly.library.Handler, func(r *http.Request) { r.Header.Set("Accept", protobuf) }, 75, 7000},
		{"through the front proxy", proxied.library.Handler, forwarded, 95, 9500},
	} {
		request := httptest.NewRequest(http.MethodGet, metricPath(MetricName, PolicyLabel+"=chat"), nil)
		read := func() {
			w := httptest.NewRecorder()
			c.edit(request)
			if c.handler.ServeHTTP(w, request); w.Code != http.StatusOK {
				t.Fatalf("%s: %d %s", c.name, w.Code, w.Body)
			}
		}
		const reads = 200
		read()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		allocations := testing.AllocsPerRun(reads-1, read) // AllocsPerRun makes one more call, to warm up
		runtime.ReadMemStats(&after)
		bytes := float64(after.TotalAlloc-before.TotalAlloc) / reads
		t.Logf("%s: %.0f allocations of %.0f bytes", c.name, allocations, bytes)
		if allocations > c.allocations || bytes > c.bytes {
			t.Errorf("%s: a read makes %.0f allocations of %.0f bytes, want at most %.0f of %.0f bytes", c.name, allocations, bytes,
				c.allocations, c.bytes)
		}
	}
}

// The HPA controller reads with the k8s.io/metrics client and protobuf, and kubectl reads JSON. The fast path must serve both forms.
func TestClientOfTheHPAControllerUsesTheFastPath(t *testing.T) {
	certificate, err := SelfSigned("localhost")
	if err != nil {
		t.Fatal(err)
	}
	_, address := run(t, ServerConfig{Certificate: certificate, Open: true})
	for _, content := range []string{protobuf, "application/json"} {
		config := &rest.Config{Host: "https://" + address, TLSClientConfig: rest.TLSClientConfig{Insecure: true},
			ContentConfig: rest.ContentConfig{ContentType: content}}
		short := false
		config.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return roundTrip(func(r *http.Request) (*http.Response, error) {
				_, _, short = parseRead(r.URL)
				return next.RoundTrip(r)
			})
		})
		client, err := externalclient.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		until(t, "it answers", func() bool {
			var list *external.ExternalMetricValueList
			list, err = client.NamespacedMetrics("team-chat").List(MetricName, labels.Set{PolicyLabel: "chat"}.AsSelector())
			return err == nil && len(list.Items) == 1 && list.Items[0].Value.MilliValue() == 9000 && list.Items[0].Timestamp.Time.Equal(nine)
		})
		if !short {
			t.Errorf("%s: its request is written in another way", content)
		}
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
