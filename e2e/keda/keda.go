// Package keda runs the real KEDA on a stack: operator, metrics adapter and admission webhooks, with gpuscaler as an external scaler and
// mutual TLS.
package keda

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscaler/gpuscaler/e2e/components"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
)

const (
	// Namespace is the namespace of KEDA, in which it reads the Secrets of ClusterTriggerAuthentications.
	Namespace = "keda"
	// OperatorName is the name in the operator's certificate.
	OperatorName = "keda-operator.keda.svc"
)

// Keda is a running installation of KEDA.
type Keda struct {
	Operator, Adapter, Webhooks *stack.Process

	stack  *stack.Stack
	o      Options
	paths  components.Paths
	source string // directory with KEDA's config/
	certs  string
	ports  map[string]int
	starts int
}

// Options configure KEDA. The zero value is suitable for most tests.
type Options struct {
	Flags      []string // additional flags of the operator
	Kubeconfig string   // kubeconfig of the three programs; default: the kubeconfig of the administrator
}

// Start installs KEDA's CRDs, runs KEDA's three programs as the administrator and registers them with the API server. If the binaries do
// not exist, Start builds them.
func Start(ctx context.Context, s *stack.Stack, o Options) (*Keda, error) {
	if o.Kubeconfig == "" {
		o.Kubeconfig = s.Kubeconfig
	}
	paths, source, err := programs(ctx)
	if err != nil {
		return nil, err
	}
	k := &Keda{stack: s, o: o, paths: paths, source: source, certs: filepath.Join(s.Dir, "certificates", "keda"),
		ports: map[string]int{}}
	if err := k.writeCertificates(); err != nil {
		return nil, err
	}
	if err := s.Namespace(ctx, Namespace); err != nil {
		return nil, err
	}
	if err := k.installCRDs(ctx); err != nil {
		return nil, err
	}
	for _, name := range []string{"service", "metrics", "health", "adapter", "adapter-metrics", "webhooks", "webhooks-metrics",
		"webhooks-health"} {
		if k.ports[name], err = s.Port(); err != nil {
			return nil, err
		}
	}
	if err := k.Run(ctx); err != nil {
		return nil, err
	}
	return k, k.register(ctx)
}

// programs returns the paths of KEDA's programs and the directory that contains its config/. If the environment variable GPUSCALER_E2E_KEDA
// is set, its value is a directory with a build of another version, which programs uses instead.
func programs(ctx context.Context) (components.Paths, string, error) {
	dir := os.Getenv("GPUSCALER_E2E_KEDA")
	if dir == "" {
		paths, err := components.Ensure(ctx, os.Stderr, "keda")
		if err != nil {
			return nil, "", err
		}
		source, err := components.Source(ctx, "keda")
		return paths, source, err
	}
	paths := components.Paths{}
	for _, name := range []string{"operator", "adapter", "webhooks"} {
		paths[name] = filepath.Join(dir, name)
	}
	return paths, dir, nil
}

// Run starts the three programs. It can be called again after Kill.
func (k *Keda) Run(ctx context.Context) error {
	k.starts++
	began := time.Now()
	var g errgroup.Group
	g.Go(func() (err error) {
		k.Operator, err = k.start(ctx, "operator", "http://"+k.at("health")+"/readyz", append([]string{
			"--metrics-service-bind-address=" + k.at("service"), "--metrics-bind-address=" + k.at("metrics"),
			"--health-probe-bind-address=" + k.at("health"),
			"--enable-webhook-patching=false", "--enable-apiservice-patching=false",
		}, k.o.Flags...)...)
		return err
	})
	g.Go(func() (err error) {
		file := "--kubeconfig=" + k.o.Kubeconfig
		k.Adapter, err = k.start(ctx, "adapter", "https://"+k.at("adapter")+"/readyz",
			file, "--lister-"+file[2:], "--authentication-"+file[2:], "--authorization-"+file[2:],
			"--bind-address=127.0.0.1", "--secure-port="+strconv.Itoa(k.ports["adapter"]), "--port="+strconv.Itoa(k.ports["adapter-metrics"]),
			"--tls-cert-file="+k.certs+"/tls.crt", "--tls-private-key-file="+k.certs+"/tls.key",
			"--metrics-service-address="+k.at("service"), "--metrics-service-grpc-authority="+OperatorName)
		return err
	})
	g.Go(func() (err error) {
		k.Webhooks, err = k.start(ctx, "webhooks", "http://"+k.at("webhooks-health")+"/readyz",
			"--port="+strconv.Itoa(k.ports["webhooks"]), "--metrics-bind-address="+k.at("webhooks-metrics"),
			"--health-probe-bind-address="+k.at("webhooks-health"))
		return err
	})
	if err := g.Wait(); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "keda: ready in %s\n", time.Since(began).Round(100*time.Millisecond))
	return nil
}

