package install

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/karpenter/pkg/apis"

	"github.com/gpuscaler/gpuscaler/e2e/audit"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
)

var (
	cluster *stack.Stack
	// requests is the audit log of the chart's ServiceAccount.
	requests audit.Log
)

func TestMain(m *testing.M) {
	utilruntime.Must(apiextensionsv1.AddToScheme(stack.Scheme))
	os.Exit(run(m))
}

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
	if err := cluster.Namespace(t.Context(), name); err != nil { // waits until it has its ServiceAccount
		t.Fatal(err)
	}
	return name
}

// modules contains the Go modules with the CRDs of each API group. Karpenter's CRDs are not in the list, because a package that the test
// imports contains them.
var modules = map[string]struct{ module, files string }{
	"keda.sh":                     {"github.com/kedacore/keda/v2@v2.21.0", "config/crd/bases/*.yaml"},
	"monitoring.coreos.com":       {"github.com/prometheus-operator/prometheus-operator@v0.92.0", "example/prometheus-operator-crd/*.yaml"},
	"cert-manager.io":             {"github.com/cert-manager/cert-manager@v1.19.1", "deploy/crds/cert-manager.io_*.yaml"},
	"argoproj.io":                 {"github.com/argoproj/argo-cd/v2@v2.14.11", "manifests/crds/application-crd.yaml"},
	"kustomize.toolkit.fluxcd.io": {"github.com/fluxcd/kustomize-controller@v1.6.0", "config/crd/bases/*.yaml"},
}

// serve installs the CRDs of a group and waits until the API server serves them.
func serve(t *testing.T, group, resource string) {
	t.Helper()
	crds := apis.CRDs
	if source, ok := modules[group]; ok {
		crds = definitions(t, source.module, source.files)
	}
	for _, crd := range crds {
		if err := client.IgnoreAlreadyExists(cluster.Client.Create(t.Context(), crd.DeepCopy())); err != nil {
			t.Fatalf("%s: %v", crd.Name, err)
		}
	}
	stack.Eventually(t, time.Minute, resource+"."+group+" is served", func(ctx context.Context) error {
		var crd apiextensionsv1.CustomResourceDefinition
		if err := cluster.Client.Get(ctx, client.ObjectKey{Name: resource + "." + group}, &crd); err != nil {
			return err
		}
		for _, c := range crd.Status.Conditions {
			if c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue {
				return nil
			}
		}
		return errors.New("not established")
	})
}

// definitions reads the CRDs in a Go module.
func definitions(t *testing.T, module, files string) (crds []*apiextensionsv1.CustomResourceDefinition) {
	t.Helper()
	download := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", module)
	download.Dir = t.TempDir()
	text, err := download.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", module, err, text)
	}
	var at struct{ Dir string }
	if err := json.Unmarshal(text, &at); err != nil {
		t.Fatal(err)
	}
	paths, err := filepath.Glob(filepath.Join(at.Dir, files))
	if err != nil || len(paths) == 0 {
		t.Fatalf("%s: no %s (%v)", module, files, err)
	}
	for _, path := range paths {
		crds = append(crds, readAll[apiextensionsv1.CustomResourceDefinition](t, path)...)
	}
	return crds
}

// readAll reads the documents of a YAML file.
func readAll[T any](t *testing.T, path string) (all []*T) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	documents := utilyaml.NewYAMLOrJSONDecoder(f, 4096)
	for {
		o := new(T)
		if err := documents.Decode(o); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		all = append(all, o)
	}
}
