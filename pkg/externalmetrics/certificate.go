package externalmetrics

import (
	"fmt"
	"os"
	"time"

	"k8s.io/apiserver/pkg/server/dynamiccertificates"
)

// Certificate is the serving certificate of the aggregated API, and the CA bundle with which the API server verifies it.
type Certificate struct {
	provider dynamiccertificates.CertKeyContentProvider
	own      *selfSigned // nil if the certificate and the key are read from files
}

// Bundle returns a function that returns the CA bundle to write to the APIService. For a self-signed certificate, the bundle contains the
// CAs of this certificate. For a certificate from files, the bundle is the content of caFile, or nil if caFile is empty or cannot be read.
// An empty caFile means that another program, such as cert-manager, writes the bundle to the APIService.
func (c Certificate) Bundle(caFile string) func() []byte {
	return func() []byte {
		if c.own != nil {
			return c.own.bundle()
		}
		if caFile == "" {
			return nil
		}
		bundle, err := os.ReadFile(caFile)
		if err != nil {
			return nil
		}
		return bundle
	}
}

// Trusted records the current CA bundle of the APIService. Package apiservice calls it at each check of the APIService. A renewed
// self-signed certificate is served only after this bundle contains its CA.
func (c Certificate) Trusted(bundle []byte) {
	if c.own != nil {
		c.own.trusted(bundle)
	}
}

// FileCertificate returns a certificate from files that another program renews. The files are read again when they change.
func FileCertificate(certFile, keyFile string) (Certificate, error) {
	p, err := dynamiccertificates.NewDynamicServingContentFromFiles("serving-cert", certFile, keyFile)
	if err != nil {
		return Certificate{}, fmt.Errorf("serving certificate: %w", err)
	}
	return Certificate{provider: p}, nil
}

// SelfSigned returns a self-signed certificate for the given DNS names. Each process creates a certificate, keeps the key only in memory,
// and renews both.
func SelfSigned(names ...string) (Certificate, error) {
	own, err := newSelfSigned(selfSignedLife, time.Now, names...) // may use the clock: a certificate expires in real time
	if err != nil {
		return Certificate{}, err
	}
	return Certificate{provider: own, own: own}, nil
}
