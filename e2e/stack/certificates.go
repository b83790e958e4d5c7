package stack

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"time"
)

// Authority is the certificate authority of one stack. Each stack has a separate Authority, whose key is only in the memory of this
// process.
type Authority struct {
	PEM []byte // the certificate, in the format of a caBundle

	cert *x509.Certificate
	key  crypto.Signer
}

// Identity describes the holder of a certificate.
type Identity struct {
	User   string   // common name of the certificate
	Groups []string // organizations in the certificate
	DNS    []string // DNS names of a server, in addition to localhost and 127.0.0.1
	// NotAfter is the end of the validity; zero: in 24 hours.
	NotAfter time.Time
}

func newAuthority(name string) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := certificate(name, nil)
	template.IsCA = true
	template.BasicConstraintsValid = true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &Authority{PEM: encode("CERTIFICATE", der), cert: cert, key: key}, nil
}

// Issue returns a certificate that is valid for clients and servers, and its key.
func (a *Authority) Issue(id Identity) (certPEM, keyPEM []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template := certificate(id.User, id.Groups)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}
	if !id.NotAfter.IsZero() {
		template.NotBefore, template.NotAfter = id.NotAfter.Add(-24*time.Hour), id.NotAfter
	}
	template.DNSNames = append([]string{"localhost"}, id.DNS...)
	template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1), net.IPv4(10, 0, 0, 1)} // 10.0.0.1 is the address of the Service kubernetes
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return nil, nil, err
	}
	keyPEM, err = encodeKey(key)
	return encode("CERTIFICATE", der), keyPEM, err
}

// IssueFiles issues a certificate, writes the files <base>.crt and <base>.key, and returns their paths.
func (a *Authority) IssueFiles(id Identity, base string) (certPath, keyPath string, err error) {
	cert, key, err := a.Issue(id)
	if err != nil {
		return "", "", fmt.Errorf("certificate for %s: %w", id.User, err)
	}
	certPath, keyPath = base+".crt", base+".key"
	if err := os.WriteFile(certPath, cert, 0o600); err != nil {
		return "", "", err
	}
	return certPath, keyPath, os.WriteFile(keyPath, key, 0o600)
}

func certificate(name string, organization []string) *x509.Certificate {
	serial, _ := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120)) // crypto/rand does not return errors
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: name, Organization: organization},
		NotBefore:    time.Now().Add(-time.Minute),
		NotAfter:     time.Now().Add(24 * time.Hour),
	}
}

// writeKeyPair writes a new key pair. The private key signs the tokens of ServiceAccounts, and the public key verifies them.
func writeKeyPair(privatePath, publicPath string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	private, err := encodeKey(key)
	if err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return err
	}
	if err := os.WriteFile(privatePath, private, 0o600); err != nil {
		return err
	}
	return os.WriteFile(publicPath, encode("PUBLIC KEY", public), 0o600)
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	return encode("EC PRIVATE KEY", der), err
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
