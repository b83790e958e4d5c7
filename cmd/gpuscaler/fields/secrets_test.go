package fields_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// secrets is a folder of mounted files. The folder's path replaces the placeholder SECRETS in a document.
type secrets struct {
	dir    string
	ca     *x509.CertPool
	server tls.Certificate
}

// authority is a certificate authority.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func newAuthority(name string) authority {
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour),
		IsCA:     true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	return authority{must(x509.ParseCertificate(must(x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)))), key}
}

func (a authority) issue(name string) (certificate, key []byte) {
	private := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	template := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter:    time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"server.example"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	der := must(x509.CreateCertificate(rand.Reader, template, a.cert, &private.PublicKey, a.key))
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY",
		Bytes: must(x509.MarshalECPrivateKey(private))})
}

func newSecrets(t *testing.T) *secrets {
	t.Helper()
	s := &secrets{dir: t.TempDir(), ca: x509.NewCertPool()}
	write := func(name string, text []byte) {
		if err := os.WriteFile(filepath.Join(s.dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	good, other := newAuthority("good"), newAuthority("other")
	write("ca", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: good.cert.Raw}))
	write("other-ca", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: other.cert.Raw}))
	for _, name := range []string{"a", "b"} {
		certificate, key := good.issue("client-" + name)
		write("cert-"+name, certificate)
		write("key-"+name, key)
	}
	for name, text := range map[string]string{"secret": "secret", "other": "other", "user": "u1", "user2": "u2"} {
		write(name, []byte(text))
	}
	write("aws", []byte("[default]\naws_access_key_id = AKIDDEFAULT\naws_secret_access_key = s\n[second]\naws_access_key_id = "+
		"AKIDSECOND\naws_secret_access_key = s\n"))
	certificate, key := good.issue("server")
	s.server = must(tls.X509KeyPair(certificate, key))
	s.ca.AddCert(good.cert)
	return s
}

// config returns a server configuration that accepts TLS 1.2 at most and requests client certificates.
func (s *secrets) config() *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{s.server}, ClientCAs: s.ca, ClientAuth: tls.VerifyClientCertIfGiven,
		MaxVersion: tls.VersionTLS12}
}

// identity returns the name in a client's certificate.
func identity(c *tls.ConnectionState) string {
	if c == nil || len(c.PeerCertificates) == 0 {
		return "no certificate"
	}
	return c.PeerCertificates[0].Subject.CommonName
}

