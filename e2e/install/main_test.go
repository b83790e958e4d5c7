package install

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/karpenter/pkg/apis"

	"github.com/gpuscaler/gpuscaler/e2e/audit"
	"github.com/gpuscaler/gpuscaler/e2e/definitions"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
)

var (
	cluster *stack.Stack
	// requests is the audit log of the chart's ServiceAccount.
	requests audit.Log
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	var err error
	if requests, err = audit.New("system:serviceaccount:gpuscaler-system:gpuscaler"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer requests.Close()
	s, err := stack.Up(context.Background(), stack.Options{
		APIServer:         requests.Flags(),
		ControllerManager: []string{"--kube-api-qps=300", "--kube-api-burst=600"}, Scheduler: []string{"--kube-api-qps=300",
			"--kube-api-burst=600"},
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer s.Stop()
	if err := s.Nodes(context.Background(), "cpu", 3, 0); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	cluster = s
	code := m.Run()
	if code != 0 {
		s.Keep()
	}
	return code
}

// bare replaces the shared cluster by a new one until the end of the test. The new cluster serves only the APIs of Kubernetes itself.
func bare(t *testing.T) {
	t.Helper()
	shared := cluster
	cluster = stack.Start(t, stack.Options{})
	t.Cleanup(func() { cluster = shared })
	if err := cluster.Nodes(t.Context(), "cpu", 3, 0); err != nil {
		t.Fatal(err)
	}
}

// restricted creates a namespace that enforces Pod Security restricted.
func restricted(t *testing.T, name string, labels ...string) string {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
		"pod-security.kubernetes.io/enforce": "restricted", "pod-security.kubernetes.io/enforce-version": "latest",
	}}}
	for i := 0; i+1 < len(labels); i += 2 {
		ns.Labels[labels[i]] = labels[i+1]
	}
	if err := cluster.Client.Create(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	if err := cluster.Namespace(t.Context(), name); err != nil { // waits until the namespace has its ServiceAccount
		t.Fatal(err)
	}
	return name
}

// modules contains the Go modules with the CRDs of each API group. It omits Karpenter's CRDs, because a package that the test imports
// contains them.
var modules = map[string]struct{ module, files string }{
	"keda.sh":                     {"github.com/kedacore/keda/v2@v2.21.0", "config/crd/bases/*.yaml"},
	"monitoring.coreos.com":       {"github.com/prometheus-operator/prometheus-operator@v0.92.0", "example/prometheus-operator-crd/*.yaml"},
	"cert-manager.io":             {"github.com/cert-manager/cert-manager@v1.19.1", "deploy/crds/cert-manager.io_*.yaml"},
	"argoproj.io":                 {"github.com/argoproj/argo-cd/v2@v2.14.11", "manifests/crds/application-crd.yaml"},
	"kustomize.toolkit.fluxcd.io": {"github.com/fluxcd/kustomize-controller@v1.6.0", "config/crd/bases/*.yaml"},
}

// serve installs the CRDs of an API group and waits until the API server serves them.
func serve(t *testing.T, group, resource string) {
	t.Helper()
	crds := apis.CRDs
	if source, ok := modules[group]; ok {
		crds = definitions.Read(t, source.module, source.files)
	}
	if !slices.ContainsFunc(crds, func(crd *apiextensionsv1.CustomResourceDefinition) bool { return crd.Name == resource+"."+group }) {
		t.Fatalf("the module has no CRD of %s.%s", resource, group)
	}
	definitions.Install(t, cluster.Client, crds...)
}
