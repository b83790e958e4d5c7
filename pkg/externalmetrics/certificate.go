package externalmetrics

import (
	"fmt"
	"net"
	"os"

	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/util/cert"
)

// Certificate is what the aggregated API serves with, and what the API server trusts it by.
type Certificate struct {
	provider dynamiccertificates.CertKeyContentProvider
	ca       []byte // PEM; empty where the pair came from files
}

// Bundle returns a function that reads the CA bundle for the APIService: our own where the pair is self-signed, else the file's
// contents as they stand at each call. Empty means that whoever issues the certificate writes the bundle too.
func (c Certificate) Bundle(caFile string) func() []byte {
	return func() []byte {
		if len(c.ca) > 0 || caFile == "" {
			return c.ca
		}
		bundle, err := os.ReadFile(caFile)
		if err != nil {
			return nil
		}
		return bundle
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

// SelfSigned makes a key pair in memory for these DNS names; it lives for a year, and anew with each process.
func SelfSigned(names ...string) (Certificate, error) {
	pemCert, pemKey, err := cert.GenerateSelfSignedCertKey(names[0], []net.IP{net.IPv4(127, 0, 0, 1)}, names[1:])
	if err != nil {
		return Certificate{}, fmt.Errorf("self-signed certificate: %w", err)
	}
	p, err := dynamiccertificates.NewStaticCertKeyContent("self-signed", pemCert, pemKey)
	if err != nil {
		return Certificate{}, fmt.Errorf("self-signed certificate: %w", err)
	}
	return Certificate{provider: p, ca: pemCert}, nil
}
