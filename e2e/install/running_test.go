package install

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/gpuscaler/gpuscaler/e2e/chart"
	"github.com/gpuscaler/gpuscaler/e2e/components"
	"github.com/gpuscaler/gpuscaler/e2e/controller"
	"github.com/gpuscaler/gpuscaler/e2e/kubelet"
	"github.com/gpuscaler/gpuscaler/e2e/leaderproxy"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
)

// container is a shell script that starts gpuscaler as a container runtime would: as user 65532 without capabilities, and with a
// read-only root file system that contains only the binary and the mounted files. The arguments of the script are the arguments of the
// container.
const container = `set -e
root=$(mktemp -d)
mount -t tmpfs none "$root"
mkdir -p "$root/etc/gpuscaler/platform" "$root/etc/gpuscaler/policies" "$root/proc"
mount --bind /proc "$root/proc"
touch "$root/gpuscaler"
mount --bind "$0" "$root/gpuscaler"
mount --bind "$CONFIG/platform" "$root/etc/gpuscaler/platform"
mount --bind "$CONFIG/policies" "$root/etc/gpuscaler/policies"
if [ -n "$SERVING" ]; then
  until [ -s "$SERVING/tls.crt" ]; do sleep 0.2; done
  mkdir -p "$root/etc/gpuscaler/tls/serving"
  mount --bind "$SERVING" "$root/etc/gpuscaler/tls/serving"
  mount -o remount,bind,ro "$root/etc/gpuscaler/tls/serving"
fi
case "$*" in *--scaler-tls-cert-file*)
  until [ -s "$SCALER/tls.crt" ]; do sleep 0.2; done
  mkdir -p "$root/etc/gpuscaler/tls/scaler"
  mount --bind "$SCALER" "$root/etc/gpuscaler/tls/scaler"
  mount -o remount,bind,ro "$root/etc/gpuscaler/tls/scaler"
esac
if [ -n "$PRICES" ]; then
  mkdir -p "$root/etc/gpuscaler/prices"
  mount --bind "$PRICES" "$root/etc/gpuscaler/prices"
  mount -o remount,bind,ro "$root/etc/gpuscaler/prices"
fi
cp "$KUBECONFIG" "$root/kubeconfig"
chmod 444 "$root/kubeconfig"
mount -o remount,bind,ro "$root/etc/gpuscaler/platform"
mount -o remount,bind,ro "$root/etc/gpuscaler/policies"
mount -o remount,ro "$root"
export KUBECONFIG=/kubeconfig
exec setpriv --no-new-privs chroot --userspec=65532:65532 "$root" /gpuscaler "$@"`

// confined reports whether this machine allows mount namespaces and setpriv, which the script in the constant container needs.
func confined() bool {
	return exec.Command("unshare", "-m", "sh", "-c", "mount -t tmpfs none /mnt && setpriv --no-new-privs true").Run() == nil
}

// host runs the chart's pods as processes of this machine. The working tree's binary is used instead of the image, and directories are
// used instead of the mounted ConfigMaps and Secrets. The Service has type ExternalName, because the API server accepts no other type of
// Service for a loopback address.
type host struct {
	binary, config string
	serving        string // directory with the files of the serving certificate's Secret; empty: a self-signed certificate in memory
	scaler         string // directory with the files of the external scaler's Secret
	prices         string // directory with the file of the price book's ConfigMap; empty: the built-in price book
	port           string // port of the proxy that is used instead of kube-proxy
	shell          string
}

func (h host) edit(text string) (string, error) {
	var out []string
	for _, document := range strings.Split("\n"+text, "\n---") {
		var o unstructured.Unstructured
		if err := yaml.Unmarshal([]byte(document), &o.Object); err != nil {
			return "", err
		}
		if len(o.Object) == 0 {
			continue
		}
		if err := h.change(&o); err != nil {
			return "", err
		}
		changed, err := yaml.Marshal(o.Object)
		if err != nil {
			return "", err
		}
		out = append(out, string(changed))
	}
	return strings.Join(out, "---\n"), nil
}

