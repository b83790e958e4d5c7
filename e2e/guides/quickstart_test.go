package guides

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscaler/gpuscaler/e2e/controller"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
	"github.com/gpuscaler/gpuscaler/e2e/workload"
)

// quickstartPage is the guide whose commands TestQuickStartScalesTheWorkersWithTheirQueue runs in a separate cluster.
const quickstartPage = "quickstart.md"

// The script of the quick start, and the commands that it prints, must scale the workers with the length of their queue. The pods of the
// chart, of Redis and of the exporter exist only in the API server, and processes of this machine replace their containers.
func TestQuickStartScalesTheWorkersWithTheirQueue(t *testing.T) {
	s := stack.Start(t, stack.Options{})
	if err := s.Nodes(t.Context(), "local", 1, 0); err != nil {
		t.Fatal(err)
	}
	q := newQuickstart(t, s)
	q.refusals(t)
	printed := q.follow(t)
	q.objects(t)
	q.replaceRelease(t)
	q.serveExporter(t)
	q.target(t, 1)

	job := regexp.MustCompile(`kubectl -n quickstart exec deploy/redis -- (redis-cli .*)`).FindStringSubmatch(printed)
	if job == nil {
		t.Fatalf("the script does not print how to add jobs:\n%s", printed)
	}
	q.run(t, block{page: "the printed command", text: job[1]})
	q.target(t, 8)
	if text := q.run(t, block{page: "the printed command", text: "gpuscaler explain quickstart/worker"}); !strings.Contains(text, "gpu") ||
		!strings.Contains(text, "queue") {
		t.Errorf("explain does not print both signals:\n%s", text)
	}
	q.target(t, 1)
}

// quickstart is a user of the quick start, with the processes that replace the containers.
type quickstart struct {
	*reader
	s         *stack.Stack
	gpuscaler *controller.Controller
	redis     string                    // address of the Redis server
	www       string                    // directory of the exporter's page
	started   map[string]*stack.Process // the processes of the workers and of the exporter, by pod
}

func newQuickstart(t *testing.T, s *stack.Stack) *quickstart {
	t.Helper()
	program, err := exec.LookPath("redis-cli")
	if err != nil {
		t.Skip("this machine has no redis-cli, which the workers and the exporter of the quick start run")
	}
	address, err := s.Redis(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	q := &quickstart{reader: newReader(t, s), s: s, redis: address, www: t.TempDir(), started: map[string]*stack.Process{}}
	q.env = append(q.env, "QUICKSTART_IMAGE=registry.example.com/gpuscaler:0.1.0") // kwok pulls no image
	// In the guide, redis-cli runs in a pod and connects to the Service redis or to the server in the same pod. In this test, it connects to
	// the process that replaces the Redis server.
	_, port, _ := strings.Cut(address, ":")
	bin := t.TempDir()
	wrapper := fmt.Sprintf("#!/bin/sh\n[ \"$1\" != -h ] || shift 2\nexec %s -p %s \"$@\"\n", program, port)
	if err := os.WriteFile(filepath.Join(bin, "redis-cli"), []byte(wrapper), 0o755); err != nil {
		t.Fatal(err)
	}
	for i, variable := range q.env {
		if path, is := strings.CutPrefix(variable, "PATH="); is {
			q.env[i] = "PATH=" + bin + ":" + path
		}
	}
	return q
}

// refusals runs the script with settings that it must refuse without changing the cluster.
func (q *quickstart) refusals(t *testing.T) {
	t.Helper()
	if err := q.s.Nodes(t.Context(), "local-gpus", 1, 8); err != nil {
		t.Fatal(err)
	}
	for setting, want := range map[string]string{
		"QUICKSTART_CLUSTER=k3d":                                   "use kind, minikube or existing",
		"QUICKSTART_CLUSTER=existing":                              "set QUICKSTART_NODE",
		"QUICKSTART_CLUSTER=existing QUICKSTART_NODE=other":        `nodes "other" not found`,
		"QUICKSTART_CLUSTER=existing QUICKSTART_NODE=local-gpus-0": "has GPUs",
	} {
		command := exec.CommandContext(t.Context(), "bash", "-c", setting+" config/quickstart/quickstart.sh")
		command.Dir, command.Env = q.dir, q.env
		text, err := command.CombinedOutput()
		if err == nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: %v, want an error with %q:\n%s", setting, err, want, text)
		}
	}
	if err := q.s.Client.Delete(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "local-gpus-0"}}); err != nil {
		t.Fatal(err)
	}
	var namespace corev1.Namespace
	if err := q.s.Client.Get(t.Context(), client.ObjectKey{Name: "quickstart"}, &namespace); err == nil {
		t.Error("a refused setting created objects")
	}
}

// follow runs the commands of the guide and returns their output. Environment variables make the script skip the steps that need a
// container engine.
func (q *quickstart) follow(t *testing.T) (printed string) {
	t.Helper()
	q.env = append(q.env, "QUICKSTART_CLUSTER=existing", "QUICKSTART_NODE=local-0")
	for _, b := range blocks(t, "sh") {
		if b.page == quickstartPage {
			printed += q.run(t, b)
		}
	}
	if t.Failed() {
		t.FailNow()
	}
	return printed
}

