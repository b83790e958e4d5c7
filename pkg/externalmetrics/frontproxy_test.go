package externalmetrics

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/request/headerrequest"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
)

// changingCA is the CA of the front proxy. It counts the calls of VerifyOptions, which precede each verification.
type changingCA struct {
	dynamiccertificates.CAContentProvider
	verifications int
}

func (c *changingCA) VerifyOptions() (x509.VerifyOptions, bool) {
	c.verifications++
	return c.CAContentProvider.VerifyOptions()
}

func (c *changingCA) set(t *testing.T, a *authority) {
	t.Helper()
	text, err := os.ReadFile(a.file("ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	if c.CAContentProvider, err = dynamiccertificates.NewStaticCAContent("front-proxy", text); err != nil {
		t.Fatal(err)
	}
}

// proxies returns a CA, the library's authenticator with this CA, and gpuscaler's authenticator with this CA, which caches verified
// certificates.
func proxies(t *testing.T, a *authority, names ...string) (ca *changingCA, library authenticator.Request, remembering *frontProxy) {
	t.Helper()
	ca = &changingCA{}
	ca.set(t, a)
	header := func(names ...string) headerrequest.StringSliceProvider { return headerrequest.StaticStringSlice(names) }
	config := &authenticatorfactory.RequestHeaderConfig{
		UsernameHeaders: header("X-Remote-User"), UIDHeaders: header("X-Remote-Uid"), GroupHeaders: header("X-Remote-Group"),
		ExtraHeaderPrefixes: header("X-Remote-Extra-"), CAContentProvider: ca, AllowedClientNames: header(names...),
	}
	library, _, err := authenticatorfactory.DelegatingAuthenticatorConfig{RequestHeaderConfig: config}.New()
	if err != nil {
		t.Fatal(err)
	}
	return ca, library, newFrontProxy(library, config)
}

func forwarded(t *testing.T, a *authority, name string) *http.Request {
	t.Helper()
	leaf, err := x509.ParseCertificate(a.client(t, name).Certificates[0].Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}}
	as("anna", "chat", "code")(r)
	r.Header.Set("X-Remote-Extra-Scope", "read")
	r.Header.Set("X-Remote-Uid", "42")
	return r
}

func TestVerifiedFrontProxyIsRememberedUntilTheCAChanges(t *testing.T) {
	first, second := newAuthority(t), newAuthority(t)
	ca, _, p := proxies(t, first, "front-proxy-client")
	old := forwarded(t, first, "front-proxy-client")
	authenticates := func(r *http.Request) bool {
		response, ok, err := p.AuthenticateRequest(r.Clone(t.Context()))
		return err == nil && ok && response.User.GetName() == "anna"
	}
	for range 10 {
		if !authenticates(old) {
			t.Fatal("the front proxy is rejected")
		}
	}
	if ca.verifications != 1 {
		t.Errorf("10 requests of one certificate were verified %d times, want 1", ca.verifications)
	}
	ca.set(t, second)
	if authenticates(old) {
		t.Error("a certificate of the previous CA is accepted")
	}
	if !authenticates(forwarded(t, second, "front-proxy-client")) {
		t.Error("a certificate of the new CA is rejected")
	}
	if authenticates(old) {
		t.Error("a certificate of the previous CA is accepted after a certificate of the new CA")
	}
}

func TestExpiredCertificateIsVerifiedAgain(t *testing.T) {
	a := newAuthority(t)
	ca, _, p := proxies(t, a)
	r := forwarded(t, a, "front-proxy-client")
	if !p.trusts(r) || !p.last.Load().until.Equal(a.cert.NotAfter) {
		t.Fatalf("remembered %+v, want until the CA expires at %s", p.last.Load(), a.cert.NotAfter)
	}
	expired := *p.last.Load()
	expired.until = time.Now().Add(-time.Second)
	p.last.Store(&expired)
	if before := ca.verifications; !p.trusts(r) || ca.verifications != before+1 {
		t.Errorf("verified %d times after the expiration, want once", ca.verifications-before)
	}
}

// gpuscaler's authenticator must return the same result as the library's authenticator, for a cached certificate and for every other
// request.
func TestFrontProxyAuthenticatesLikeTheLibrary(t *testing.T) {
	a, other := newAuthority(t), newAuthority(t)
	_, library, remembering := proxies(t, a, "front-proxy-client", "second-proxy")
	without := func(r *http.Request, header string) *http.Request { r.Header.Del(header); return r }
	plain := forwarded(t, a, "front-proxy-client")
	plain.TLS = nil
	chain := forwarded(t, a, "front-proxy-client")
	chain.TLS.PeerCertificates = append(chain.TLS.PeerCertificates, other.cert)
	for name, r := range map[string]*http.Request{
		"the front proxy": forwarded(t, a, "front-proxy-client"), "another front proxy": forwarded(t, a, "second-proxy"),
		"a name that is not allowed": forwarded(t, a, "anna"), "another CA": forwarded(t, other, "front-proxy-client"),
		"no user":  without(forwarded(t, a, "front-proxy-client"), "X-Remote-User"),
		"no group": without(forwarded(t, a, "front-proxy-client"), "X-Remote-Group"),
		"no TLS":   plain, "intermediate certificates": chain,
	} {
		for i := range 3 {
			mine, theirs := r.Clone(t.Context()), r.Clone(t.Context())
			got, ok, err := remembering.AuthenticateRequest(mine)
			want, wantOK, wantErr := library.AuthenticateRequest(theirs)
			if !reflect.DeepEqual(got, want) || ok != wantOK || (err == nil) != (wantErr == nil) || !reflect.DeepEqual(mine.Header, theirs.Header) {
				t.Errorf("%s, request %d: %+v, %t, %v with headers %v\nwant %+v, %t, %v with %v", name, i, got, ok, err, mine.Header, want, wantOK,
					wantErr, theirs.Header)
			}
		}
	}
}
