package karpenter_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscaler/gpuscaler/e2e/controller"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
	"github.com/gpuscaler/gpuscaler/e2e/workload"
)

// buffering returns a PlatformConfig with a group that requests nodes early by a CapacityBuffer, and does not raise the target early. The
// group does not freeze consolidation, so only the CapacityBuffer keeps an empty node.
func buffering(pool string) string {
	return controller.Platform("capacityGroups:\n- {name: gpu, resource: nvidia.com/gpu, buffer: true, consolidationFreeze: false, " +
		"leadTime: 5m, nodePools: {spot: " + pool + "}}\n")
}

// soon returns chatPolicy with a schedule that sets minReplicas and begins within five minutes. When the schedule begins, the replicas
// start on nodes that the CapacityBuffer has already provided.
func soon(namespace string, replicas int) string {
	from := time.Now().UTC().Truncate(time.Minute).Add(5 * time.Minute).Format("2006-01-02T15:04")
	return chatPolicy(namespace) + fmt.Sprintf("  schedules:\n  - {name: peak, timezone: UTC, from: %q, until: \"2099-12-31\", "+
		"minReplicas: %d, leadTime: 1s}\n", from, replicas)
}

// buffer returns the CapacityBuffer that gpuscaler created in a namespace.
func buffer(ctx context.Context, namespace string) (*unstructured.Unstructured, error) {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion("autoscaling.x-k8s.io/v1beta1")
	u.SetKind("CapacityBuffer")
	return u, suite.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "gpuscaler-chat"}, u)
}

// held returns a check that the CapacityBuffer has the given number of replicas and that Karpenter provides capacity for all of them.
func held(namespace string, want int64) func(context.Context) error {
	return func(ctx context.Context) error {
		u, err := buffer(ctx, namespace)
		if err != nil {
			return err
		}
		spec, _, _ := unstructured.NestedInt64(u.Object, "spec", "replicas")
		status, _, _ := unstructured.NestedInt64(u.Object, "status", "replicas")
		if spec != want || status != want {
			return fmt.Errorf("%d replicas, Karpenter provides %d; want %d", spec, status, want)
		}
		return nil
	}
}

func noBuffer(namespace string) func(context.Context) error {
	return func(ctx context.Context) error {
		if u, err := buffer(ctx, namespace); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the buffer exists: %v %v", u.Object["spec"], err)
		}
		return nil
	}
}

// requesting adds GPU requests, equal to the GPU limits, to the Deployment chat of a namespace.
func requesting(t *testing.T, namespace string) {
	t.Helper()
	patch := client.RawPatch("application/json-patch+json",
		fmt.Appendf(nil, `[{"op":"add","path":"/spec/template/spec/containers/0/resources/requests","value":{%q:"1"}}]`, stack.GPU))
	if err := suite.Client.Patch(t.Context(), workload.Deployment(namespace, "chat", 0), patch); err != nil {
		t.Fatal(err)
	}
}

// nodesOf returns the names of the nodes of a test.
func nodesOf(ctx context.Context, t *testing.T, name string) (names []string) {
	t.Helper()
	var nodes corev1.NodeList
	if err := suite.Client.List(ctx, &nodes, client.MatchingLabels{"suite": name}); err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes.Items {
		names = append(names, n.Name)
	}
	slices.Sort(names)
	return names
}

