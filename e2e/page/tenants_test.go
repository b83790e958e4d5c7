// Package page tests which namespaces a user may see on gpuscaler's web page, with TokenReview and SubjectAccessReview of the real API
// server.
package page

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscaler/gpuscaler/e2e/chart"
	"github.com/gpuscaler/gpuscaler/e2e/controller"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
	"github.com/gpuscaler/gpuscaler/e2e/workload"
	"github.com/gpuscaler/gpuscaler/pkg/dashboard/explain"
)

var (
	suite   controller.Suite
	address string // address at which gpuscaler serves the web page to tenants
	ca      string // path of the file with the CA of the page's certificate
)

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (int, error) {
	dir, err := os.MkdirTemp("", "gpuscaler-page")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	pem, key, err := cert.GenerateSelfSignedCertKey("localhost", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	if err != nil {
		return 1, err
	}
	ca = filepath.Join(dir, "tls.crt")
	for file, text := range map[string][]byte{ca: pem, filepath.Join(dir, "tls.key"): key} {
		if err := os.WriteFile(file, text, 0o600); err != nil {
			return 1, err
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 1, err
	}
	address = l.Addr().String()
	l.Close()
	return suite.Run(m, controller.Setup{
		Nodes: 2,
		Controller: controller.Options{Args: []string{
			"--tenant-page-address=" + address, "--tenant-page-cert-file=" + ca, "--tenant-page-key-file=" + filepath.Join(dir, "tls.key"),
		}},
		Platform: func(s *stack.Stack) string {
			return fmt.Sprintf("dataSources:\n- {name: prom, type: prometheus, default: true, address: %q, interval: 1s}\n", s.Prometheus.URL)
		},
	}), nil
}

const policy = `
maxReplicas: 4
signals:
- {name: queue, type: vllm, metric: requestsWaiting, target: 10}
`

// account creates a ServiceAccount with a role in its own namespace or in the cluster, and returns its kubeconfig.
func account(t *testing.T, namespace, name string, role *rbacv1.RoleRef) (kubeconfig string) {
	t.Helper()
	meta := metav1.ObjectMeta{Namespace: namespace, Name: name}
	objects := []client.Object{&corev1.ServiceAccount{ObjectMeta: meta}}
	if role != nil {
		objects = append(objects, &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: *role,
			Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: namespace, Name: name}}})
	}
	workload.Create(t, suite.Stack.Client, objects...)
	kubeconfig, err := suite.Stack.ServiceAccountKubeconfig(t.Context(), namespace, name)
	if err != nil {
		t.Fatal(err)
	}
	return kubeconfig
}

