package fleet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscaler/gpuscaler/e2e/controller"
	"github.com/gpuscaler/gpuscaler/e2e/exporter"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
	"github.com/gpuscaler/gpuscaler/e2e/workload"
	"github.com/gpuscaler/gpuscaler/pkg/dashboard/explain"
)

// l40s contains the labels of the group's nodes.
var l40s = map[string]string{"accelerator": "l40s"}

// chatPolicy requests one replica for every ten requests in the gateway's queue. The queue is in the gateway, so it does not change when
// replicas start or stop.
const chatPolicy = `
maxReplicas: 24
capacityGroup: chat
signals:
- {name: gateway, type: prometheus, queryRef: gateway-queue, target: 10}
behavior:
  scaleUp: {tolerance: 0, policies: [{type: Pods, value: 24, periodSeconds: 15}]}
  scaleDown: {tolerance: 0, stabilizationWindowSeconds: 3}
`

// A cluster has an autoscaler that may have three nodes with four GPUs each, and a notebook without a policy on one of these GPUs. Twelve
// GPUs are less than a burst needs:
//
//  1. While nodes may be added, no target is capped. When all twelve GPUs are used, one pod waits. After a minute the target does not
//     exceed the eleven running replicas and the waiting one, although the demand increases. The running pods stay.
//  2. A machine fails. The autoscaler replaces it, and the eleven replicas run again.
//  3. Before a schedule begins, gpuscaler prints a command that annotates the nodes. Annotated nodes stay although they are empty.
//  4. Without the annotation the autoscaler removes the unneeded nodes. The node of the notebook stays, and the last replica moves to it.
//
// gpuscaler writes nothing to a Node.
func TestTargetIsCappedAtTheNodesThatTheAutoscalerMayAdd(t *testing.T) {
	ns, load := suite.Namespace(t, "fleet"), &exporter.Knobs{}
	set := func(replicas int32) { load.Set(exporter.Values{Upstream: float64(replicas)*10 - 3}) }
	nodes := &autoscaler{client: suite.Stack.Client, group: nodeGroup{name: "l40s", labels: l40s, gpus: 4, max: 3}}
	go nodes.run(t.Context())
	set(1)
	suite.Export(t, workload.Metrics(ns, "chat", load))
	notebook := onFleet(workload.Deployment(ns, "notebook", 1))
	notebook.Spec.Template.Annotations = map[string]string{safeToEvict: "false"}
	workload.Create(t, suite.Stack.Client, notebook)
	stack.Eventually(t, time.Minute, "the notebook runs", workload.HasReplicas(suite.Stack.Client, ns, "notebook", 1))
	chat := suite.Workload(t, onFleet(workload.Deployment(ns, "chat", 1)), chatPolicy)
	stack.Eventually(t, time.Minute, "one replica", chat.HasTarget(1))

	set(12)
	stack.Eventually(t, time.Minute, "the target is not capped while nodes may be added", chat.HasTarget(12))
	stack.Eventually(t, time.Minute, "eleven replicas run on three nodes", ready(ns, 11, 3))
	before := running(t.Context(), t, ns)
	stack.Eventually(t, 3*time.Minute, "the group has no node for further replicas", func(ctx context.Context) error {
		if !strings.Contains(suite.Log(), "its nodes accelerator=l40s have reached maxNodes") {
			return errors.New("the log does not say it")
		}
		_, err := suite.Metric(ctx, "gpuscaler_group_constrained_replicas", "group", "chat")
		return err
	})
	set(20)
	stack.Eventually(t, time.Minute, "the target is capped", chat.Explained(func(e explain.Explanation) error {
		if e.Target != 12 || e.Binding != "capacity" {
			return fmt.Errorf("target %d by the rule %s, want 12 by the rule capacity: %s", e.Target, e.Binding, e.Why)
		}
		if by := e.CappedBy; by == nil || len(by.NodePools) != 1 || by.NodePools[0].Limited != "maxNodes" || by.NodePools[0].Unmanaged != 1 {
			return fmt.Errorf("capped by %+v, want maxNodes, with one GPU of the notebook", by)
		}
		return nil
	}))
	if err := replicas(t.Context(), ns, 12); err != nil {
		t.Error(err)
	}
	if after := running(t.Context(), t, ns); !maps.Equal(before, after) {
		t.Errorf("the cap replaced running pods: %v, before %v", after, before)
	}

	lost := nodeOf(t, ns, "chat", notebookNode(t, ns))
	if err := nodes.lose(t.Context(), lost); err != nil {
		t.Fatal(err)
	}
	stack.Eventually(t, time.Minute, "the replicas run on a new node", ready(ns, 11, 3))
	if n := nodes.greatest(); n != 3 {
		t.Errorf("%d nodes at a time, want 3", n)
	}

	keepAndRelease(t, ns, chat, func() { set(1) })
}

