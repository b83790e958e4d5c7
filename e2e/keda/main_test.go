package keda

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/gpuscaler/gpuscaler/e2e/controller"
	"github.com/gpuscaler/gpuscaler/e2e/leaderproxy"
	"github.com/gpuscaler/gpuscaler/e2e/record"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
)

var (
	suite  controller.Suite
	keda   *Keda
	redis  string             // address of the Redis server
	scaler *leaderproxy.Proxy // proxy to gpuscaler's external scaler
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	// In this package clients list objects before they watch them, as clients before Kubernetes 1.34 do. In the other packages they use
	// streaming lists.
	os.Setenv("KUBE_FEATURE_WatchListClient", "false")
	log.SetLogger(logr.Discard()) // discards the client's warnings about KEDA's finalizers
	// The certificates are in a separate directory, because the flags contain their path and are needed before the stack has a directory.
	certificates, err := os.MkdirTemp("", "gpuscaler-scaler-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(certificates)
	file := func(name string) string { return filepath.Join(certificates, name) }
	return suite.Run(m, controller.Setup{
		Stack: stack.Options{ControllerManager: []string{record.LogsSyncs}},
		Nodes: 16,
		Controller: controller.Options{
			Args: []string{
				controller.ScalerFlag(), "--scaler-tls-cert-file=" + file("gpuscaler.crt"), "--scaler-tls-private-key-file=" + file("gpuscaler.key"),
				"--scaler-client-ca-file=" + file("ca.crt"), "--scaler-client-names=" + OperatorName,
			},
			PolicyStatusIn: []string{statusNamespace},
			Values: map[string]any{
				"mode": "keda", "keda": map[string]any{"manage": true},
				"readExternalMetrics": []any{"s1-redis-signal-jobs", "s1-redis-readme-jobs", "s0-redis-import-jobs", "s1-redis-import-jobs",
					"s0-redis-advisory-jobs"},
			},
		},
		Prepare: func(ctx context.Context, s *stack.Stack) (err error) {
			if redis, err = s.Redis(ctx); err != nil {
				return err
			}
			if err := issue(s, certificates); err != nil {
				return err
			}
			keda, err = Start(ctx, s, Options{})
			return err
		},
		Ready: func(ctx context.Context, c *controller.Controller) (err error) {
			if scaler, err = c.Scaler(ctx); err != nil {
				return err
			}
			return authenticate(ctx, c, "gpuscaler", OperatorName)
		},
		Platform: func(s *stack.Stack) string {
			return fmt.Sprintf(`
dataSources:
- {name: prom, type: prometheus, default: true, address: "%s", interval: 1s}
- {name: jobs, type: redis, address: "%s", interval: 500ms}
- {name: triggers, type: external, interval: 1s}
capacityGroups:
- {name: batch, resource: nvidia.com/gpu, nodePools: {spot: batch-spot}}
teams:
- {name: status, namespaces: [%s], policyStatus: true}
- {name: batch, namespaces: [key-capacity-group], capacityGroups: [batch]}
`, s.Prometheus.URL, redis, statusNamespace)
		},
	})
}

// issue writes the certificate of gpuscaler's external scaler, and the CA certificate that the scaler uses to verify KEDA's client
// certificate.
func issue(s *stack.Stack, dir string) error {
	if _, _, err := s.CA.IssueFiles(stack.Identity{User: "gpuscaler", DNS: []string{"gpuscaler-scaler.gpuscaler-system.svc"}},
		filepath.Join(dir, "gpuscaler")); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "ca.crt"), s.CA.PEM, 0o600)
}

// authenticate creates a ClusterTriggerAuthentication with a client certificate for the given name, from the manifest that the CLI prints
// for the chart's Secret.
func authenticate(ctx context.Context, c *controller.Controller, name, dns string) error {
	cert, key, err := c.Stack.CA.Issue(stack.Identity{User: name, DNS: []string{dns}})
	if err != nil {
		return err
	}
	encode := base64.StdEncoding.EncodeToString
	file := filepath.Join(c.Stack.Dir, name+"-secret.yaml")
	secret := fmt.Sprintf(`
apiVersion: v1
kind: Secret
metadata: {name: gpuscaler-scaler-client, namespace: gpuscaler-system}
type: kubernetes.io/tls
data: {ca.crt: %s, tls.crt: %s, tls.key: %s}
`, encode(c.Stack.CA.PEM), encode(cert), encode(key))
	if err := os.WriteFile(file, []byte(secret), 0o600); err != nil {
		return err
	}
	manifest, err := c.CLI(ctx, "manifests", "triggerauthentication", file, "--name", name, "--namespace", Namespace)
	if err != nil {
		return err
	}
	return Apply(ctx, c.Stack.Client, manifest)
}
