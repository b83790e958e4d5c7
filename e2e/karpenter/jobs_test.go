package karpenter_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscaler/gpuscaler/e2e/controller"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
	"github.com/gpuscaler/gpuscaler/e2e/workload"
)

// trainingTime is how long the pods of the Job run: fifteen minutes of gpuscaler's fast clock.
const trainingTime = 30 * time.Second

// The real CronJob controller creates a Job with two GPU pods in a group that has a zero limit and no demand. The zero limit must be
// removed, and the pods must get nodes. These nodes must stay until the pods complete, although the policy's own workload scales to zero
// before that. Completed pods must not count as demand: the nodes are removed and the zero limit is set again.
func TestPodsOfACronJobAreDemandUntilTheyComplete(t *testing.T) {
	t.Parallel()
	const ns = "batch"
	spot := pool{name: "batch-spot", kind: "spot", weight: 80, nudge: allFields, by: clientSide, limit: int64(16)}
	spot.create(t)
	chat(t, ns, nil)
	g := start(t, ns, map[string]string{
		"platform.yaml": controller.Platform("capacityGroups:\n- {name: gpu, resource: nvidia.com/gpu, zeroLimit: true, " +
			"nodePools: {spot: batch-spot}}\n"),
		"chat.yaml": chatPolicy(ns),
	})
	g.load(t, map[string]float64{"batch/chat": 0})
	zeroLimit := func(ctx context.Context) error {
		if limit := spot.limitNow(ctx); limit != "0" {
			return fmt.Errorf("limit %s", limit)
		}
		return nil
	}
	stack.Eventually(t, 40*time.Second, "the NodePool has a zero limit", zeroLimit)

	pods := cronJob(t, ns)
	stack.Eventually(t, 100*time.Second, "the CronJob creates a Job with two pods", func(ctx context.Context) error {
		return pods(ctx, 2, corev1.PodPending, corev1.PodRunning)
	})
	g.group(t, 10*time.Second, "the pods of the Job are demand", func(s fastGroup) error {
		if s.Demand != 2 {
			return errors.New("not 2 GPUs")
		}
		return nil
	})
	stack.Eventually(t, 30*time.Second, "the pods run", func(ctx context.Context) error { return pods(ctx, 2, corev1.PodRunning) })
	on := jobNodes(t, ns)

	g.load(t, map[string]float64{"batch/chat": 1})
	stack.Eventually(t, 30*time.Second, "a replica of the policy's workload runs beside the Job",
		workload.HasReplicas(suite.Client, ns, "chat", 1))
	g.load(t, map[string]float64{"batch/chat": 0})
	stack.Always(t, 10*time.Second, "the scale-down takes no node of the Job", func(ctx context.Context) error {
		if now := jobNodes(t, ns); fmt.Sprint(now) != fmt.Sprint(on) {
			return fmt.Errorf("the pods are on %v, before on %v", now, on)
		}
		return pods(ctx, 2, corev1.PodRunning)
	})

	stack.Eventually(t, time.Minute, "the pods complete on their nodes", func(ctx context.Context) error {
		return pods(ctx, 2, corev1.PodSucceeded)
	})
	if after := jobNodes(t, ns); fmt.Sprint(after) != fmt.Sprint(on) {
		t.Errorf("the pods completed on %v, before on %v", after, on)
	}
	g.group(t, time.Minute, "completed pods are no demand and keep no node", func(s fastGroup) error {
		if s.Demand != 0 || s.Pending != 0 || s.SpotNodes != 0 {
			return errors.New("demand or nodes are left")
		}
		return nil
	})
	stack.Eventually(t, time.Minute, "the zero limit is set again", zeroLimit)
	if err := pods(t.Context(), 2, corev1.PodSucceeded); err != nil {
		t.Errorf("the completed pods exist until the end of the test: %v", err)
	}
	g.explained(t, "zero limit: no pod", "no zero limit: a pod that may need nvidia.com/gpu is pending", " zero limit: no pod")
}

// cronJob creates a CronJob whose Jobs have two pods with one GPU each, and suspends it when the first Job exists. The returned function
// checks the number of the Job's pods and their phases.
func cronJob(t *testing.T, namespace string) (pods func(ctx context.Context, n int, phases ...corev1.PodPhase) error) {
	t.Helper()
	template := workload.Deployment(namespace, "train", 1).Spec.Template
	template.Labels = map[string]string{"job": "train"}
	template.Annotations = map[string]string{stack.RunTimeAnnotation: trainingTime.String()}
	template.Spec.NodeSelector = map[string]string{"suite": namespace}
	template.Spec.RestartPolicy = corev1.RestartPolicyNever
	two := int32(2)
	c := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "train"}, Spec: batchv1.CronJobSpec{
		Schedule: "* * * * *", ConcurrencyPolicy: batchv1.ForbidConcurrent,
		JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Parallelism: &two, Completions: &two, Template: template}},
	}}
	workload.Create(t, suite.Client, c)
	t.Cleanup(func() {
		_ = suite.Client.Delete(context.Background(), c, client.PropagationPolicy(metav1.DeletePropagationBackground))
	})
	suspended := false
	return func(ctx context.Context, n int, phases ...corev1.PodPhase) error {
		var list corev1.PodList
		if err := suite.Client.List(ctx, &list, client.InNamespace(namespace), client.MatchingLabels{"job": "train"}); err != nil {
			return err
		}
		if len(list.Items) > 0 && !suspended {
			patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"suspend":true}}`))
			if err := suite.Client.Patch(ctx, c, patch); err != nil {
				return err
			}
			suspended = true
		}
		in := map[corev1.PodPhase]int{}
		for i := range list.Items {
			in[list.Items[i].Status.Phase]++
		}
		found := 0
		for _, phase := range phases {
			found += in[phase]
		}
		if len(list.Items) != n || found != n {
			return fmt.Errorf("phases of the pods: %v, want %d in %v", in, n, phases)
		}
		return nil
	}
}

// jobNodes returns the node of each pod of the CronJob, by the name of the pod.
func jobNodes(t *testing.T, namespace string) map[string]string {
	t.Helper()
	var list corev1.PodList
	if err := suite.Client.List(t.Context(), &list, client.InNamespace(namespace), client.MatchingLabels{"job": "train"}); err != nil {
		t.Fatal(err)
	}
	nodes := map[string]string{}
	for i := range list.Items {
		nodes[list.Items[i].Name] = list.Items[i].Spec.NodeName
	}
	return nodes
}
