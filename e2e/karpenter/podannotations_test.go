package karpenter_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscaler/gpuscaler/e2e/controller"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
	"github.com/gpuscaler/gpuscaler/e2e/workload"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

const (
	costMark   = "controller.kubernetes.io/pod-deletion-cost"
	shieldMark = "karpenter.sh/do-not-disrupt"
)

// podsOf returns the pods of the Deployment chat in a namespace, oldest first, without terminating pods.
func podsOf(ctx context.Context, namespace string) (pods []corev1.Pod, err error) {
	var list corev1.PodList
	err = suite.Client.List(ctx, &list, client.InNamespace(namespace), client.MatchingLabels{"app": "chat"})
	pods = slices.DeleteFunc(list.Items, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil })
	slices.SortFunc(pods, func(a, b corev1.Pod) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	return pods, err
}

// marked waits until exactly one pod of the Deployment chat has the annotation, and returns its name.
func marked(t *testing.T, namespace, key, value string) (name string) {
	t.Helper()
	stack.Eventually(t, 30*time.Second, "one pod has "+key+" "+value, func(ctx context.Context) error {
		pods, err := podsOf(ctx, namespace)
		if err != nil {
			return err
		}
		found := []string{}
		for _, p := range pods {
			if p.Annotations[key] == value {
				found = append(found, p.Name)
			}
		}
		if len(found) != 1 {
			return fmt.Errorf("%d pods have the annotation", len(found))
		}
		name = found[0]
		return nil
	})
	return name
}

// gone waits until the Deployment has one pod less than before, and returns the name of the missing pod.
func gone(t *testing.T, namespace string, before []corev1.Pod) (name string) {
	t.Helper()
	stack.Eventually(t, 30*time.Second, "one pod is deleted", func(ctx context.Context) error {
		now, err := podsOf(ctx, namespace)
		if err != nil || len(now) != len(before)-1 {
			return fmt.Errorf("%d pods of %d (%v)", len(now), len(before), err)
		}
		for _, p := range before {
			if !slices.ContainsFunc(now, func(n corev1.Pod) bool { return n.Name == p.Name }) {
				name = p.Name
			}
		}
		return nil
	})
	return name
}

func packing(on bool, pools string) string {
	return controller.Platform(fmt.Sprintf("capacityGroups:\n- {name: gpu, resource: nvidia.com/gpu, emptyWholeNodes: %t, nodePools: {%s}}\n",
		on, pools))
}

