package smoke

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscaler/gpuscaler/e2e/kubelet"
	"github.com/gpuscaler/gpuscaler/e2e/leaderproxy"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
	"github.com/gpuscaler/gpuscaler/e2e/workload"
)

// helperVariable is an environment variable. If it is set, the test binary calls the function helper instead of running the tests. The pods
// of these tests run the test binary with this variable.
const helperVariable = "E2E_SMOKE_HELPER"

// helper is the program in the pods of these tests. It serves the name of its pod until it receives SIGTERM.
func helper() {
	mux := http.NewServeMux()
	mux.HandleFunc("/readyz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/who", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, os.Getenv("POD_NAME")) })
	server := &http.Server{Addr: os.Args[1], Handler: mux}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, func() { server.Close() })
	fmt.Println(server.ListenAndServe())
}

func hostDeployment(t *testing.T, ns string) *appsv1.Deployment {
	t.Helper()
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	d := workload.Deployment(ns, "who", 2)
	template := &d.Spec.Template
	template.Labels[stack.HostProcess] = "true"
	field := func(path string) *corev1.EnvVarSource {
		return &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}
	}
	template.Spec.Containers = []corev1.Container{{
		Name: "who", Image: "who", Command: []string{binary}, Args: []string{"$(POD_IP):8080"},
		Env: []corev1.EnvVar{
			{Name: helperVariable, Value: "1"},
			{Name: "POD_NAME", ValueFrom: field("metadata.name")},
			{Name: "POD_IP", ValueFrom: field("status.podIP")},
		},
		Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}},
		ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/readyz",
			Port: intstr.FromString("http")}}},
	}}
	return d
}

func TestPodsRunAsProcessesAndTheProxyFollowsTheLeader(t *testing.T) {
	ns := namespace(t, "hosts")
	k := kubelet.Run(t.Context(), shared)
	create(t, hostDeployment(t, ns))
	stack.Eventually(t, time.Minute, "two processes", replicas(ns, "who", 2, 2))

	port, err := shared.Port()
	if err != nil {
		t.Fatal(err)
	}
	service := leaderproxy.Service{Namespace: ns, Selector: map[string]string{"app": "who"}, Port: "http"}
	proxy, err := leaderproxy.Run(t.Context(), shared.Client, service, fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := who(t.Context(), proxy); err == nil {
		t.Error("a response without a leader")
	}

	first, second := hostPods(t, ns)[0], hostPods(t, ns)[1]
	mark(t, first, true)
	answers(t, proxy, first.Name)
	mark(t, first, false)
	mark(t, second, true)
	answers(t, proxy, second.Name)

	// The pod of a killed leader keeps the leader label, but receives no connection until its container has restarted and is ready.
	killed := k.Process(ns, second.Name)
	killed.Kill()
	// no error if the container has already restarted
	if _, err := who(t.Context(), proxy); err == nil && k.Process(ns, second.Name) == killed {
		t.Error("a response of a killed leader")
	}
	answers(t, proxy, second.Name)

	evict(t, second)
	rolled := hostDeployment(t, ns)
	rolled.Spec.Template.Annotations = map[string]string{"rolled": "yes"}
	if err := shared.Client.Update(t.Context(), rolled); err != nil {
		t.Fatal(err)
	}
	stack.Eventually(t, time.Minute, "two new processes and no old one", func(ctx context.Context) error {
		for _, p := range hostPods(t, ns) {
			if p.Name == first.Name || p.Name == second.Name {
				return fmt.Errorf("%s still exists", p.Name)
			}
		}
		return replicas(ns, "who", 2, 2)(ctx)
	})
	if k.Process(ns, first.Name) != nil {
		t.Error("the process of a deleted pod still runs")
	}
}

func hostPods(t *testing.T, ns string) []*corev1.Pod {
	t.Helper()
	var list corev1.PodList
	if err := shared.Client.List(t.Context(), &list, client.InNamespace(ns)); err != nil {
		t.Fatal(err)
	}
	var pods []*corev1.Pod
	for i := range list.Items {
		pods = append(pods, &list.Items[i])
	}
	return pods
}

func mark(t *testing.T, pod *corev1.Pod, leads bool) {
	t.Helper()
	value := "null"
	if leads {
		value = `"true"`
	}
	patch := fmt.Sprintf(`{"metadata":{"labels":{%q:%s}}}`, leaderproxy.LeaderLabel, value)
	if err := shared.Client.Patch(t.Context(), pod, client.RawPatch("application/merge-patch+json", []byte(patch))); err != nil {
		t.Fatal(err)
	}
}

func evict(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
	if err := shared.Client.SubResource("eviction").Create(t.Context(), pod, eviction); err != nil {
		t.Fatal(err)
	}
}

// answers waits until the given pod is the only target of the proxy and responds through it.
func answers(t *testing.T, proxy *leaderproxy.Proxy, pod string) {
	t.Helper()
	stack.Eventually(t, time.Minute, "the proxy forwards to "+pod, func(ctx context.Context) error {
		if len(proxy.Targets()) != 1 {
			return fmt.Errorf("its targets are %v", slices.Sorted(slices.Values(proxy.Targets())))
		}
		name, err := who(ctx, proxy)
		if err == nil && name != pod {
			err = errors.New("it forwards to " + name)
		}
		return err
	})
}

// who returns the name of the pod that responds through the proxy. It opens a new connection, because an open connection may lead to the
// previous leader.
func who(ctx context.Context, proxy *leaderproxy.Proxy) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+proxy.Address+"/who", nil)
	if err != nil {
		return "", err
	}
	c := &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := c.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	name, err := io.ReadAll(response.Body)
	return string(name), err
}