// token creates a ServiceAccount and returns the path of a file with its token. If may is true, the ServiceAccount may get the HPAs of its
// namespace.
func token(t *testing.T, namespace, name string, may bool) (file string) {
	t.Helper()
	var role *rbacv1.RoleRef
	if may {
		role = &rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name}
		workload.Create(t, suite.Stack.Client, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			Rules: []rbacv1.PolicyRule{{APIGroups: []string{"autoscaling"}, Resources: []string{"horizontalpodautoscalers"},
				Verbs: []string{"get"}}}})
	}
	config, err := clientcmd.LoadFromFile(account(t, namespace, name, role))
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), name)
	for _, user := range config.AuthInfos {
		if err := os.WriteFile(file, []byte(user.Token), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return file
}

func TestTenantSeesOnlyNamespacesWithPermissionToGetHPAs(t *testing.T) {
	chat, coded := suite.Namespace(t, "team-chat"), suite.Namespace(t, "team-code")
	llama := suite.Workload(t, workload.Deployment(chat, "llama", 1), policy)
	codestral := suite.Workload(t, workload.Deployment(coded, "codestral", 1), policy)
	anna, bob := token(t, chat, "anna", true), token(t, chat, "bob", false)
	forged := filepath.Join(t.TempDir(), "forged")
	if err := os.WriteFile(forged, []byte("eyJhbGciOiJub25lIn0.eyJzdWIiOiJyb290In0."), 0o600); err != nil {
		t.Fatal(err)
	}
	ask := func(ctx context.Context, file string, args ...string) string {
		args = append(append([]string{"explain"}, args...), "--server=https://"+address, "--certificate-authority="+ca)
		if file != "" {
			args = append(args, "--token-file="+file)
		}
		text, err := suite.CLI(ctx, args...)
		if err != nil {
			text += err.Error()
		}
		return text
	}
	stack.Eventually(t, time.Minute, "the page on loopback has both policies", func(ctx context.Context) error {
		text, err := suite.CLI(ctx, "explain", "--server", suite.PageURL())
		if err == nil && !(strings.Contains(text, llama.Policy()) && strings.Contains(text, codestral.Policy())) {
			err = fmt.Errorf("it shows\n%s", text)
		}
		return err
	})
	for _, c := range []struct {
		who, file string
		ask       []string
		shows     string
		hides     string
	}{
		{"anna, the list", anna, nil, llama.Policy(), codestral.Policy()},
		{"anna, her own", anna, []string{llama.Policy()}, llama.Policy() + "  ", "no policy"},
		{"anna, another's", anna, []string{codestral.Policy()}, "no policy " + codestral.Policy(), "queue"},
		{"bob, who may get no HPA", bob, nil, "POLICY", llama.Policy()},
		{"bob, anna's", bob, []string{llama.Policy()}, "no policy " + llama.Policy(), "queue"},
		{"a forged token", forged, nil, "does not accept your token", llama.Policy()},
		{"no token", "", nil, "does not accept your token", llama.Policy()},
	} {
		text := ask(t.Context(), c.file, c.ask...)
		if !strings.Contains(text, c.shows) || strings.Contains(text, c.hides) {
			t.Errorf("%s sees\n%s\nwant %q and not %q", c.who, text, c.shows, c.hides)
		}
	}
}

// `gpuscaler explain` must work through the external metrics API for a user who has only a kubeconfig: the user does not have the address
// of the web page and may not access gpuscaler's pods.
func TestUserWithTheViewRoleMayUseExplain(t *testing.T) {
	if err := chart.Apply(t.Context(), suite.Stack.Client, chart.Release{Name: controller.Name, Namespace: controller.Namespace},
		"explain.yaml"); err != nil {
		t.Fatal(err)
	}
	ns, other := suite.Namespace(t, "viewed"), suite.Namespace(t, "not-viewed")
	s := suite.Workload(t, workload.Deployment(ns, "llama", 1), policy)
	stranger := suite.Workload(t, workload.Deployment(other, "codestral", 1), policy)
	kubeconfig := account(t, ns, "viewer", &rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole",
		Name: "gpuscaler:" + controller.Name + ":explain"})

	stack.Eventually(t, time.Minute, "explain answers through the API server", func(ctx context.Context) error {
		text, err := suite.CLI(ctx, "explain", s.Policy(), "--kubeconfig", kubeconfig)
		if err == nil && !strings.HasPrefix(text, s.Policy()+"  ") {
			err = fmt.Errorf("it prints\n%s", text)
		}
		return err
	})
	text, err := suite.CLI(t.Context(), "explain", stranger.Policy(), "--kubeconfig", kubeconfig)
	if err == nil || !strings.Contains(err.Error(), "get gpuscaler-explain.external.metrics.k8s.io") {
		t.Errorf("another namespace's: %v\n%s", err, text)
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	const group = "/apis/external.metrics.k8s.io/v1beta1/namespaces/"
	raw, err := kube.RESTClient().Get().AbsPath(group + ns + "/gpuscaler-explain/llama").DoRaw(t.Context()) // like kubectl get --raw
	var e explain.Explanation
	if err != nil || json.Unmarshal(raw, &e) != nil || e.Policy != s.Policy() {
		t.Errorf("raw: %v\n%s", err, raw)
	}
	if raw, err := kube.RESTClient().Get().AbsPath(group + other + "/gpuscaler-explain").DoRaw(t.Context()); !apierrors.IsForbidden(err) {
		t.Errorf("raw request for another namespace: %v\n%s", err, raw)
	}
}