// Kill kills all three programs with SIGKILL.
func (k *Keda) Kill() {
	for _, p := range []*stack.Process{k.Operator, k.Adapter, k.Webhooks} {
		p.Kill()
	}
}

// Address returns the address of KEDA's metrics adapter.
func (k *Keda) Address() string { return k.at("adapter") }

// Certificates returns the directory of the certificate tls.crt, tls.key and ca.crt of all servers and clients.
func (k *Keda) Certificates() string { return k.certs }

func (k *Keda) at(name string) string { return fmt.Sprintf("127.0.0.1:%d", k.ports[name]) }

func (k *Keda) start(ctx context.Context, name, ready string, args ...string) (*stack.Process, error) {
	p, err := k.stack.Run(stack.Command{
		Name: fmt.Sprintf("keda-%s-%d", name, k.starts), Path: k.paths[name], Args: append([]string{"--cert-dir=" + k.certs}, args...),
		Env: []string{"KUBECONFIG=" + k.o.Kubeconfig, "WATCH_NAMESPACE=", "POD_NAMESPACE=" + Namespace,
			"KEDA_CLUSTER_OBJECT_NAMESPACE=" + Namespace},
	})
	if err != nil {
		return nil, err
	}
	return p, stack.AwaitReady(ctx, p, ready)
}

// writeCertificates writes one certificate for all servers and clients of KEDA.
func (k *Keda) writeCertificates() error {
	if err := os.MkdirAll(k.certs, 0o755); err != nil {
		return err
	}
	identity := stack.Identity{User: "keda", DNS: []string{OperatorName, "keda-metrics-apiserver.keda.svc",
		"keda-admission-webhooks.keda.svc"}}
	if _, _, err := k.stack.CA.IssueFiles(identity, filepath.Join(k.certs, "tls")); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(k.certs, "ca.crt"), k.stack.CA.PEM, 0o600)
}

func (k *Keda) installCRDs(ctx context.Context) error {
	files, err := filepath.Glob(filepath.Join(k.source, "config", "crd", "bases", "*.yaml"))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("keda: no CRDs in %s: %w", k.source, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if err := Apply(ctx, k.stack.Client, string(text)); err != nil {
			return fmt.Errorf("%s: %w", filepath.Base(file), err)
		}
	}
	return stack.Poll(ctx, time.Minute, func(ctx context.Context) error { // waits until the API server serves the last CRD
		return k.stack.Client.List(ctx, objects("keda.sh/v1alpha1", "ScaledObjectList"))
	})
}

// register registers KEDA with the API server, for external metrics and as a webhook for ScaledObjects.
func (k *Keda) register(ctx context.Context) error {
	text, err := os.ReadFile(filepath.Join(k.source, "config", "webhooks", "validation_webhooks.yaml"))
	if err != nil {
		return err
	}
	var webhooks admissionv1.ValidatingWebhookConfiguration
	if err := unmarshal(text, &webhooks); err != nil {
		return err
	}
	for i := range webhooks.Webhooks {
		w := &webhooks.Webhooks[i]
		fail, url := admissionv1.Fail, "https://"+k.at("webhooks")+*w.ClientConfig.Service.Path
		w.ClientConfig = admissionv1.WebhookClientConfig{URL: &url, CABundle: k.stack.CA.PEM}
		// The test sets the failure policy Fail instead of KEDA's Ignore, so that a test fails if the webhook does not respond.
		w.FailurePolicy = &fail
	}
	if err := client.IgnoreAlreadyExists(k.stack.Client.Create(ctx, &webhooks)); err != nil {
		return err
	}
	if err := k.stack.APIService(ctx, stack.AggregatedAPI{
		Group: "external.metrics.k8s.io", Version: "v1beta1", Namespace: Namespace, Service: "keda-metrics-apiserver",
		Port: k.ports["adapter"], CABundle: k.stack.CA.PEM,
	}); err != nil {
		return err
	}
	return stack.Poll(ctx, time.Minute, func(ctx context.Context) error {
		return k.stack.APIServiceAvailable(ctx, "external.metrics.k8s.io", "v1beta1")
	})
}

// Log returns the last part of KEDA's logs, for an error message.
func (k *Keda) Log() string {
	var text strings.Builder
	for _, p := range []*stack.Process{k.Operator, k.Adapter, k.Webhooks} {
		fmt.Fprintf(&text, "--- end of %s\n%s\n", p.LogPath, p.Tail(20))
	}
	return text.String()
}
