package telemetry

import (
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/spec"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

func file(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestCredentialsAreSentByPrometheusConfiguration(t *testing.T) {
	tokens := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, secret, _ := r.BasicAuth(); secret != "s3cret" {
			w.WriteHeader(401)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"access_token": "from-oauth", "token_type": "Bearer", "expires_in": 3600})
	}))
	t.Cleanup(tokens.Close)
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	for _, c := range []struct {
		name string
		set  func(d *policy.DataSource)
		want func(authorization string) bool
	}{
		{"basic auth", func(d *policy.DataSource) {
			d.HTTP = &spec.HTTP{BasicAuth: &spec.BasicAuth{Username: "u", PasswordFile: file(t, "p", "w")}}
		}, func(a string) bool { return a == "Basic dTp3" }},
		{"bearer file", func(d *policy.DataSource) {
			d.HTTP = &spec.HTTP{Authorization: &spec.Authorization{CredentialsFile: file(t, "token", "abc\n")}}
		}, func(a string) bool { return a == "Bearer abc" }},
		{"OAuth2", func(d *policy.DataSource) {
			d.HTTP = &spec.HTTP{OAuth2: &spec.OAuth2{ClientID: "c", ClientSecretFile: file(t, "s", "s3cret"), TokenURL: tokens.URL}}
		}, func(a string) bool { return a == "Bearer from-oauth" }},
		{"SigV4", func(d *policy.DataSource) { d.SigV4 = &spec.SigV4{Region: "eu-central-1"} },
			func(a string) bool {
				return strings.HasPrefix(a, "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/") && strings.Contains(a, "/eu-central-1/aps/aws4_request")
			}},
		{"nothing", func(*policy.DataSource) {}, func(a string) bool { return a == "" }},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := newFaulty(t)
			got := "no request"
			server.does(func(w http.ResponseWriter, r *http.Request) {
				got = r.Header.Get("Authorization")
				text(answerOf("5"))(w, r)
			})
			source := promSource(server.URL)
			c.set(&source)
			w := compiled("chat", "llama", querySource())
			p := newPoller(t, Options{})
			p.SetPolicies([]*policy.Compiled{w}, platformOf(source))
			pollOnce(t, p)
			if r := read(p, w)[0]; !r.Known || !c.want(got) {
				t.Errorf("%+v with Authorization %q; %+v", r, got, statuses(p))
			}
		})
	}
}

func TestTLSIsVerifiedAgainstTheConfiguredAuthority(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { text(answerOf("5"))(w, r) }))
	t.Cleanup(server.Close)
	authority := file(t, "ca.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
	for name, c := range map[string]struct {
		tls  *spec.TLS
		want scaling.Cause
	}{
		"unknown authority":      {nil, scaling.CauseTLS},
		"its authority":          {&spec.TLS{CAFile: authority}, scaling.CauseNone},
		"its authority, by name": {&spec.TLS{CAFile: authority, ServerName: "example.com", MinVersion: "TLS13"}, scaling.CauseNone},
		"another name":           {&spec.TLS{CAFile: authority, ServerName: "evil.example"}, scaling.CauseTLS},
		"no such file":           {&spec.TLS{CAFile: authority + "x"}, scaling.CauseFile},
	} {
		source := promSource(server.URL)
		if c.tls != nil {
			source.HTTP = &spec.HTTP{TLSConfig: c.tls}
		}
		w := compiled("chat", "llama", querySource())
		p := newPoller(t, Options{})
		p.SetPolicies([]*policy.Compiled{w}, platformOf(source))
		pollOnce(t, p)
		if r := read(p, w)[0]; r.Known != (c.want == scaling.CauseNone) || r.Cause != c.want {
			t.Errorf("%s: %+v; %+v", name, r, statuses(p))
		}
	}
}

func TestTenantsPodsAreSentNoCredentials(t *testing.T) {
	server := newPodServer(t)
	sent := false
	server.does(func(w http.ResponseWriter, r *http.Request) {
		sent = sent || r.Header.Get("Authorization") != ""
		text("vllm:num_requests_waiting 5\n")(w, r)
	})
	source := server.source(policy.SourceVLLM)
	source.HTTP = &spec.HTTP{Authorization: &spec.Authorization{CredentialsFile: file(t, "token", "abc")}}
	w := compiled("chat", "llama", policy.Source{Type: policy.SourceVLLM, DataSource: "pods", Metric: "requestsWaiting"})
	p := newPoller(t, Options{Pods: testPods{w.Workload.Key: readyPods("llama-0")}, LoopbackPods: true})
	p.SetPolicies([]*policy.Compiled{w}, platformOf(source))
	pollOnce(t, p)
	if r := read(p, w)[0]; r.Known || r.Cause != scaling.CauseDenied || sent {
		t.Errorf("%+v, credentials sent: %t", r, sent)
	}
}

func TestStatusHasTheErrorOfAFailedPoll(t *testing.T) {
	good, bad := newFaulty(t), newFaulty(t)
	good.does(text(answerOf("5")))
	bad.does(status(500, "oops"))
	a, b := promSource(good.URL), promSource(bad.URL)
	a.Name, b.Name = "a", "b"
	x, y := querySource(), querySource()
	x.DataSource, y.DataSource = "a", "b"
	w := compiled("chat", "llama", x, y)
	p := newPoller(t, Options{Pods: testPods{w.Workload.Key: []engine.Pod{}}})
	p.SetPolicies([]*policy.Compiled{w}, platformOf(a, b))
	pollOnce(t, p)
	s := statuses(p)
	if len(s) != 2 || s[0].Source != "a" || s[0].Known != 1 || s[0].Error != "" || s[0].Cause != scaling.CauseNone ||
		time.Since(s[0].At) > time.Minute {
		t.Fatalf("%+v", s)
	}
	if s[1].Source != "b" || s[1].Name != "q" || s[1].Poll != "query" || s[1].Known != 0 || s[1].Cause != scaling.CauseHTTPError ||
		s[1].Error != "status 500: oops" {
		t.Errorf("%+v", s[1])
	}
}

func TestSourceIsRetriedUntilItsCertificateIsMounted(t *testing.T) {
	server := newPodServer(t)
	server.does(text("vllm:num_requests_waiting 6\n"))
	secure := httptest.NewTLSServer(nil)
	t.Cleanup(secure.Close)
	path := filepath.Join(t.TempDir(), "ca.pem")
	source := server.source(policy.SourceVLLM)
	source.HTTP = &spec.HTTP{TLSConfig: &spec.TLS{CAFile: path}}
	w := compiled("chat", "llama", policy.Source{Type: policy.SourceVLLM, DataSource: "pods", Metric: "requestsWaiting"})
	p := scrapePoller(t, w, source, readyPods("llama-0"))
	for range 2 {
		pollOnce(t, p)
		if r := read(p, w)[0]; r.Known || r.Cause != scaling.CauseFile {
			t.Errorf("without its certificate: %+v", r)
		}
	}
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw})
	if err := os.WriteFile(path, authority, 0o600); err != nil {
		t.Fatal(err)
	}
	pollOnce(t, p)
	if r := read(p, w)[0]; !r.Known || r.Value != 6 {
		t.Errorf("with it: %+v", r)
	}
}
