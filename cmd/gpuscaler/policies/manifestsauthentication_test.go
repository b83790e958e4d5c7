package policies

import (
	"bytes"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/yaml"
)

// clientSecret returns the Secret that the chart creates for KEDA, without the given keys.
func clientSecret(t *testing.T, without ...string) []byte {
	t.Helper()
	pem, key, err := cert.GenerateSelfSignedCertKey("gpuscaler-scaler-client", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: metav1.ObjectMeta{Name: "gpuscaler-scaler-client",
			Namespace: "gpuscaler-system"},
		Data: map[string][]byte{"ca.crt": []byte("the CA"), "tls.crt": pem, "tls.key": key},
	}
	for _, k := range without {
		delete(s.Data, k)
	}
	text, err := yaml.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestTriggerAuthenticationHasKEDAsCertificate(t *testing.T) {
	for _, c := range []struct {
		name     string
		args     []string
		without  []string
		contains []string
		lacks    []string
	}{
		{"mutual TLS", nil, nil, []string{
			"kind: ClusterTriggerAuthentication\nmetadata:\n  name: gpuscaler\n", "name: gpuscaler\n  namespace: keda\n",
			"parameter: caCert", "parameter: tlsClientCert", "parameter: tlsClientKey", "ca.crt: " + "dGhlIENB",
		}, []string{"gpuscaler-system", "gpuscaler-scaler-client"}},
		{"only the server has a certificate", nil, []string{"tls.crt", "tls.key"}, []string{"parameter: caCert"}, []string{"tlsClient",
			"tls.key"}},
		{"in the namespace of a ScaledObject", []string{"--kind", "TriggerAuthentication", "-n", "team-embed", "--name", "scaler"}, nil,
			[]string{"kind: TriggerAuthentication\nmetadata:\n  name: scaler\n  namespace: team-embed\n"}, []string{"namespace: keda"}},
	} {
		var out bytes.Buffer
		command := manifestsCommand()
		command.SetIn(bytes.NewReader(clientSecret(t, c.without...)))
		command.SetOut(&out)
		command.SetArgs(append([]string{"triggerauthentication", "-"}, c.args...))
		if err := command.Execute(); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		for _, want := range c.contains {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s: no %q in\n%s", c.name, want, &out)
			}
		}
		for _, not := range c.lacks {
			if strings.Contains(out.String(), not) {
				t.Errorf("%s: %q in\n%s", c.name, not, &out)
			}
		}
	}
}

func TestSecretThatKEDACannotUseIsRefused(t *testing.T) {
	now := time.Now()
	for _, c := range []struct {
		name, kind string
		text       []byte
		at         time.Time
		want       string
	}{
		{"no CA", "ClusterTriggerAuthentication", clientSecret(t, "ca.crt"), now,
			"Secret gpuscaler-system/gpuscaler-scaler-client: ca.crt: missing"},
		{"no key", "ClusterTriggerAuthentication", clientSecret(t, "tls.key"), now, "find any PEM"},
		{"expired", "ClusterTriggerAuthentication", clientSecret(t), now.AddDate(5, 0, 0), "tls.crt: expired at"},
		{"a list of Secrets", "ClusterTriggerAuthentication", []byte("kind: List\n"), now, `kind: found "List"; allowed: Secret`},
		{"another kind", "Authentication", clientSecret(t), now, `--kind "Authentication"`},
	} {
		_, err := (&authenticationOptions{name: "gpuscaler", namespace: "keda", kind: c.kind}).manifest(c.text, c.at)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}