// secretly polls like queries. It also has the mounted files of newSecrets, a Prometheus server with TLS, a proxy, an OAuth 2 token server
// and a server for AWS STS.
func secretly(t *testing.T, d docSet) []string {
	s, files := openSources(t), newSecrets(t)
	s.replaces = append(s.replaces, "SECRETS", files.dir)
	behind := s.prometheus(t, "tls", strings.Split(s.replaces[1], " ")[0])
	encrypted := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.write("tls: %s by HTTP/%d", identity(r.TLS), r.ProtoMajor)
		behind.ServeHTTP(w, r)
	}))
	encrypted.TLS, encrypted.EnableHTTP2 = files.config(), true
	encrypted.StartTLS()
	s.replaces = append(s.replaces, "https://prom:9090", s.serve(t, encrypted))
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		s.write("by proxy")
		http.Error(w, "no", http.StatusBadGateway)
	}))
	s.replaces = append(s.replaces, "http://proxy:3128", s.serve(t, proxy))
	issue := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		id, secret, _ := r.BasicAuth()
		s.write("token %s for %s %s, scope %s, resource %s, by %s", r.URL.Path, id, secret, r.Form.Get("scope"), r.Form.Get("resource"),
			identity(r.TLS))
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"access_token":"from-oauth","token_type":"Bearer","expires_in":3600}`)
	})
	tokens := httptest.NewUnstartedServer(issue)
	tokens.TLS = files.config()
	tokens.StartTLS()
	s.replaces = append(s.replaces, "https://idp:443", s.serve(t, tokens), "http://idp:80", s.serve(t, httptest.NewServer(issue)))
	return s.poll(t, d)
}

// redisSecretly polls every signal of the policy once, with the files of newSecrets mounted and a Redis server that uses TLS. It returns
// the requests and the readings.
func redisSecretly(t *testing.T, d docSet) []string {
	s, files := openSources(t), newSecrets(t)
	s.replaces = append(s.replaces, "SECRETS", files.dir)
	c := files.config()
	c.VerifyConnection = func(state tls.ConnectionState) error { s.write("redis: %s", identity(&state)); return nil }
	server := must(miniredis.RunTLS(c))
	t.Cleanup(server.Close)
	_, _ = server.Push("jobs", "x")
	s.replaces = append(s.replaces, "redis-tls:6379", server.Addr())
	return s.poll(t, d)
}

// tlsProbes returns probes of the fields of the TLS block at a path.
func tlsProbes(at string, with edit, see func(*testing.T, docSet) []string) []fieldProbe {
	trust := joined(with, edit{at + ".ca_file": "SECRETS/ca"})
	mutual := joined(trust, edit{at + ".cert_file": "SECRETS/cert-a", at + ".key_file": "SECRETS/key-a"})
	return []fieldProbe{
		{field: at + ".ca_file", was: "SECRETS/ca", is: "SECRETS/other-ca", with: with, see: see},
		{field: at + ".cert_file", is: "SECRETS/cert-b", with: mutual, also: edit{at + ".key_file": "SECRETS/key-b"}, see: see},
		{field: at + ".key_file", is: "SECRETS/key-b", with: mutual, see: see},
		{field: at + ".server_name", was: "server.example", is: "wrong.example", with: trust, see: see},
		{field: at + ".min_version", was: "TLS12", is: "TLS13", with: trust, see: see},
		{field: at + ".insecure_skip_verify", was: false, is: true, with: with, see: see},
	}
}

// sourceProbes returns a probe for each field with connection settings of a data source (see fieldProbe).
func sourceProbes(t *testing.T) []fieldProbe {
	const at = "platform spec.dataSources[1]."
	query := joined(source(prom("prom"), "type", "prometheus", "metric", "queue_size"), nil)
	encrypted := joined(query, edit{at + "address": "https://prom:9090"})
	token := edit{at + "http.oauth2.client_id": "id", at + "http.oauth2.client_secret_file": "SECRETS/secret"}
	oauth := joined(joined(query, token), edit{at + "http.oauth2.token_url": "http://idp:80/token"})
	all := []fieldProbe{
		{field: at + "http.basic_auth.username", was: "u1", is: "u2", with: joined(query,
			edit{at + "http.basic_auth.password_file": "SECRETS/secret"}), see: secretly},
		{field: at + "http.basic_auth.username_file", was: "SECRETS/user", is: "SECRETS/user2", with: joined(query,
			edit{at + "http.basic_auth.password_file": "SECRETS/secret"}), see: secretly},
		{field: at + "http.basic_auth.password_file", was: "SECRETS/secret", is: "SECRETS/other", with: joined(query,
			edit{at + "http.basic_auth.username": "u1"}), see: secretly},
		{field: at + "http.authorization.type", was: "Bearer", is: "Token", with: joined(query,
			edit{at + "http.authorization.credentials_file": "SECRETS/secret"}), see: secretly},
		{field: at + "http.authorization.credentials_file", was: "SECRETS/secret", is: "SECRETS/other", with: query, see: secretly},
		{field: at + "http.enable_http2", was: true, is: false, with: joined(encrypted, edit{at + "http.tls_config.ca_file": "SECRETS/ca"}),
			see: secretly},
		{field: at + "http.follow_redirects", was: false, is: true, with: query, see: refusals},
		{field: at + "http.proxy_url", is: "http://proxy:3128", with: joined(query, edit{at + "address": "http://prom.example:9090"}),
			see: secretly},
		{field: at + "http.no_proxy", is: "prom.example", with: joined(query, edit{at + "address": "http://prom.example:9090",
			at + "http.proxy_url": "http://proxy:3128"}), see: secretly},
		{field: at + "http.oauth2.client_id", is: "other", with: oauth, see: secretly},
		{field: at + "http.oauth2.client_secret_file", is: "SECRETS/other", with: oauth, see: secretly},
		{field: at + "http.oauth2.token_url", is: "http://idp:80/other", with: oauth, see: secretly},
		{field: at + "http.oauth2.scopes", is: []any{"read"}, with: oauth, see: secretly},
		{field: at + "http.oauth2.endpoint_params", is: fields("resource", "r"), with: oauth, see: secretly},
	}
	all = append(all, tlsProbes(at+"http.tls_config", encrypted, secretly)...)
	all = append(all, tlsProbes(at+"http.oauth2.tls_config", joined(joined(query, token),
		edit{at + "http.oauth2.token_url": "https://idp:443/token"}), secretly)...)
	redis := joined(source(nil, "type", "redis", "source", "jobs", "listName", "jobs"),
		edit{"platform spec.dataSources[0].address": "redis-tls:6379"})
	all = append(all, tlsProbes("platform spec.dataSources[0].tls", redis, redisSecretly)...)
	return append(all, awsProbes(t, query)...)
}

// awsProbes returns a probe for each field that configures the signature of requests to Amazon Managed Prometheus (see fieldProbe). The AWS
// SDK reads its other settings from environment variables, which awsProbes sets for the whole test.
func awsProbes(t *testing.T, query edit) []fieldProbe {
	const at = "platform spec.dataSources[1].sigv4."
	dir := newSecrets(t).dir
	calls := &journal{}
	sts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		calls.write("%s %s", r.Form.Get("RoleArn"), r.Form.Get("ExternalId"))
		fmt.Fprintf(w, `<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult><Credentials>`+
			`<AccessKeyId>AKID%s%s</AccessKeyId><SecretAccessKey>s</SecretAccessKey><SessionToken>t</SessionToken>`+
			`<Expiration>%s</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>`,
			r.Form.Get("RoleArn")[len(r.Form.Get("RoleArn"))-1:], r.Form.Get("ExternalId"), time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
	}))
	t.Cleanup(sts.Close)
	for name, value := range map[string]string{"AWS_SHARED_CREDENTIALS_FILE": filepath.Join(dir, "aws"), "AWS_CONFIG_FILE": "/nowhere",
		"AWS_ENDPOINT_URL_STS":      sts.URL,
		"AWS_EC2_METADATA_DISABLED": "true", "AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "AWS_REGION": "", "AWS_PROFILE": ""} {
		t.Setenv(name, value)
	}
	region := joined(query, edit{at + "region": "us-east-1"})
	role := joined(region, edit{at + "role_arn": "arn:aws:iam::1:role/a"})
	signed := func(t *testing.T, d docSet) (out []string) {
		for _, line := range secretly(t, d) {
			line, _, _ = strings.Cut(line, "SignedHeaders") // the rest of the line depends on the time
			out = append(out, line)
		}
		return out
	}
	return []fieldProbe{
		{field: at + "region", is: "eu-central-1", with: region, see: signed},
		{field: at + "service_name", is: "other", with: region, see: signed},
		{field: at + "profile", is: "second", with: region, see: signed},
		{field: at + "role_arn", is: "arn:aws:iam::1:role/b", with: role, see: signed},
		{field: at + "external_id", is: "x", with: role, see: signed},
		{field: at + "use_fips_sts_endpoint", is: true, with: role, see: signed},
	}
}
