package main

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscaler/gpuscaler/e2e/stack"
)

// pod returns the pod of policy i. Its nodeName is set, so that kube-scheduler has no work.
func pod(i int) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespaceOf(i), Name: nameOf(i), Labels: map[string]string{"app": nameOf(i)}},
		Spec:       corev1.PodSpec{NodeName: "node-0", Containers: []corev1.Container{{Name: "vllm", Image: "vllm/vllm-openai"}}},
	}
}

// each calls do for every policy, eight policies at the same time.
func (c *cluster) each(do func(i int) error) error {
	var g errgroup.Group
	g.SetLimit(8)
	for i := range c.n {
		g.Go(func() error { return do(i) })
	}
	return g.Wait()
}

// pods creates a ready pod for each policy. It measures the reads of the leader while the containers of all pods restart, so that each pod
// is not Ready for some time and is then Ready again.
func (f *faultRun) pods(ctx context.Context) error {
	if err := f.each(func(i int) error { return f.stack.Client.Create(ctx, pod(i)) }); err != nil {
		return err
	}
	defer func() {
		// An error is ignored, because the stack ends soon.
		_ = f.each(func(i int) error { return f.stack.Client.Delete(ctx, pod(i), client.GracePeriodSeconds(0)) })
	}()
	if err := stack.Poll(ctx, 5*time.Minute, f.podsReady); err != nil {
		return err
	}
	var restarting errgroup.Group
	var took time.Duration
	restarting.Go(func() error {
		began := time.Now()
		for _, ready := range []bool{false, true} {
			if err := f.each(func(i int) error { return f.restarted(ctx, i, ready) }); err != nil {
				return err
			}
		}
		took = time.Since(began)
		return nil
	})
	if err := f.readsOfLeader(ctx, fmt.Sprintf("%d pods restart", f.n)); err != nil {
		return err
	}
	if err := restarting.Wait(); err != nil {
		return err
	}
	return f.served(ctx, fmt.Sprintf("change of all signals after %d pods restarted within %s", f.n, took.Round(time.Second)), f.raise())
}

// podsReady returns an error while a pod of a policy is not Ready.
func (f *faultRun) podsReady(ctx context.Context) error {
	var list corev1.PodList
	if err := f.stack.Client.List(ctx, &list, client.HasLabels{"app"}); err != nil {
		return err
	}
	ready := 0
	for _, p := range list.Items {
		for _, condition := range p.Status.Conditions {
			if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue {
				ready++
			}
		}
	}
	if ready < f.n {
		return fmt.Errorf("%d of %d pods are Ready", ready, f.n)
	}
	return nil
}

// restarted writes the status of the pod of policy i. If ready is false, the container restarts; if ready is true, it has restarted.
func (f *faultRun) restarted(ctx context.Context, i int, ready bool) error {
	status, state := "False", `{"waiting":{"reason":"CrashLoopBackOff"}}`
	if ready {
		status, state = "True", fmt.Sprintf(`{"running":{"startedAt":%q}}`, time.Now().UTC().Format(time.RFC3339))
	}
	patch := fmt.Sprintf(`{"status":{"conditions":[{"type":"Ready","status":%q,"lastTransitionTime":%q}],`+
		`"containerStatuses":[{"name":"vllm","image":"vllm/vllm-openai","imageID":"","restartCount":1,"ready":%t,"state":%s}]}}`,
		status, time.Now().UTC().Format(time.RFC3339), ready, state)
	return f.stack.Client.Status().Patch(ctx, pod(i), client.RawPatch("application/strategic-merge-patch+json", []byte(patch)))
}

// expire restarts the API server while it measures the reads at the leader's port. All watches end at the same time. The new API server has
// no watch events from before its start, so it refuses to continue the watches (410, Expired). gpuscaler must then fill every cache again.
func (f *faultRun) expire(ctx context.Context) error {
	leader, err := f.leader(ctx, f.ours)
	if err != nil {
		return err
	}
	leader.through = nil // reads through the API server are not measured, because the API server restarts
	var restarting errgroup.Group
	restarting.Go(func() error {
		time.Sleep(f.d / 4)
		_, err := f.stack.Restart("kube-apiserver")
		return err
	})
	if err := f.reads(ctx, leader, "all watches expire"); err != nil {
		return err
	}
	if err := restarting.Wait(); err != nil {
		return err
	}
	return f.served(ctx, "change of all signals after all watches expired", f.raise())
}
