package externalmetrics

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"net"
	"testing"
	"time"
)

func TestCertificateIsServedOnlyWhenTrusted(t *testing.T) {
	now := nine
	s, err := newSelfSigned(90*24*time.Hour, func() time.Time { return now }, "gpuscaler.gpuscaler-system.svc")
	if err != nil {
		t.Fatal(err)
	}
	served := func() []byte { c, _ := s.CurrentCertKeyContent(); return c }
	pass := func(days int) {
		t.Helper()
		now = now.Add(time.Duration(days) * 24 * time.Hour)
		if err := s.step(now); err != nil {
			t.Fatal(err)
		}
	}
	first := served()
	pass(59)
	if !bytes.Equal(s.bundle(), first) {
		t.Error("day 59: the bundle changed before 2/3 of its life")
	}
	pass(1)
	both := s.bundle()
	if !bytes.HasPrefix(both, first) || len(both) <= len(first) {
		t.Fatal("day 60: the bundle does not hold both")
	}
	s.trusted(first) // the APIService was read before the new bundle was written to it
	pass(1)
	if !bytes.Equal(served(), first) {
		t.Fatal("day 61: served although the API server does not trust it")
	}
	s.trusted(both)
	if !bytes.Equal(served(), first) {
		t.Error("served in the same instant: another API server may not have it yet")
	}
	pass(0)
	second := served()
	if bytes.Equal(second, first) || !bytes.Equal(s.bundle(), second) {
		t.Fatal("day 61, trusted: the second is not served, or the first is still in the bundle")
	}

	pass(75) // Trusted was not called with the new bundle: the third pair is served at 5/6 of the second pair's lifetime
	if bytes.Equal(served(), second) {
		t.Error("day 136: a certificate that ends in 15 days is served")
	}
}

// The certificate has a lifetime of 15 seconds. A client that trusts the current bundle must be able to connect at any time during the
// renewal, and must receive the renewed certificate after it.
func TestRenewalDoesNotInterruptClients(t *testing.T) {
	t.Parallel()
	own, err := newSelfSigned(15*time.Second, time.Now, "localhost")
	if err != nil {
		t.Fatal(err)
	}
	certificate := Certificate{provider: own, own: own}
	_, address := run(t, ServerConfig{Certificate: certificate, Open: true})
	bundle := certificate.Bundle("")
	seen := map[string]bool{}
	for end := time.Now().Add(30 * time.Second); len(seen) < 2 && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		registered := bundle()
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(registered)
		c, err := tls.DialWithDialer(&net.Dialer{Timeout: time.Second}, "tcp", address, &tls.Config{RootCAs: pool, ServerName: "localhost"})
		if err != nil {
			t.Fatalf("after %d certificates: %v", len(seen), err)
		}
		seen[c.ConnectionState().PeerCertificates[0].SerialNumber.String()] = true
		c.Close()
		certificate.Trusted(registered)
	}
	if len(seen) < 2 {
		t.Errorf("%d certificates in 30 s of lives of 15 s", len(seen))
	}
}

func TestRenewedFilesAreServed(t *testing.T) {
	if _, err := FileCertificate("nowhere.crt", "nowhere.key"); err == nil {
		t.Error("a certificate without a file")
	}
	c := Certificate{}
	c.Trusted([]byte("anything"))
	if got := c.Bundle("nowhere")(); got != nil {
		t.Errorf("bundle %q", got)
	}
}