// This test uses Karpenter with the feature gate CapacityBuffer enabled, and real time.
func TestBufferKeepsNodesBeforePodsRequestThem(t *testing.T) {
	t.Parallel()
	// the NodePool has no consent annotation, because a CapacityBuffer is gpuscaler's own object and changes no NodePool
	p := pool{name: "buf-spot", kind: "spot", weight: 80, by: clientSide}
	p.create(t)
	chat(t, "buf", nil)
	content := p.content(t)
	limited := startAt(t, 1, "buf", map[string]string{"platform.yaml": buffering("buf-spot"), "chat.yaml": soon("buf", 2)})
	stack.Eventually(t, time.Minute, "the log reports a template without GPU requests", func(context.Context) error {
		if log := limited.tail(10000); !strings.Contains(log, "has limits of GPUs but no requests") {
			return errors.New("no such log line")
		}
		return noBuffer("buf")(t.Context())
	})
	limited.end(syscall.SIGKILL)
	requesting(t, "buf")
	g := startAt(t, 1, "buf", map[string]string{"platform.yaml": buffering("buf-spot"), "chat.yaml": soon("buf", 2)})
	g.load(t, map[string]float64{"buf/chat": 0})
	stack.Eventually(t, time.Minute, "a buffer of two, which Karpenter provides", held("buf", 2))
	u, err := buffer(t.Context(), "buf")
	if err != nil {
		t.Fatal(err)
	}
	if o := u.GetOwnerReferences(); len(o) != 1 || o[0].Kind != "Deployment" || o[0].Name != "chat" || o[0].UID == "" {
		t.Errorf("its owner is %v, so it is not deleted with the Deployment", o)
	}
	g.group(t, time.Minute, "two nodes without pods", on(2, 0))
	g.explained(t, "CapacityBuffers keep nodes for 2 replicas")

	g.write(t, "chat.yaml", soon("buf", 3))
	stack.Eventually(t, time.Minute, "a larger buffer for a larger minimum", held("buf", 3))
	if now, err := buffer(t.Context(), "buf"); err != nil || now.GetUID() != u.GetUID() {
		t.Errorf("the buffer was created again: %v", err)
	}
	g.group(t, time.Minute, "three nodes", on(3, 0))
	existing := nodesOf(t.Context(), t, "buf")
	stack.Always(t, 10*time.Second, "the empty nodes stay", func(context.Context) error {
		s, err := g.status()
		return errors.Join(err, on(3, 0)(s.Groups["gpu"]))
	})

	asked := time.Now()
	g.load(t, map[string]float64{"buf/chat": 3})
	stack.Eventually(t, 40*time.Second, "the pods run on the nodes", workload.HasReplicas(suite.Client, "buf", "chat", 3))
	t.Logf("three replicas were ready %s after they were requested", time.Since(asked).Round(100*time.Millisecond))
	if now := nodesOf(t.Context(), t, "buf"); !slices.Equal(now, existing) {
		t.Errorf("on nodes %v, want %v", now, existing)
	}
	stack.Eventually(t, 20*time.Second, "no buffer, because all replicas are requested", noBuffer("buf"))

	// The schedule that caused the CapacityBuffer is removed while gpuscaler does not run. The next process must delete the CapacityBuffer.
	g.load(t, map[string]float64{"buf/chat": 0})
	stack.Eventually(t, 40*time.Second, "the buffer is created again", held("buf", 3))
	g.end(syscall.SIGKILL)
	g.write(t, "chat.yaml", chatPolicy("buf"))
	g.run(t)
	stack.Eventually(t, 20*time.Second, "the next leader deletes the buffer", noBuffer("buf"))
	g.group(t, 90*time.Second, "Karpenter removes the nodes", on(0, 0))
	if now := p.content(t); now != content {
		t.Errorf("the NodePool differs:\n%s\nbefore:\n%s", now, content)
	}

	g.write(t, "chat.yaml", soon("buf", 1))
	stack.Eventually(t, time.Minute, "a buffer present", held("buf", 1))
	g.end(syscall.SIGTERM)
	stack.Eventually(t, 10*time.Second, "the buffer is deleted when gpuscaler ends", noBuffer("buf"))
}

// Without the permission to write CapacityBuffers, the group must report the missing permission. The policy is the same as in
// TestBufferKeepsNodesBeforePodsRequestThem.
func TestGroupReportsMissingPermissionForBuffers(t *testing.T) {
	t.Parallel()
	account := grant(t, "bare", false)
	pool{name: "nobuf-spot", kind: "spot", weight: 80, by: clientSide}.create(t)
	chat(t, "nobuf", nil)
	g := startAs(t, account, 1, "nobuf", map[string]string{"platform.yaml": buffering("nobuf-spot"), "chat.yaml": soon("nobuf", 2)})
	g.load(t, map[string]float64{"nobuf/chat": 0})
	g.group(t, 30*time.Second, "the group reports that buffers are unavailable", findsNoBuffers)
	stack.Always(t, 15*time.Second, "no buffer, no node", func(ctx context.Context) error {
		s, err := g.status()
		return errors.Join(err, on(0, 0)(s.Groups["gpu"]), noBuffer("nobuf")(ctx))
	})
	g.load(t, map[string]float64{"nobuf/chat": 2})
	asked := time.Now()
	stack.Eventually(t, time.Minute, "the replicas run once their nodes exist", workload.HasReplicas(suite.Client, "nobuf", "chat", 2))
	t.Logf("two replicas were ready %s after they were requested", time.Since(asked).Round(100*time.Millisecond))
	if log := g.tail(10000); !strings.Contains(log, "karpenter.capacityBuffers") {
		t.Error("the log does not name the chart's value that would allow it")
	}
	g.load(t, map[string]float64{"nobuf/chat": 0})
}