func (h host) change(o *unstructured.Unstructured) error {
	switch {
	case o.GetKind() == "Service" && o.GetName() == "gpuscaler":
		o.Object["spec"] = map[string]any{"type": "ExternalName", "externalName": "localhost"}
	case o.GetKind() == "Pod": // a pod of `helm test`
		o.SetLabels(map[string]string{stack.HostProcess: "true"})
		containers, _, err := unstructured.NestedSlice(o.Object, "spec", "containers")
		if err != nil {
			return err
		}
		h.run(containers[0].(map[string]any))
		return unstructured.SetNestedSlice(o.Object, containers, "spec", "containers")
	case o.GetKind() == "Deployment" || o.GetKind() == "Job":
		if err := unstructured.SetNestedField(o.Object, "true", "spec", "template", "metadata", "labels", stack.HostProcess); err != nil {
			return err
		}
		containers, _, err := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "containers")
		if err != nil {
			return err
		}
		h.run(containers[0].(map[string]any))
		return unstructured.SetNestedSlice(o.Object, containers, "spec", "template", "spec", "containers")
	}
	return nil
}

func (h host) run(c map[string]any) {
	c["command"] = []any{"/bin/sh", "-c", h.shell, h.binary}
	args := c["args"].([]any)
	for i, a := range args {
		a := a.(string)
		a = strings.Replace(a, "--service-port=443", "--service-port="+h.port, 1)
		a = strings.Replace(a, "address=127.0.0.1:", "address=:", 1) // listen on the pod's own loopback address
		args[i] = strings.Replace(a, "address=:", "address=$(POD_IP):", 1)
	}
	if args[0] == "run" {
		args = append(args, "--allow-loopback-pods")
	}
	if args[0] != "validate" { // the command validate reads only files
		args = append(args, "--kubeconfig=$(KUBECONFIG_IN)")
	}
	c["args"] = args
	env, _ := c["env"].([]any)
	c["env"] = append(env,
		map[string]any{"name": "POD_IP", "valueFrom": map[string]any{"fieldRef": map[string]any{"fieldPath": "status.podIP"}}},
		map[string]any{"name": "CONFIG", "value": h.config}, map[string]any{"name": "SERVING",
			"value": h.serving}, map[string]any{"name": "PRICES", "value": h.prices},
		map[string]any{"name": "SCALER", "value": h.scaler},
		map[string]any{"name": "KUBECONFIG_IN", "value": "/kubeconfig"})
}

