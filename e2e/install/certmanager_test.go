package install

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscaler/gpuscaler/e2e/components"
	"github.com/gpuscaler/gpuscaler/e2e/kubelet"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
)

// cert-manager's controllers issue the certificates that the chart requests: a CA, a serving certificate, and a new serving certificate
// after its Secret is deleted. The API server must trust each serving certificate, and no pod may restart.
func TestCertManagerIssuesCertificatesThatTheAPIServerTrusts(t *testing.T) {
	serve(t, "cert-manager.io", "certificates")
	serve(t, "cert-manager.io", "issuers")
	serve(t, "cert-manager.io", "certificaterequests")
	paths, err := components.Ensure(t.Context(), os.Stderr, "cert-manager")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cluster.Run(stack.Command{Name: "cert-manager", Path: paths["cert-manager"],
		Args: []string{"--kubeconfig", cluster.Kubeconfig}}); err != nil {
		t.Fatal(err)
	}

	h := newHelm(t, restricted(t, "certified"))
	machine := newHost(t, h.namespace)
	machine.serving = filepath.Join(cluster.Dir, "serving-"+h.namespace)
	if err := os.MkdirAll(machine.serving, 0o755); err != nil {
		t.Fatal(err)
	}
	h.edit = edits(machine.edit)
	pods := kubelet.Run(t.Context(), cluster)
	defer dump(t, pods, h.namespace)
	h.install("gpuscaler", map[string]any{
		"mode": "hpa", "certificates": map[string]any{"source": "cert-manager"}, "platform": map[string]any{"cluster": "e2e"},
		"files": map[string]any{"chat.yaml": always}, "leaderElection": map[string]any{"duration": "6s"},
	})
	machine.mount(t, h.namespace)
	first := machine.mountCertificate(t, h.namespace, nil)
	reached := func(ctx context.Context) error {
		return cluster.APIServiceAvailable(ctx, "external.metrics.k8s.io", "v1beta1")
	}
	stack.Eventually(t, 2*time.Minute, "two replicas with cert-manager's certificate", available(h.namespace, 2))
	stack.Eventually(t, time.Minute, "registered and trusted", reached)

	// cert-manager issues another certificate when the Secret is deleted. mountCertificate then updates the files at once. A kubelet needs
	// up to a minute for this.
	secret := &corev1.Secret{}
	secret.Namespace, secret.Name = h.namespace, "gpuscaler-serving"
	if err := cluster.Client.Delete(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	second := machine.mountCertificate(t, h.namespace, first)
	stack.Eventually(t, 2*time.Minute, "the renewed certificate is served", func(ctx context.Context) error {
		if err := servedBy(machine.port, second); err != nil {
			return err
		}
		return reached(ctx)
	})
	for _, p := range podsOf(t, h.namespace) {
		if n := p.Status.ContainerStatuses[0].RestartCount; n > 0 {
			t.Errorf("%s restarted %d times", p.Name, n)
		}
	}
	h.uninstall("gpuscaler", false)
}

// mountCertificate does the work of the kubelet: it waits until the Secret contains a certificate other than last, writes the files of
// the Secret, and returns the certificate.
func (h host) mountCertificate(t *testing.T, namespace string, last []byte) []byte {
	t.Helper()
	var secret corev1.Secret
	stack.Eventually(t, time.Minute, "a certificate is issued", func(ctx context.Context) error {
		if err := cluster.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "gpuscaler-serving"}, &secret); err != nil {
			return err
		}
		if len(secret.Data["ca.crt"]) == 0 || len(secret.Data["tls.key"]) == 0 || bytes.Equal(secret.Data["tls.crt"], last) {
			return fmt.Errorf("not issued yet")
		}
		return nil
	})
	block, _ := pem.Decode(secret.Data["tls.crt"])
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	if err := certificate.VerifyHostname("gpuscaler." + namespace + ".svc"); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"ca.crt", "tls.key", "tls.crt"} { // tls.crt is last, because the container waits for it
		staged := filepath.Join(h.serving, "."+name)
		if err := os.WriteFile(staged, secret.Data[name], 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(staged, filepath.Join(h.serving, name)); err != nil {
			t.Fatal(err)
		}
	}
	return secret.Data["tls.crt"]
}

// servedBy returns an error unless the server behind the port of the proxy presents the certificate want.
func servedBy(port string, want []byte) error {
	// The client does not verify the certificate, because the code below compares the certificate with want.
	c, err := tls.Dial("tcp", net.JoinHostPort("127.0.0.1", port), &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		return err
	}
	defer c.Close()
	block, _ := pem.Decode(want)
	if !bytes.Equal(c.ConnectionState().PeerCertificates[0].Raw, block.Bytes) {
		return fmt.Errorf("another certificate is served")
	}
	return nil
}
