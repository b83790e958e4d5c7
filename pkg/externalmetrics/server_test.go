package externalmetrics

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"

	external "k8s.io/metrics/pkg/apis/external_metrics/v1beta1"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

var nine = time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)

// fixed is a decision store with fixed targets and errors.
type fixed map[scaling.Key]any

func (f fixed) Lookup(k scaling.Key, _ time.Time) (engine.Served, error) {
	switch v := f[k].(type) {
	case engine.Served:
		return v, nil
	case error:
		return engine.Served{}, v
	}
	return engine.Served{}, engine.ErrUnknown
}

func key(name string) scaling.Key { return scaling.Key{Namespace: "team-chat", Name: name} }

var decisions = fixed{
	key("chat"):    engine.Served{Replicas: 9, Active: true, At: nine},
	key("night"):   engine.Served{Replicas: 0, At: nine},
	key("new"):     engine.ErrUndecided,
	key("old"):     engine.ErrStale,
	key("held"):    engine.ErrHeld,
	key("advised"): engine.ErrAdvisory,
}

// run starts a server on loopback that serves the same target for every policy. The server runs until the test ends.
func run(t testing.TB, c ServerConfig) (server *Server, address string) {
	t.Helper()
	return runWith(t, c, NewProvider(decisions, func() time.Time { return nine }))
}

// runWith starts a server of provider p on loopback that runs until the test ends.
func runWith(t testing.TB, c ServerConfig, p *Provider) (server *Server, address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c.Listener = l
	server, err = NewServer(c, p)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return server, l.Addr().String()
}

// reader returns a function that requests a path of a server and returns the status code and the body. c can contain a client certificate.
// The client does not verify the server's certificate.
func reader(t testing.TB, address string, c *tls.Config) func(path string, edit ...func(*http.Request)) (int, []byte) {
	if c == nil {
		c = &tls.Config{}
	}
	c.InsecureSkipVerify = true
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: c}}
	t.Cleanup(client.CloseIdleConnections)
	return func(path string, edit ...func(*http.Request)) (int, []byte) {
		r, err := http.NewRequest(http.MethodGet, "https://"+address+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range edit {
			e(r)
		}
		answer, err := client.Do(r)
		if err != nil {
			return 0, []byte(err.Error())
		}
		defer answer.Body.Close()
		body, _ := io.ReadAll(answer.Body)
		return answer.StatusCode, body
	}
}

// serveAPI starts a server without authentication that serves the same target for every policy, and returns a function that requests a
// path.
func serveAPI(t testing.TB) func(path string, edit ...func(*http.Request)) (int, []byte) {
	t.Helper()
	return serveWith(t, NewProvider(decisions, func() time.Time { return nine }))
}

// serveWith starts a server of provider p without authentication, and returns a function that requests a path.
func serveWith(t testing.TB, p *Provider) func(path string, edit ...func(*http.Request)) (int, []byte) {
	t.Helper()
	certificate, err := SelfSigned("localhost")
	if err != nil {
		t.Fatal(err)
	}
	_, address := runWith(t, ServerConfig{Certificate: certificate, Open: true}, p)
	get := reader(t, address, nil)
	until(t, "the server is ready", func() bool { code, _ := get("/readyz"); return code == http.StatusOK })
	return get
}

// until waits until the function returns true, and fails the test after a minute.
func until(t testing.TB, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if is() {
			return
		}
	}
	t.Fatalf("not within a minute: %s", what)
}

func metricPath(metric, selector string) string {
	return "/apis/external.metrics.k8s.io/v1beta1/namespaces/team-chat/" + metric + "?labelSelector=" + url.QueryEscape(selector)
}

func TestReadsOfAnHPA(t *testing.T) {
	get := serveAPI(t)
	for _, c := range []struct {
		name, metric, selector string
		code                   int
		says                   string
	}{
		{"a decided policy", MetricName, PolicyLabel + "=chat", 200, `"value":"9"`},
		{"zero is a decision too", MetricName, PolicyLabel + "=night", 200, `"value":"0"`},
		{"no selector, which an HPA sends where its manifest has none", MetricName, "", 400, "must name a policy"},
		{"a selector that names several", MetricName, PolicyLabel + " in (chat,night)", 400, "must name a policy"},
		{"a selector that names two at once", MetricName, PolicyLabel + "=chat," + PolicyLabel + "=night", 400, "must name a policy"},
		{"a selector on something else", MetricName, "app=chat", 400, "must name a policy"},
		{"a policy that does not exist", MetricName, PolicyLabel + "=typo", 404, "team-chat/typo"},
		{"an address of five thousand bytes", MetricName, PolicyLabel + "=chat,app=" + strings.Repeat("x", 5000), 414, "too long"},
		{"another metric", "queue-depth", PolicyLabel + "=chat", 404, "queue-depth"},
		{"never decided", MetricName, PolicyLabel + "=new", 503, "not decided yet; an HPA keeps its replicas"},
		{"decided too long ago", MetricName, PolicyLabel + "=old", 503, "too old"},
		{"held", MetricName, PolicyLabel + "=held", 503, "mode: hold"},
		{"advisory", MetricName, PolicyLabel + "=advised", 503, "advisory"},
	} {
		code, body := get(metricPath(c.metric, c.selector))
		if code != c.code || !strings.Contains(string(body), c.says) {
			t.Errorf("%s: %d %s\nwant %d with %q", c.name, code, body, c.code, c.says)
		}
	}
	if code, body := get("/apis/external.metrics.k8s.io/v1beta1/namespaces/team-other/" + MetricName + "?labelSelector=" + PolicyLabel +
		"%3Dchat"); code != 404 {
		t.Errorf("the policy of another namespace: %d %s, want 404", code, body)
	}
}

func TestResponseHasOneItemWithTheTimeOfTheDecision(t *testing.T) {
	get := serveAPI(t)
	_, body := get(metricPath(MetricName, PolicyLabel+"=chat"))
	var list external.ExternalMetricValueList
	if err := json.Unmarshal(body, &list); err != nil || len(list.Items) != 1 {
		t.Fatalf("%v: %s", err, body)
	}
	item := list.Items[0]
	if item.Value.MilliValue() != 9000 || !item.Timestamp.Time.Equal(nine) || item.MetricLabels[PolicyLabel] != "chat" {
		t.Errorf("item %+v", item)
	}
}

func TestOpenServerRequiresLoopback(t *testing.T) {
	l, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	certificate, _ := SelfSigned("localhost")
	_, err = NewServer(ServerConfig{Listener: l, Certificate: certificate, Open: true}, NewProvider(decisions, time.Now))
	if err == nil || !strings.Contains(err.Error(), "is not a loopback address") {
		t.Errorf("err = %v", err)
	}
}

// cpu returns the processor time of this process in nanoseconds, which does not depend on the load of the machine.
func cpu() int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return u.Utime.Nano() + u.Stime.Nano()
}