// objects checks that the node has GPUs, that the namespaces enforce Pod Security, and that a worker runs.
func (q *quickstart) objects(t *testing.T) {
	t.Helper()
	var node corev1.Node
	if err := q.s.Client.Get(t.Context(), client.ObjectKey{Name: "local-0"}, &node); err != nil {
		t.Fatal(err)
	}
	if gpus := node.Status.Allocatable[stack.GPU]; gpus.Value() != 8 {
		t.Errorf("the node has %s GPUs", gpus.String())
	}
	for _, namespace := range []string{"quickstart", controller.Namespace} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "privileged"},
			Spec: corev1.PodSpec{HostNetwork: true, Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
		if err := q.s.Client.Create(t.Context(), pod, client.DryRunAll); err == nil || !strings.Contains(err.Error(), "restricted") {
			t.Errorf("%s accepts a pod of the host's network: %v", namespace, err)
		}
	}
	var pods corev1.PodList
	if err := q.s.Client.List(t.Context(), &pods, client.InNamespace(controller.Namespace)); err != nil || len(pods.Items) != 1 {
		t.Errorf("%d pods of gpuscaler (%v)", len(pods.Items), err)
	}
	if err := workload.HasReplicas(q.s.Client, "quickstart", "worker", 1)(t.Context()); err != nil {
		t.Error(err)
	}
}

// replaceRelease runs gpuscaler as a process instead of the release's pods. gpuscaler reads the files in the release's ConfigMaps, in which
// replaceRelease sets the address of the Redis server on this machine.
func (q *quickstart) replaceRelease(t *testing.T) {
	t.Helper()
	policies := controller.Policies{Dir: filepath.Join(q.s.Dir, "policies")}
	if err := os.MkdirAll(policies.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, of := range []string{"platform", "policies"} {
		var config corev1.ConfigMap
		if err := q.s.Client.Get(t.Context(), client.ObjectKey{Namespace: controller.Namespace, Name: "gpuscaler-" + of}, &config); err != nil {
			t.Fatal(err)
		}
		for name, text := range config.Data {
			text = strings.Replace(text, "redis.quickstart.svc:6379", q.redis, 1)
			if err := policies.Put(strings.TrimSuffix(name, ".yaml"), text); err != nil {
				t.Fatal(err)
			}
		}
	}
	q.run(t, block{page: "processes in place of the release", text: `helm uninstall gpuscaler --namespace gpuscaler-system --wait
kubectl label namespace gpuscaler-system pod-security.kubernetes.io/enforce-`})
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	var err error
	if q.gpuscaler, err = controller.Up(ctx, q.s, controller.Options{}); err != nil {
		t.Fatal(err)
	}
}

// container returns the script of the first container in a workload's pods, and the pods.
func (q *quickstart) container(t *testing.T, app string) (script string, pods []corev1.Pod) {
	t.Helper()
	var list corev1.PodList
	if err := q.s.Client.List(t.Context(), &list, client.InNamespace("quickstart"), client.MatchingLabels{"app": app}); err != nil {
		t.Fatal(err)
	}
	if len(list.Items) == 0 {
		t.Fatalf("no pod of %s", app)
	}
	return list.Items[0].Spec.Containers[0].Args[0], list.Items
}

// start runs a script as a process that replaces a pod's container, if the pod is on a node and has no process.
func (q *quickstart) start(t *testing.T, pod corev1.Pod, script string) {
	t.Helper()
	if q.started[pod.Name] != nil || pod.Spec.NodeName == "" {
		return
	}
	p, err := q.s.Run(stack.Command{Name: pod.Name, Path: "/bin/sh", Args: []string{"-c", script},
		Env: append([]string{"POD=" + pod.Name, "NODE=" + pod.Spec.NodeName}, q.env...)})
	if err != nil {
		t.Fatal(err)
	}
	q.started[pod.Name] = p
}

// runWorkers starts a process with the container's script for each pod of the workers that has no process.
func (q *quickstart) runWorkers(t *testing.T) {
	t.Helper()
	script, pods := q.container(t, "worker")
	for _, pod := range pods {
		q.start(t, pod, script)
	}
}

// serveExporter runs the script of the exporter, and serves its page on the address and the port of its pod.
func (q *quickstart) serveExporter(t *testing.T) {
	t.Helper()
	script, pods := q.container(t, "gpu-exporter")
	q.start(t, pods[0], strings.ReplaceAll(script, "/www", q.www))
	server := &http.Server{Addr: pods[0].Status.PodIP + ":9400", Handler: http.FileServer(http.Dir(q.www)), ReadHeaderTimeout: time.Minute}
	t.Cleanup(func() { server.Close() })
	go server.ListenAndServe() //nolint:errcheck // the test fails without this server
}

// target waits until the HPA has set the given number of replicas and no signal is missing. Meanwhile, it starts a process for each new
// worker.
func (q *quickstart) target(t *testing.T, replicas int32) {
	t.Helper()
	stack.Eventually(t, 4*time.Minute, fmt.Sprintf("%d workers", replicas), func(ctx context.Context) error {
		q.runWorkers(t)
		e, err := q.gpuscaler.Explain(ctx, "quickstart/worker")
		if err != nil {
			return err
		}
		var hpa autoscalingv2.HorizontalPodAutoscaler
		if err := q.s.Client.Get(ctx, client.ObjectKey{Namespace: "quickstart", Name: "worker"}, &hpa); err != nil {
			return err
		}
		if e.Target != replicas || e.Degraded || hpa.Status.DesiredReplicas != replicas {
			return fmt.Errorf("target %d, the HPA desires %d: %s %+v", e.Target, hpa.Status.DesiredReplicas, e.Why, e.Signals)
		}
		return workload.HasReplicas(q.s.Client, "quickstart", "worker", replicas)(ctx)
	})
}