// The test has two nodes with two GPUs each. One node runs two replicas. The other node runs one replica and ran a Job, which has ended. A
// scale-in by one must delete the single replica, so that its node becomes empty. Without gpuscaler the ReplicaSet controller deletes one
// of the two replicas on the other node.
func TestScaleInDeletesTheReplicaThatFreesANode(t *testing.T) {
	t.Parallel()
	for name, on := range map[string]bool{"pack": true, "unpack": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := pool{name: name + "-spot", kind: "spot", weight: 80, by: clientSide,
				limit: int64(0)} // 0 until all four pods are pending, so that Karpenter launches the nodes of all pods in one batch
			p.create(t)
			chat(t, name, nil)
			g := startAt(t, 1, name, map[string]string{"platform.yaml": packing(on, "spot: "+p.name), "chat.yaml": chatPolicy(name)})
			g.load(t, map[string]float64{name + "/chat": 3})
			job := workload.Deployment(name, "job", 1)
			job.Spec.Template.Spec.NodeSelector = map[string]string{"suite": name}
			workload.Create(t, suite.Client, job)
			t.Cleanup(func() { _ = suite.Client.Delete(context.Background(), job, client.PropagationPolicy("Background")) })
			stack.Eventually(t, 40*time.Second, "four pods are pending", func(ctx context.Context) error {
				var pods corev1.PodList
				if err := suite.Client.List(ctx, &pods, client.InNamespace(name)); err != nil || len(pods.Items) != 4 {
					return fmt.Errorf("%d pods (%v)", len(pods.Items), err)
				}
				return nil
			})
			lift := client.RawPatch("application/json-patch+json", []byte(`[{"op":"remove","path":"/spec/limits"}]`))
			if err := suite.Client.Patch(t.Context(), p.object(), lift); err != nil {
				t.Fatal(err)
			}
			stack.Eventually(t, time.Minute, "three replicas and the Job run", func(ctx context.Context) error {
				if err := workload.HasReplicas(suite.Client, name, "chat", 3)(ctx); err != nil {
					return err
				}
				return workload.HasReplicas(suite.Client, name, "job", 1)(ctx)
			})
			if nodes := nodesOf(t.Context(), t, name); len(nodes) != 2 {
				t.Fatalf("on nodes %v, want two of two GPUs", nodes)
			}
			if err := suite.Client.Delete(t.Context(), job, client.PropagationPolicy("Foreground")); err != nil {
				t.Fatal(err)
			}
			before, lonely := lonelyOf(t, name)
			if on {
				if m := marked(t, name, costMark, "-10"); m != lonely {
					t.Errorf("%s has the lower deletion cost; %s is alone on its node", m, lonely)
				}
				g.explained(t, "scale-in packing:")
			}
			g.load(t, map[string]float64{name + "/chat": 2})
			went := gone(t, name, before)
			if (went == lonely) != on {
				t.Errorf("%s was deleted; %s was alone on its node; packing is %t", went, lonely, on)
			}
			// Without packing, two half-empty nodes are left. Karpenter may consolidate these nodes and move a ready replica, so in this case the
			// test does not wait for the removal of a node.
			if on {
				g.group(t, 90*time.Second, "its node is removed", on1(1))
			}
			g.load(t, map[string]float64{name + "/chat": 0})
		})
	}
}

func on1(nodes int) func(fastGroup) error {
	return func(s fastGroup) error { return onNodes(s.SpotNodes, nodes) }
}

func onNodes(have, want int) error {
	if have != want {
		return fmt.Errorf("%d nodes, want %d", have, want)
	}
	return nil
}

// lonelyOf waits until the Job's pod has been deleted. It returns the three replicas, and the name of the replica that is alone on its
// node.
func lonelyOf(t *testing.T, namespace string) (pods []corev1.Pod, lonely string) {
	t.Helper()
	stack.Eventually(t, 40*time.Second, "one replica has a node for itself", func(ctx context.Context) error {
		var all corev1.PodList
		if err := suite.Client.List(ctx, &all, client.InNamespace(namespace)); err != nil || len(all.Items) != 3 {
			return fmt.Errorf("%d pods (%v)", len(all.Items), err)
		}
		pods = all.Items
		on := map[string]int{}
		for _, p := range pods {
			on[p.Spec.NodeName]++
		}
		for _, p := range pods {
			if on[p.Spec.NodeName] == 1 && len(on) == 2 {
				lonely = p.Name
				return nil
			}
		}
		return fmt.Errorf("pods by node: %v", on)
	})
	return pods, lonely
}