// newHost builds gpuscaler and creates the directories for the chart's pods. It skips the test if this machine does not allow mount
// namespaces.
func newHost(t *testing.T, namespace string) host {
	t.Helper()
	if !confined() {
		t.Skip("this machine does not allow mount namespaces, so pods with a read-only root are not tested")
	}
	h := host{binary: buildBinary(t), config: filepath.Join(cluster.Dir, "mounted-"+namespace),
		shell: `exec unshare -m sh -c '` + strings.ReplaceAll(container, "'", `'\''`) + `' "$0" "$@"`}
	h.scaler = filepath.Join(cluster.Dir, "scaler-"+namespace)
	dirs := []string{h.scaler}
	for _, name := range configMaps {
		dirs = append(dirs, filepath.Join(h.config, name))
	}
	for _, dir := range dirs {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	port, err := cluster.Port()
	if err != nil {
		t.Fatal(err)
	}
	h.port = strconv.Itoa(port)
	proxy := leaderproxy.Service{Namespace: namespace, Selector: map[string]string{"app.kubernetes.io/name": "gpuscaler"}, Port: "https"}
	if _, err := leaderproxy.Run(t.Context(), cluster.Client, proxy, net.JoinHostPort("127.0.0.1", h.port)); err != nil {
		t.Fatal(err)
	}
	return h
}

// buildBinary compiles the working tree's gpuscaler with the same flags as the other end-to-end tests, so that Go's build cache contains
// the compiled packages.
func buildBinary(t *testing.T) string {
	t.Helper()
	if given := os.Getenv(controller.BinaryVariable); given != "" {
		return given
	}
	root, err := components.Root()
	if err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(cluster.Dir, "gpuscaler")
	build := exec.CommandContext(t.Context(), "go", "build", "-ldflags", "-s -w", "-o", binary, "./cmd/gpuscaler")
	build.Dir, build.Env = filepath.Dir(root), append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return binary
}

// configMaps contains the suffixes of the names of the chart's ConfigMaps.
var configMaps = []string{"platform", "policies"}

// mount does the work of the kubelet: it writes the files of the ConfigMaps, and of the external scaler's Secret if it exists, to
// directories.
func (h host) mount(t *testing.T, namespace string) {
	t.Helper()
	for _, of := range configMaps {
		var config corev1.ConfigMap
		if err := cluster.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "gpuscaler-" + of}, &config); err != nil {
			t.Fatal(err)
		}
		for name, text := range config.Data {
			if err := os.WriteFile(filepath.Join(h.config, of, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, text := range secretOf(t, namespace, "gpuscaler-scaler") {
		if err := os.WriteFile(filepath.Join(h.scaler, name), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// secretOf returns the content of a Secret, or nil if it does not exist.
func secretOf(t *testing.T, namespace, name string) map[string][]byte {
	t.Helper()
	var secret corev1.Secret
	if err := client.IgnoreNotFound(cluster.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, &secret)); err != nil {
		t.Fatal(err)
	}
	return secret.Data
}

const always = `apiVersion: gpuscaler.io/v1alpha1
kind: ScalingPolicy
metadata: {name: chat, namespace: default}
spec:
  scaleTargetRef: {name: chat}
  minReplicas: 1
  maxReplicas: 9
  schedules:
  - {name: always, timezone: UTC, from: 2020-01-01, until: 2099-12-31, minReplicas: 3}
`

func TestPodsOfTheChartServeOnAReadOnlyRootWithoutPrivileges(t *testing.T) {
	serve(t, "karpenter.sh", "nodepools")
	h := newHelm(t, restricted(t, "gpuscaler-system"))
	machine := newHost(t, h.namespace)
	h.edit = edits(machine.edit)
	pods := kubelet.Run(t.Context(), cluster)
	values := map[string]any{
		"mode": "all", "platform": map[string]any{"cluster": "e2e", "capacityGroups": nudging}, "files": map[string]any{"chat.yaml": always},
		"leaderElection": map[string]any{"duration": "6s"},
	}
	objects := parse(t, h.install("gpuscaler", values).Manifest)
	machine.mount(t, h.namespace)
	defer dump(t, pods, h.namespace)
	stack.Eventually(t, time.Minute, "two replicas", available(h.namespace, 2))
	stack.Eventually(t, time.Minute, "registered and reachable", func(ctx context.Context) error {
		return cluster.APIServiceAvailable(ctx, "external.metrics.k8s.io", "v1beta1")
	})
	for _, p := range podsOf(t, h.namespace) {
		process := pods.Process(p.Namespace, p.Name)
		if process == nil {
			t.Fatalf("%s does not run", p.Name)
		}
		unprivileged(t, process.Pid())
	}
	validate(t, machine)
	// `helm test` runs with the permissions of the chart's ServiceAccount. The two NodePools of the group do not exist, and `helm test` must
	// report this.
	if said, err := h.test("gpuscaler"); err == nil || strings.Count(said, "ERROR NodePoolMissing") != 2 {
		t.Errorf("helm test does not report the missing NodePools of the group (%v):\n%s", err, said)
	}

	issued := secretOf(t, h.namespace, "gpuscaler-scaler-client")
	scalerKnows(t, h.namespace, issued)

	// An upgrade and a rollback need no action besides the Helm command.
	values["logLevel"] = "debug"
	h.upgrade("gpuscaler", values)
	stack.Eventually(t, time.Minute, "upgraded", rolled(h.namespace, "--log-level=debug"))
	if now := secretOf(t, h.namespace, "gpuscaler-scaler-client"); !maps.EqualFunc(now, issued, bytes.Equal) {
		t.Error("the upgrade replaced KEDA's certificate, so KEDA's copy of it is invalid")
	}
	scalerKnows(t, h.namespace, issued)
	h.rollback("gpuscaler")
	stack.Eventually(t, time.Minute, "rolled back", rolled(h.namespace, "--log-level=info"))
	stack.Eventually(t, time.Minute, "reached again", func(ctx context.Context) error {
		return cluster.APIServiceAvailable(ctx, "external.metrics.k8s.io", "v1beta1")
	})

	// The pre-delete hook acquires the Lease and restores the NodePools: NodePools with an active override, and a NodePool with an override
	// that a previous controller did not restore. A ClusterRole of the release owns the APIService, so Kubernetes deletes both.
	whole := nudge(t)
	if said, err := h.test("gpuscaler"); err != nil || strings.Contains(said, "not judged") {
		t.Errorf("helm test: %v\n%s", err, said)
	}
	left := pool("left", "weight")
	if err := cluster.Client.Create(t.Context(), left); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cluster.Client.Delete(context.Background(), left) })
	leaveWeight(t, h.namespace)
	// The API server must not have rejected any request before this line. Later rejections are expected, because Helm deletes the role
	// before the pods end.
	if err := requests.Judge(chart.Release{Name: "gpuscaler", Namespace: h.namespace, Values: map[string]any{"mode": "all"}}); err != nil {
		t.Error(err)
	}
	h.uninstall("gpuscaler", true)
	stack.Eventually(t, time.Minute, "no object is left", func(ctx context.Context) error {
		if left := existing(t, objects); len(left) > 0 {
			return fmt.Errorf("left: %v", left)
		}
		if err := cluster.APIServiceAvailable(ctx, "external.metrics.k8s.io", "v1beta1"); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the registration still exists: %v", err)
		}
		return nil
	})
	if err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(left), left); err != nil {
		t.Fatal(err)
	}
	if left.Spec.Weight != nil {
		t.Errorf("the weight is still %d", *left.Spec.Weight)
	}
	if err := whole(); err != nil {
		t.Error(err)
	}
	logs, _ := filepath.Glob(filepath.Join(cluster.Dir, "logs", h.namespace+"-gpuscaler-restore-*.log"))
	if len(logs) != 1 {
		t.Fatalf("logs of the hook: %v", logs)
	}
	text, err := os.ReadFile(logs[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"nudged-spot", "nudged-od"} {
		if !strings.Contains(string(text), "NodePool "+name) {
			t.Errorf("the hook did not restore %s:\n%s", name, text)
		}
	}
}

// leaveWeight sets the weight of the NodePool "left" with gpuscaler's field manager. This simulates an override that a previous
// controller did not restore.
func leaveWeight(t *testing.T, namespace string) {
	t.Helper()
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": map[string]any{"name": "left"},
		"spec": map[string]any{"weight": int64(90)},
	}}
	if err := as(t, namespace, "gpuscaler").Apply(t.Context(), client.ApplyConfigurationFromUnstructured(u), client.FieldOwner("gpuscaler"),
		client.ForceOwnership); err != nil {
		t.Fatal(err)
	}
}

