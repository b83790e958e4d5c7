package externalmetrics

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

// authority is a CA that signs certificates for the tests of mutual TLS.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t testing.TB) *authority {
	a := &authority{dir: t.TempDir()}
	a.cert, a.key = a.sign(t, "ca", &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	return a
}

func (a *authority) file(name string) string { return filepath.Join(a.dir, name) }

// sign issues a certificate and writes it and its key to NAME.crt and NAME.key.
func (a *authority) sign(t testing.TB, name string, template *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template.SerialNumber, template.Subject = big.NewInt(time.Now().UnixNano()), pkix.Name{CommonName: name}
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, _ := x509.MarshalECPrivateKey(key)
	for file, block := range map[string]*pem.Block{name + ".crt": {Type: "CERTIFICATE", Bytes: der},
		name + ".key": {Type: "EC PRIVATE KEY", Bytes: keyDER}} {
		if err := os.WriteFile(a.file(file), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cert, _ := x509.ParseCertificate(der)
	return cert, key
}

// pair loads the certificate and the key that sign wrote for a name.
func (a *authority) pair(t testing.TB, name string) tls.Certificate {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(a.file(name+".crt"), a.file(name+".key"))
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

func TestMutualTLSAcceptsOnlyTheNamedClient(t *testing.T) {
	ours, theirs := newAuthority(t), newAuthority(t)
	ours.sign(t, "server", &x509.Certificate{DNSNames: []string{"gpuscaler-scaler.gpuscaler-system.svc"}})
	ours.sign(t, "keda", &x509.Certificate{DNSNames: []string{"keda-operator.keda.svc"}})
	ours.sign(t, "other", &x509.Certificate{DNSNames: []string{"other.example.svc"}})
	theirs.sign(t, "keda", &x509.Certificate{DNSNames: []string{"keda-operator.keda.svc"}})
	server := ScalerTLS{CertFile: ours.file("server.crt"), KeyFile: ours.file("server.key"),
		ClientCAFile: ours.file("ca.crt"), ClientNames: []string{"keda-operator.keda.svc"}}
	roots := x509.NewCertPool()
	roots.AddCert(ours.cert)
	client := func(a *authority, name string, maxVersion uint16) credentials.TransportCredentials {
		config := &tls.Config{RootCAs: roots, ServerName: "gpuscaler-scaler.gpuscaler-system.svc", MaxVersion: maxVersion}
		if name != "" {
			config.Certificates = []tls.Certificate{a.pair(t, name)}
		}
		return credentials.NewTLS(config)
	}
	for _, c := range []struct {
		name  string
		creds credentials.TransportCredentials
		want  codes.Code
	}{
		{"KEDA", client(ours, "keda", 0), codes.OK},
		{"no certificate", client(nil, "", 0), codes.Unavailable},
		{"KEDA's name from another CA", client(theirs, "keda", 0), codes.Unavailable},
		{"another name from our CA", client(ours, "other", 0), codes.Unavailable},
		{"TLS 1.2", client(ours, "keda", tls.VersionTLS12), codes.Unavailable},
		{"plain text", insecure.NewCredentials(), codes.Unavailable},
	} {
		_, err := dial(t, decisions, server, c.creds).IsActive(soon(t), ref("chat"))
		if status.Code(err) != c.want {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}

// The certificate files are replaced while the server runs, as cert-manager does. The next connection must use the new server certificate
// and the new client CA.
func TestRenewedCertificatesAreUsedByNewConnections(t *testing.T) {
	ours, next := newAuthority(t), newAuthority(t)
	first, _ := ours.sign(t, "server", &x509.Certificate{DNSNames: []string{"scaler"}})
	for _, a := range []*authority{ours, next} {
		a.sign(t, "keda", &x509.Certificate{DNSNames: []string{"keda"}})
	}
	address := serveScaler(t, decisions, ScalerTLS{CertFile: ours.file("server.crt"), KeyFile: ours.file("server.key"),
		ClientCAFile: ours.file("ca.crt")})
	roots := x509.NewCertPool()
	roots.AddCert(ours.cert)
	var shown *x509.Certificate
	asks := func(a *authority) codes.Code {
		config := &tls.Config{RootCAs: roots, ServerName: "scaler", Certificates: []tls.Certificate{a.pair(t, "keda")}}
		config.VerifyConnection = func(c tls.ConnectionState) error {
			shown = c.PeerCertificates[0]
			return nil
		}
		_, err := connect(t, address, credentials.NewTLS(config)).IsActive(soon(t), ref("chat"))
		return status.Code(err)
	}
	if code := asks(ours); code != codes.OK || !shown.Equal(first) {
		t.Fatalf("%v, with serial %v", code, shown.SerialNumber)
	}
	second, _ := ours.sign(t, "server", &x509.Certificate{DNSNames: []string{"scaler"}})
	for deadline := time.Now().Add(2 * time.Minute); !shown.Equal(second); time.Sleep(50 * time.Millisecond) {
		if code := asks(ours); code != codes.OK {
			t.Fatalf("in the middle of a renewal: %v", code)
		}
		if time.Now().After(deadline) {
			t.Fatal("the old certificate is served two minutes after the new one was written")
		}
	}
	if code := asks(next); code != codes.Unavailable {
		t.Errorf("a client of a CA that is not ours yet: %v", code)
	}
	text, err := os.ReadFile(next.file("ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(ours.file("ca.crt"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	if code := asks(next); code != codes.OK {
		t.Errorf("a client of the new CA: %v", code)
	}
	if code := asks(ours); code != codes.Unavailable {
		t.Errorf("a client of the CA that was: %v", code)
	}
}
