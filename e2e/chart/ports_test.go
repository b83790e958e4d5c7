package chart

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// rendered returns the objects of a kind in a template.
func rendered[T any](t *testing.T, r Release, template, kind string) (all []T) {
	t.Helper()
	objects, err := Render(r, template)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		if o.GetKind() == kind {
			var typed T
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &typed); err != nil {
				t.Fatal(err)
			}
			all = append(all, typed)
		}
	}
	return all
}

// openTo returns, for each port, the peers that the NetworkPolicy allows to connect to this port.
func openTo(t *testing.T, r Release) map[int32]string {
	t.Helper()
	policies := rendered[networkingv1.NetworkPolicy](t, r, "networkpolicy.yaml", "NetworkPolicy")
	if len(policies) != 1 || !slices.Contains(policies[0].Spec.PolicyTypes, networkingv1.PolicyTypeIngress) {
		t.Fatalf("%d policies: %v", len(policies), policies)
	}
	peers := map[int32]string{}
	for _, rule := range policies[0].Spec.Ingress {
		if len(rule.Ports) == 0 {
			t.Errorf("a rule opens every port: %v", rule)
		}
		var from []string
		for _, peer := range rule.From {
			switch {
			case peer.IPBlock != nil:
				from = append(from, peer.IPBlock.CIDR)
			case peer.NamespaceSelector != nil:
				from = append(from, "namespace "+peer.NamespaceSelector.MatchLabels["kubernetes.io/metadata.name"])
			}
		}
		if len(from) == 0 {
			from = []string{"any address"}
		}
		for _, p := range rule.Ports {
			peers[p.Port.IntVal] = strings.Join(from, ", ")
		}
	}
	return peers
}