// rolled returns a check that two pods are Ready and that every pod has the given argument.
func rolled(namespace, argument string) func(context.Context) error {
	return func(ctx context.Context) error {
		var list corev1.PodList
		if err := cluster.Client.List(ctx, &list, client.InNamespace(namespace),
			client.MatchingLabels{"app.kubernetes.io/name": "gpuscaler"}); err != nil {
			return err
		}
		for i := range list.Items {
			if !slices.Contains(list.Items[i].Spec.Containers[0].Args, argument) {
				return fmt.Errorf("%s has not %s", list.Items[i].Name, argument)
			}
		}
		return available(namespace, 2)(ctx)
	}
}

// unprivileged fails the test unless the process runs as user 65532 without capabilities, and its root and /etc are mounted read-only. It
// reads these properties from /proc.
func unprivileged(t *testing.T, pid int) {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"Uid:\t65532\t65532\t65532\t65532", "CapEff:\t0000000000000000", "NoNewPrivs:\t1"} {
		if !strings.Contains(string(status), line) {
			t.Errorf("process %d: no %q", pid, line)
		}
	}
	mounts, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(strings.TrimSpace(string(mounts)), "\n") {
		fields := strings.Fields(line) // fields 4 and 5 are the mount point, relative to the root of the process, and the mount options
		if (fields[4] == "/" || strings.HasPrefix(fields[4], "/etc")) && !strings.HasPrefix(fields[5], "ro") {
			t.Errorf("process %d: %s is mounted %s", pid, fields[4], fields[5])
		}
	}
	// the root file system must contain only the binary, etc, proc and the token
	if files, err := os.ReadDir(fmt.Sprintf("/proc/%d/root", pid)); err != nil || len(files) > 4 {
		t.Errorf("process %d: its root contains %v (%v)", pid, files, err)
	}
}