// keepAndRelease is the last part of the test: a schedule, the command that gpuscaler prints before the schedule begins, and the removal of
// unneeded nodes.
func keepAndRelease(t *testing.T, ns string, chat controller.Workload, calm func()) {
	t.Helper()
	from := time.Now().UTC().Truncate(time.Minute).Add(3 * time.Minute)
	schedule := fmt.Sprintf("schedules:\n- {name: peak, timezone: UTC, from: %q, until: %q, minReplicas: 7}\n",
		from.Format("2006-01-02T15:04"), from.Add(time.Hour).Format("2006-01-02T15:04"))
	if err := suite.Policies.Put(chat.File(), controller.Policy(ns, "chat", chatPolicy+schedule)); err != nil {
		t.Fatal(err)
	}
	stack.Eventually(t, time.Minute, "the leader advises to keep nodes", func(ctx context.Context) error {
		_, err := suite.Metric(ctx, "gpuscaler_group_finding", "group", "chat", "finding", "keep-nodes")
		return err
	})
	plan, err := suite.CLI(t.Context(), "capacity", "plan", "--config", suite.Policies.Dir, "--kubeconfig", suite.Stack.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	advised := regexp.MustCompile(`known demand needs 2 nodes of group chat .* run kubectl annotate nodes -l (\S+) ([^\s=]+)=(\w+);`)
	command := advised.FindStringSubmatch(plan)
	if command == nil {
		t.Fatalf("no command:\n%s", plan)
	}
	annotate(t, command[1], fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, command[2], command[3]))
	calm()
	stack.Eventually(t, time.Minute, "one replica", func(ctx context.Context) error { return replicas(ctx, ns, 1) })
	stack.Always(t, 2*unneededTime, "the nodes are kept", func(ctx context.Context) error { return fleetNodes(ctx, 3) })

	annotate(t, command[1], fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, command[2]))
	stack.Eventually(t, time.Minute, "only the notebook's node is left, and the replica runs there", func(ctx context.Context) error {
		return errors.Join(fleetNodes(ctx, 1), ready(ns, 1, 1)(ctx))
	})
	var list corev1.NodeList
	if err := suite.Stack.Client.List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	for _, n := range list.Items {
		for _, f := range n.ManagedFields {
			if strings.Contains(f.Manager, "gpuscaler") {
				t.Errorf("gpuscaler wrote to Node %s: %s", n.Name, f.FieldsV1)
			}
		}
	}
}

// onFleet restricts the pods of a Deployment to nodes of the group.
func onFleet(d *appsv1.Deployment) *appsv1.Deployment {
	d.Spec.Template.Spec.NodeSelector = l40s
	return d
}

// pods returns the ready pods of a Deployment.
func pods(ctx context.Context, ns, app string) (found []corev1.Pod, err error) {
	var list corev1.PodList
	err = suite.Stack.Client.List(ctx, &list, client.InNamespace(ns), client.MatchingLabels{"app": app})
	for _, p := range list.Items {
		if p.DeletionTimestamp == nil && slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		}) {
			found = append(found, p)
		}
	}
	return found, err
}

// running returns the UID and the node of each ready replica.
func running(ctx context.Context, t *testing.T, ns string) map[types.UID]string {
	t.Helper()
	list, err := pods(ctx, ns, "chat")
	if err != nil {
		t.Fatal(err)
	}
	found := map[types.UID]string{}
	for _, p := range list {
		found[p.UID] = p.Spec.NodeName
	}
	return found
}

// ready returns a check of the number of ready replicas and of the number of nodes of the group.
func ready(ns string, want, nodes int) func(context.Context) error {
	return func(ctx context.Context) error {
		list, err := pods(ctx, ns, "chat")
		if err == nil && len(list) != want {
			err = fmt.Errorf("%d ready replicas, want %d", len(list), want)
		}
		return errors.Join(err, fleetNodes(ctx, nodes))
	}
}

func fleetNodes(ctx context.Context, want int) error {
	var list corev1.NodeList
	err := suite.Stack.Client.List(ctx, &list, client.MatchingLabels(l40s))
	if err == nil && len(list.Items) != want {
		err = fmt.Errorf("%d nodes, want %d", len(list.Items), want)
	}
	return err
}

// replicas returns an error unless the HPA has set the given number of replicas.
func replicas(ctx context.Context, ns string, want int32) error {
	var d appsv1.Deployment
	err := suite.Stack.Client.Get(ctx, client.ObjectKey{Namespace: ns, Name: "chat"}, &d)
	if err == nil && *d.Spec.Replicas != want {
		err = fmt.Errorf("%d replicas, want %d", *d.Spec.Replicas, want)
	}
	return err
}

func notebookNode(t *testing.T, ns string) string { return nodeOf(t, ns, "notebook", "") }

// nodeOf returns a node that runs a pod of the Deployment, other than the node `except`.
func nodeOf(t *testing.T, ns, app, except string) string {
	t.Helper()
	list, err := pods(t.Context(), ns, app)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range list {
		if p.Spec.NodeName != except {
			return p.Spec.NodeName
		}
	}
	t.Fatalf("no pod of %s runs on another node than %q", app, except)
	return ""
}

// annotate patches the nodes that a label selector selects, as `kubectl annotate` does.
func annotate(t *testing.T, selector, patch string) {
	t.Helper()
	var list corev1.NodeList
	key, value, _ := strings.Cut(selector, "=")
	if err := suite.Stack.Client.List(t.Context(), &list, client.MatchingLabels{key: value}); err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		raw := client.RawPatch(types.MergePatchType, []byte(patch))
		if err := suite.Stack.Client.Patch(t.Context(), &list.Items[i], raw, client.FieldOwner("kubectl-annotate")); err != nil {
			t.Fatal(err)
		}
	}
}