// The NetworkPolicy must allow connections to a port only from the peers that the values list. By default, the values list none. The port
// of the external metrics API must accept connections from any address, because no pod selector matches the kube-apiserver.
func TestOnlyDeclaredPeersReachThePorts(t *testing.T) {
	const apiServer = "0.0.0.0/0, ::/0"
	withTenants := map[string]any{"page": map[string]any{"tenants": map[string]any{"enabled": true, "secretName": "page"}}}
	declared := map[string]any{"networkPolicy": map[string]any{
		"apiServer": map[string]any{"cidrs": []any{"10.0.0.1/32"}}, "metricsFrom": []any{namespaced("monitoring")},
		"pageFrom": []any{namespaced("ingress")},
	}}
	for _, c := range []struct {
		name, mode string
		values     []map[string]any
		want       map[int32]string
	}{
		{"nothing is declared", "hpa", nil, map[int32]string{6443: apiServer}},
		{"KEDA", "all", nil, map[int32]string{6443: apiServer, 9090: "namespace keda"}},
		{"a page for tenants, without peers", "hpa", []map[string]any{withTenants}, map[int32]string{6443: apiServer}},
		{"all peers are named", "all", []map[string]any{withTenants, declared}, map[int32]string{
			6443: "10.0.0.1/32", 8080: "namespace monitoring", 8443: "namespace ingress", 9090: "namespace keda",
		}},
		{"the external metrics API is off", "hpa", []map[string]any{{"externalMetrics": map[string]any{"mode": "off"}}}, map[int32]string{}},
	} {
		r := release(c.mode)
		for _, values := range c.values {
			maps.Copy(r.Values, values)
		}
		if got := openTo(t, r); !maps.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestProbesAndMetricsHaveSeparatePorts(t *testing.T) {
	deployments := rendered[appsv1.Deployment](t, release("all"), "deployment.yaml", "Deployment")
	container := deployments[0].Spec.Template.Spec.Containers[0]
	ports := map[string]int32{}
	for _, p := range container.Ports {
		ports[p.Name] = p.ContainerPort
	}
	for name, probe := range map[string]*corev1.Probe{"startup": container.StartupProbe, "liveness": container.LivenessProbe,
		"readiness": container.ReadinessProbe} {
		if probe.HTTPGet.Port.StrVal != "probes" {
			t.Errorf("the %s probe asks port %s", name, probe.HTTPGet.Port.String())
		}
	}
	if ports["probes"] == 0 || ports["metrics"] == 0 || ports["probes"] == ports["metrics"] {
		t.Errorf("ports %v", ports)
	}
}

func TestGoMemLimitIsNinetyPercentOfTheMemoryLimit(t *testing.T) {
	for limit, want := range map[any]string{
		"512Mi": "483183820", "1.5Gi": "1449551462", "1G": "900000000", "600M": "540000000", "1048576Ki": "966367641",
		1000000000.0: "900000000", nil: "",
	} {
		r := release("hpa")
		limits := map[string]any{"memory": limit}
		if limit == nil {
			limits = map[string]any{"cpu": "1", "memory": nil}
		}
		r.Values["resources"] = map[string]any{"limits": limits}
		got := ""
		for _, v := range rendered[appsv1.Deployment](t, r, "deployment.yaml", "Deployment")[0].Spec.Template.Spec.Containers[0].Env {
			if v.Name == "GOMEMLIMIT" {
				got = v.Value
			}
		}
		if got != want {
			t.Errorf("limit %v: GOMEMLIMIT %q, want %q", limit, got, want)
		}
	}
}

// With default values, Helm generates the certificates of the external scaler (the server) and of KEDA (the client). The server's
// certificate must contain the Service's name. KEDA's certificate must contain the client name in the flags of gpuscaler's container. The
// CA of one release must not accept the certificates of another release.
func TestGeneratedCertificatesAcceptOnlyEachOther(t *testing.T) {
	secrets, other := scalerSecrets(t, release("keda")), scalerSecrets(t, release("keda"))
	args := rendered[appsv1.Deployment](t, release("keda"), "deployment.yaml", "Deployment")[0].Spec.Template.Spec.Containers[0].Args
	for _, want := range []string{
		"--scaler-tls-cert-file=/etc/gpuscaler/tls/scaler/tls.crt", "--scaler-tls-private-key-file=/etc/gpuscaler/tls/scaler/tls.key",
		"--scaler-client-ca-file=/etc/gpuscaler/tls/scaler/ca.crt", "--scaler-client-names=gpuscaler-scaler-client",
	} {
		if !slices.Contains(args, want) {
			t.Errorf("no %s in %v", want, args)
		}
	}
	server, client := secrets["gpuscaler-scaler"], secrets["gpuscaler-scaler-client"]
	for _, c := range []struct {
		name             string
		trusted, shown   corev1.Secret
		server           string
		wantServer, want bool
	}{
		{"KEDA", client, client, "gpuscaler-scaler.gpuscaler-system.svc", true, true},
		{"KEDA with the short name", client, client, "gpuscaler-scaler.gpuscaler-system", true, true},
		{"KEDA at another address", client, client, "gpuscaler.gpuscaler-system.svc", false, true},
		{"a client that trusts another CA", other[client.Name], client, "gpuscaler-scaler.gpuscaler-system.svc", false, true},
		{"a client of another CA", client, other[client.Name], "gpuscaler-scaler.gpuscaler-system.svc", true, false},
		{"a client with the server's certificate", client, server, "gpuscaler-scaler.gpuscaler-system.svc", true, false},
	} {
		leaf := certificate(t, server)
		_, err := leaf.Verify(x509.VerifyOptions{Roots: pool(c.trusted), DNSName: c.server,
			KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
		if (err == nil) != c.wantServer {
			t.Errorf("%s: the server is trusted: %v", c.name, err)
		}
		_, err = certificate(t, c.shown).Verify(x509.VerifyOptions{Roots: pool(server), DNSName: "gpuscaler-scaler-client",
			KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
		if (err == nil) != c.want {
			t.Errorf("%s: the client is trusted: %v", c.name, err)
		}
	}
}

// certificate returns the leaf certificate of a Secret and checks that the key belongs to it.
func certificate(t *testing.T, s corev1.Secret) *x509.Certificate {
	t.Helper()
	pair, err := tls.X509KeyPair(s.Data["tls.crt"], s.Data["tls.key"])
	if err != nil {
		t.Fatalf("%s: %v", s.Name, err)
	}
	return pair.Leaf
}

func pool(s corev1.Secret) *x509.CertPool {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(s.Data["ca.crt"])
	return roots
}

func scalerSecrets(t *testing.T, r Release) map[string]corev1.Secret {
	t.Helper()
	all := map[string]corev1.Secret{}
	for _, s := range rendered[corev1.Secret](t, r, "generated.yaml", "Secret") {
		all[s.Name] = s
	}
	if len(all) != 2 {
		t.Fatalf("%d Secrets", len(all))
	}
	return all
}

// Helm must generate certificates only if no other issuer of certificates is configured.
func TestCertificatesAreGeneratedOnlyWithoutAnotherIssuer(t *testing.T) {
	authorization := map[string]any{"authorization": map[string]any{"enabled": true}}
	for _, c := range []struct {
		name, mode string
		values     map[string]any
		want       string
	}{
		{"HPAs alone", "hpa", nil, ""},
		{"KEDA", "keda", nil, "gpuscaler-scaler gpuscaler-scaler-client"},
		{"cert-manager", "keda", map[string]any{"certificates": map[string]any{"source": "cert-manager"}, "metrics": authorization}, ""},
		{"a Secret of the user's", "keda", map[string]any{"keda": map[string]any{"tls": map[string]any{"secretName": "own"}}}, ""},
		{"plain text", "keda", map[string]any{"keda": map[string]any{"tls": map[string]any{"enabled": false}}}, ""},
		{"authorized metrics", "hpa", map[string]any{"metrics": authorization}, "gpuscaler-metrics"},
	} {
		r := release(c.mode)
		maps.Copy(r.Values, c.values)
		var names []string
		for _, s := range rendered[corev1.Secret](t, r, "generated.yaml", "Secret") {
			names = append(names, s.Name)
		}
		if got := strings.Join(names, " "); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
		mounted := fmt.Sprint(rendered[appsv1.Deployment](t, r, "deployment.yaml", "Deployment")[0].Spec.Template.Spec.Volumes)
		if strings.Contains(mounted, "scaler-client") {
			t.Errorf("%s: gpuscaler's pods mount KEDA's key", c.name)
		}
	}
}

// `helm test --logs` must print the log of the test pod. Helm prints it only if the pod has one container, and if the hook's policy does
// not delete a successful pod before Helm reads the log.
func TestLogsOfHelmTestCanBeRead(t *testing.T) {
	pods := rendered[corev1.Pod](t, Release{Name: "gpuscaler", Namespace: "gpuscaler-system"}, "tests/config.yaml", "Pod")
	if len(pods) != 2 {
		t.Errorf("%d pods, want the pods of validate and lint", len(pods))
	}
	for _, pod := range pods {
		if len(pod.Spec.Containers) != 1 {
			t.Errorf("%s has %d containers", pod.Name, len(pod.Spec.Containers))
		}
		if policy := pod.Annotations["helm.sh/hook-delete-policy"]; policy != "before-hook-creation" {
			t.Errorf("%s is deleted at %s", pod.Name, policy)
		}
	}
}
