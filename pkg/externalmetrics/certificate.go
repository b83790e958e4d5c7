package externalmetrics

import (
	"fmt"
	"os"
	"time"

	"k8s.io/apiserver/pkg/server/dynamiccertificates"
)

// Certificate is what the aggregated API serves with, and what the API server trusts it by.
type Certificate struct {
	provider dynamiccertificates.CertKeyContentProvider
	own      *selfSigned // nil where the pair came from files
}

// Bundle returns a function that reads the CA bundle for the APIService as it should stand at each call: our own where the pair is
// self-signed, else the file's contents. Empty means that whoever issues the certificate writes the bundle too.
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

// Trusted is told the CA bundle that the API server has of us at present: a renewed certificate is served once it is in there.
func (c Certificate) Trusted(bundle []byte) {
	if c.own != nil {
		c.own.trusted(bundle)
	}
}

// FileCertificate serves with a key pair of files that somebody else renews; it is read again when they change.
func FileCertificate(certFile, keyFile string) (Certificate, error) {
	p, err := dynamiccertificates.NewDynamicServingContentFromFiles("serving-cert", certFile, keyFile)
	if err != nil {
		return Certificate{}, fmt.Errorf("serving certificate: %w", err)
	}
	return Certificate{provider: p}, nil
}

// SelfSigned makes a key pair in memory for these DNS names, anew with each process, and renews it while it is served.
func SelfSigned(names ...string) (Certificate, error) {
	own, err := newSelfSigned(selfSignedLife, time.Now, names...) // I/O edge: a certificate is valid in wall time
	if err != nil {
		return Certificate{}, err
	}
	return Certificate{provider: own, own: own}, nil
}
