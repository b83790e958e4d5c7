package externalmetrics

import (
	"bytes"
	"crypto/x509"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/group"
	"k8s.io/apiserver/pkg/authentication/request/headerrequest"
)

// frontProxy authenticates the requests that the API server forwards. The API server library would verify the API server's client
// certificate for each request, which takes several times as long as the rest of the request. frontProxy verifies a certificate once, and
// caches the result until the certificate or its CA expires or the configured CA changes. The library authenticates all other requests.
type frontProxy struct {
	library authenticator.Request
	config  *authenticatorfactory.RequestHeaderConfig
	headers authenticator.Request
	last    atomic.Pointer[verified]
}

// verified is a cached client certificate that the CA of the front proxy signed.
type verified struct {
	certificate, ca []byte
	until           time.Time
}

func newFrontProxy(library authenticator.Request, c *authenticatorfactory.RequestHeaderConfig) *frontProxy {
	headers := headerrequest.NewDynamic(c.UsernameHeaders, c.UIDHeaders, c.GroupHeaders, c.ExtraHeaderPrefixes)
	return &frontProxy{library: library, config: c, headers: group.NewAuthenticatedGroupAdder(headers)}
}

// AuthenticateRequest implements authenticator.Request.
func (p *frontProxy) AuthenticateRequest(r *http.Request) (*authenticator.Response, bool, error) {
	if p.trusts(r) {
		if response, ok, err := p.headers.AuthenticateRequest(r); ok || err != nil {
			return response, ok, err
		}
	}
	return p.library.AuthenticateRequest(r)
}

// trusts reports whether the client has a certificate of the front proxy. If the client also sends intermediate certificates, trusts
// returns false, and the library authenticates the client.
func (p *frontProxy) trusts(r *http.Request) bool {
	if r.TLS == nil || len(r.TLS.PeerCertificates) != 1 {
		return false
	}
	leaf, now := r.TLS.PeerCertificates[0], time.Now() // may use the clock: a certificate expires in real time
	if names := p.config.AllowedClientNames.Value(); len(names) > 0 && !slices.Contains(names, leaf.Subject.CommonName) {
		return false
	}
	ca := p.config.CAContentProvider.CurrentCABundleContent()
	if last := p.last.Load(); last != nil && now.Before(last.until) && bytes.Equal(last.certificate, leaf.Raw) && bytes.Equal(last.ca, ca) {
		return true
	}
	options, ok := p.config.CAContentProvider.VerifyOptions()
	if !ok {
		return false
	}
	chains, err := leaf.Verify(options)
	if err != nil {
		return false
	}
	// If the configured CA changed after ca was read, the certificate was verified with the new CA. The result must then not be cached for ca.
	if bytes.Equal(ca, p.config.CAContentProvider.CurrentCABundleContent()) {
		p.last.Store(&verified{certificate: leaf.Raw, ca: ca, until: validUntil(chains)})
	}
	return true
}

// validUntil returns the time at which the last of the chains expires. A chain expires when the first of its certificates expires.
func validUntil(chains [][]*x509.Certificate) (until time.Time) {
	for _, chain := range chains {
		first := chain[0].NotAfter
		for _, c := range chain[1:] {
			if c.NotAfter.Before(first) {
				first = c.NotAfter
			}
		}
		if first.After(until) {
			until = first
		}
	}
	return until
}