func validate(t *testing.T, machine host) {
	t.Helper()
	if text, err := exec.CommandContext(t.Context(), machine.binary, "validate", machine.config+"/platform",
		machine.config+"/policies").CombinedOutput(); err != nil {
		t.Errorf("helm test would fail: %v\n%s", err, text)
	}
}

func podsOf(t *testing.T, namespace string) []corev1.Pod {
	t.Helper()
	var list corev1.PodList
	if err := cluster.Client.List(t.Context(), &list, client.InNamespace(namespace),
		client.MatchingLabels{"app.kubernetes.io/name": "gpuscaler"}); err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// dump logs the last part of the pods' logs if the test has failed.
func dump(t *testing.T, pods *kubelet.Kubelet, namespace string) {
	if !t.Failed() {
		return
	}
	logs, _ := filepath.Glob(filepath.Join(cluster.Dir, "logs", namespace+"-*.log"))
	for _, path := range logs {
		text, _ := os.ReadFile(path)
		lines := strings.Split(string(text), "\n")
		t.Logf("--- end of %s\n%s", path, strings.Join(lines[max(0, len(lines)-10):], "\n"))
	}
}

// Every flag in the chart must exist in the binary. The test adds --help, because flags are parsed before --help is processed.
func TestBinaryAcceptsEveryFlagOfTheChart(t *testing.T) {
	text, err := os.ReadFile("../chart/testdata/everything.yaml")
	if err != nil {
		t.Fatal(err)
	}
	flags, commands := 0, 0
	// the first documents are notes and not objects
	for _, document := range regexp.MustCompile(`(?m)^(---|# ---- .*)$`).Split(string(text), -1)[2:] {
		var object any
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			t.Fatal(err)
		}
		for _, args := range argsIn(object) {
			flags, commands = flags+len(args)-1, commands+1
			if text, err := exec.CommandContext(t.Context(), buildBinary(t), append(args, "--help")...).CombinedOutput(); err != nil {
				t.Errorf("%q: %v\n%s", args, err, text)
			}
		}
	}
	if flags < 20 || commands < 4 {
		t.Errorf("%d flags of %d commands", flags, commands)
	}
}

// argsIn returns the arguments of every container of an object.
func argsIn(value any) (all [][]string) {
	switch v := value.(type) {
	case []any:
		for _, each := range v {
			all = append(all, argsIn(each)...)
		}
	case map[string]any:
		for key, each := range v {
			list, ok := each.([]any)
			if key != "args" || !ok {
				all = append(all, argsIn(each)...)
				continue
			}
			var args []string
			for _, arg := range list {
				args = append(args, fmt.Sprint(arg))
			}
			all = append(all, args)
		}
	}
	return all
}