// The oldest replica is on-demand, and the youngest replica is on spot. A scale-in must delete the on-demand replica, which costs more.
// Without gpuscaler, the ReplicaSet controller deletes the youngest replica, which is on spot.
func TestLongScaleInDeletesTheReplicaOnDemand(t *testing.T) {
	if os.Getenv("GPUSCALER_E2E_LONG") == "" {
		t.Skip("a minute and a half, as ages count by their order of magnitude: GPUSCALER_E2E_LONG=1, or make test-long")
	}
	t.Parallel()
	for name, on := range map[string]bool{"costly": true, "cheap": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool{name: name + "-od", kind: "on-demand", weight: 20, by: clientSide}.create(t)
			workload.Scale(t, suite.Client, chat(t, name, nil), 1)
			stack.Eventually(t, time.Minute, "one on demand", workload.HasReplicas(suite.Client, name, "chat", 1))
			since := time.Now()
			pool{name: name + "-spot", kind: "spot", weight: 80, by: clientSide}.create(t)
			g := startAt(t, 1, name, map[string]string{
				"platform.yaml": packing(on, "spot: "+name+"-spot, on-demand: "+name+"-od"), "chat.yaml": chatPolicy(name),
			})
			g.load(t, map[string]float64{name + "/chat": 1})
			// The ReplicaSet controller compares only the orders of magnitude of ages, so the first pod must be much older than the second.
			time.Sleep(max(0, 45*time.Second-time.Since(since)))
			g.load(t, map[string]float64{name + "/chat": 2})
			stack.Eventually(t, time.Minute, "two serve", workload.HasReplicas(suite.Client, name, "chat", 2))
			g.group(t, 10*time.Second, "the second on spot", func(s fastGroup) error { return onNodes(s.SpotNodes*10+s.OnDemandNodes, 11) })
			pods, err := podsOf(t.Context(), name)
			if err != nil || len(pods) != 2 {
				t.Fatal(err)
			}
			if on {
				if m := marked(t, name, costMark, "-20"); m != pods[0].Name {
					t.Errorf("%s has the lower deletion cost; %s is on-demand", m, pods[0].Name)
				}
			}
			g.load(t, map[string]float64{name + "/chat": 1})
			if went := gone(t, name, pods); (went == pods[0].Name) != on {
				t.Errorf("%s was deleted; %s was on-demand; packing is %t", went, pods[0].Name, on)
			}
			stack.Eventually(t, 20*time.Second, "the remaining pod has no deletion cost", func(ctx context.Context) error {
				left, err := podsOf(ctx, name)
				if err != nil || on && len(left) == 1 && left[0].Annotations[costMark] != "" {
					return fmt.Errorf("%v %v", left[0].Annotations, err)
				}
				return nil
			})
			g.load(t, map[string]float64{name + "/chat": 0})
		})
	}
}

// Idle reports whether the file "idle", which the test writes, contains the name of the pod. In gpuscaler, package telemetry reports the
// utilization of single pods instead.
func (d *demand) Idle(_ *scaling.Workload, pod string, _ time.Time) bool {
	text, err := os.ReadFile(filepath.Join(filepath.Dir(d.config.Load), "idle"))
	return err == nil && string(text) == pod
}

// The oldest replica is idle, and the youngest is busy. A scale-in must delete the idle replica. Without gpuscaler, the ReplicaSet
// controller deletes the youngest replica, which is busy.
func TestLongScaleInDeletesTheIdleReplica(t *testing.T) {
	if os.Getenv("GPUSCALER_E2E_LONG") == "" {
		t.Skip("a minute and a half, as ages count by their order of magnitude: GPUSCALER_E2E_LONG=1, or make test-long")
	}
	t.Parallel()
	for name, on := range map[string]bool{"idle": true, "work": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool{name: name + "-spot", kind: "spot", weight: 80, by: clientSide}.create(t)
			chat(t, name, nil)
			g := startAt(t, 1, name, map[string]string{"platform.yaml": packing(on, "spot: "+name+"-spot"), "chat.yaml": chatPolicy(name)})
			g.load(t, map[string]float64{name + "/chat": 1})
			stack.Eventually(t, time.Minute, "one serves", workload.HasReplicas(suite.Client, name, "chat", 1))
			time.Sleep(30 * time.Second) // makes the first pod much older than the second
			g.load(t, map[string]float64{name + "/chat": 2})
			stack.Eventually(t, time.Minute, "two serve", workload.HasReplicas(suite.Client, name, "chat", 2))
			pods, err := podsOf(t.Context(), name)
			if err != nil || len(pods) != 2 {
				t.Fatal(len(pods), err)
			}
			if err := os.WriteFile(filepath.Join(g.dir, "idle"), []byte(pods[0].Name), 0o600); err != nil {
				t.Fatal(err)
			}
			if on {
				if m := marked(t, name, costMark, "-40"); m != pods[0].Name {
					t.Errorf("%s has the lower deletion cost; %s is idle", m, pods[0].Name)
				}
			}
			g.load(t, map[string]float64{name + "/chat": 1})
			if went := gone(t, name, pods); (went == pods[0].Name) != on {
				t.Errorf("%s was deleted; %s is idle; packing is %t", went, pods[0].Name, on)
			}
			g.load(t, map[string]float64{name + "/chat": 0})
		})
	}
}

