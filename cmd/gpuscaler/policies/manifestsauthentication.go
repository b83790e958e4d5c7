package policies

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// authenticationOptions are the flags of `gpuscaler manifests triggerauthentication`.
type authenticationOptions struct {
	name, namespace, kind string
}

func manifestsAuthenticationCommand() *cobra.Command {
	o := authenticationOptions{}
	c := &cobra.Command{
		Use:   "triggerauthentication SECRET",
		Short: "Print the TriggerAuthentication and the Secret with which KEDA connects to gpuscaler",
		Long: `Print the ClusterTriggerAuthentication that the triggers of ScaledObjects name, and the Secret that it reads:
the CA of gpuscaler's certificate and, if SECRET has one, the client certificate of KEDA.

SECRET is a file with the Secret that has ca.crt, and tls.crt and tls.key of the client; - reads standard input.
The chart creates it as gpuscaler-scaler-client. gpuscaler itself reads no Secret: kubectl reads it with your rights.

KEDA reads the Secret of a ClusterTriggerAuthentication in its own namespace. A TriggerAuthentication is in the
ScaledObject's namespace; an account that may read Secrets there can then read the targets of all namespaces.`,
		Example: `  kubectl -n gpuscaler-system get secret gpuscaler-scaler-client -o yaml |
    gpuscaler manifests triggerauthentication - --namespace keda | kubectl apply --server-side -f -`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			in := c.InOrStdin()
			if args[0] != "-" {
				f, err := os.Open(args[0])
				if err != nil {
					return err
				}
				defer f.Close()
				in = f
			}
			text, err := io.ReadAll(io.LimitReader(in, 2<<20)) // a Secret contains at most 1 MiB of data, which is less than 2 MiB in base64
			if err != nil {
				return err
			}
			manifest, err := o.manifest(text, time.Now())
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			_, err = c.OutOrStdout().Write(manifest)
			return err
		},
	}
	c.Flags().StringVar(&o.name, "name", "gpuscaler", "name of the TriggerAuthentication and of its Secret")
	c.Flags().StringVarP(&o.namespace, "namespace", "n", "keda",
		"namespace of the Secret: KEDA's own, or with --kind TriggerAuthentication the ScaledObject's")
	c.Flags().StringVar(&o.kind, "kind", "ClusterTriggerAuthentication", "ClusterTriggerAuthentication or TriggerAuthentication")
	return c
}

// parameters maps the parameters of KEDA's external scaler to the keys of a kubernetes.io/tls Secret.
var parameters = []struct{ parameter, key string }{{"caCert", "ca.crt"}, {"tlsClientCert", "tls.crt"}, {"tlsClientKey", "tls.key"}}

// secretReference is one entry of a TriggerAuthentication's secretTargetRef.
type secretReference struct {
	Parameter string `json:"parameter"`
	Name      string `json:"name"`
	Key       string `json:"key"`
}

func (o *authenticationOptions) manifest(text []byte, now time.Time) ([]byte, error) {
	var from corev1.Secret
	if err := yaml.Unmarshal(text, &from); err != nil {
		return nil, fmt.Errorf("not a Secret: %w", err)
	}
	if from.Kind != "Secret" {
		return nil, fmt.Errorf("kind: found %q; allowed: Secret", from.Kind)
	}
	if err := checkPair(&from, now); err != nil {
		return nil, fmt.Errorf("%s %s/%s: %w", from.Kind, from.Namespace, from.Name, err)
	}
	secret := corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: metav1.ObjectMeta{Name: o.name, Namespace: o.namespace},
		Type: corev1.SecretTypeOpaque, Data: map[string][]byte{},
	}
	authentication := struct {
		metav1.TypeMeta `json:",inline"`
		Metadata        map[string]string            `json:"metadata"`
		Spec            map[string][]secretReference `json:"spec"`
	}{TypeMeta: metav1.TypeMeta{APIVersion: "keda.sh/v1alpha1",
		Kind: o.kind}, Metadata: map[string]string{"name": o.name}, Spec: map[string][]secretReference{}}
	switch o.kind {
	case "ClusterTriggerAuthentication":
	case "TriggerAuthentication":
		authentication.Metadata["namespace"] = o.namespace
	default:
		return nil, fmt.Errorf("--kind %q: use ClusterTriggerAuthentication or TriggerAuthentication", o.kind)
	}
	for _, p := range parameters {
		if value, ok := from.Data[p.key]; ok {
			secret.Data[p.key] = value
			authentication.Spec["secretTargetRef"] = append(authentication.Spec["secretTargetRef"], secretReference{p.parameter, o.name, p.key})
		}
	}
	return documents(secret, authentication)
}

// checkPair returns an error if KEDA could not connect to gpuscaler with the certificates and the key in a Secret.
func checkPair(s *corev1.Secret, now time.Time) error {
	if len(s.Data["ca.crt"]) == 0 {
		return errors.New("ca.crt: missing; KEDA needs it to verify gpuscaler's certificate")
	}
	if len(s.Data["tls.crt"]) == 0 && len(s.Data["tls.key"]) == 0 {
		return nil // KEDA sends no client certificate, so there is no pair to check
	}
	pair, err := tls.X509KeyPair(s.Data["tls.crt"], s.Data["tls.key"])
	if err != nil {
		return err
	}
	if end := pair.Leaf.NotAfter; now.After(end) {
		return fmt.Errorf("tls.crt: expired at %s; issue a new one", end.Format(time.RFC3339))
	}
	return nil
}

func documents(all ...any) ([]byte, error) {
	var texts [][]byte
	for _, o := range all {
		text, err := yaml.Marshal(o)
		if err != nil {
			return nil, err
		}
		texts = append(texts, text)
	}
	return bytes.Join(texts, []byte("---\n")), nil
}