// An on-demand replica still loads its model when spot has capacity again. gpuscaler must prevent a move of this replica until it is
// ready. Without gpuscaler, Karpenter moves the replica immediately, and the new replica must load the model again.
func TestLongLoadingReplicaIsNotMovedUntilItIsReady(t *testing.T) {
	if os.Getenv("GPUSCALER_E2E_LONG") == "" {
		t.Skip("a model of three minutes: GPUSCALER_E2E_LONG=1, or make test-long")
	}
	t.Parallel()
	const loads = 150 * time.Second
	for name, on := range map[string]bool{"shield": true, "bare": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			under := func(spec map[string]any) {
				spec["disruption"].(map[string]any)["consolidationPolicy"] = "WhenEmptyOrUnderutilized"
			}
			pool{name: name + "-od", kind: "on-demand", weight: 20, by: clientSide, edit: under}.create(t)
			chat(t, name, nil)
			loading(t, name, loads)
			g := startAt(t, 1, name, map[string]string{
				"platform.yaml": controller.Platform(fmt.Sprintf("capacityGroups:\n- {name: gpu, resource: nvidia.com/gpu, startupShield: %t, "+
					"consolidationFreeze: false, nodePools: {spot: %s-spot, on-demand: %s-od}}\n", on, name, name)),
				"chat.yaml": chatPolicy(name),
			})
			g.load(t, map[string]float64{name + "/chat": 1})
			g.group(t, time.Minute, "one node on demand", func(s fastGroup) error { return onNodes(s.OnDemandNodes, 1) })
			var first corev1.Pod
			stack.Eventually(t, 30*time.Second, "it loads", func(ctx context.Context) error {
				pods, err := podsOf(ctx, name)
				if err != nil || len(pods) != 1 || pods[0].Spec.NodeName == "" {
					return fmt.Errorf("%d pods (%v)", len(pods), err)
				}
				first = pods[0]
				return nil
			})
			if on {
				marked(t, name, shieldMark, "30m")
				g.explained(t, "startup shield: ")
			}
			pool{name: name + "-spot", kind: "spot", weight: 80, by: clientSide, edit: under}.create(t)
			served := stack.Poll(t.Context(), loads+30*time.Second, func(ctx context.Context) error {
				pods, err := podsOf(ctx, name)
				switch {
				case err != nil:
					return err
				case len(pods) != 1 || pods[0].UID != first.UID:
					return nil
				}
				for _, c := range pods[0].Status.Conditions {
					if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
						return nil
					}
				}
				return fmt.Errorf("it loads")
			})
			pods, err := podsOf(t.Context(), name)
			if served != nil || err != nil {
				t.Fatal(served, err)
			}
			if same := len(pods) == 1 && pods[0].UID == first.UID; same != on {
				t.Errorf("the replica that loaded is the ready one: %t; startupShield is %t", same, on)
			}
			if on {
				stack.Eventually(t, 30*time.Second, "the annotation is removed when the replica is ready", unmarked(name))
			}
			g.load(t, map[string]float64{name + "/chat": 0})
		})
	}
}

// loading makes the pods of a test's Deployment ready only after the duration d. This simulates the time for loading a model.
func loading(t *testing.T, namespace string, d time.Duration) {
	t.Helper()
	deployment := appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "chat"}}
	patch := fmt.Sprintf(`{"spec":{"template":{"metadata":{"annotations":{%q:%q}}}}}`, stack.StartupAnnotation, d)
	if err := suite.Client.Patch(t.Context(), &deployment, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		t.Fatal(err)
	}
}
