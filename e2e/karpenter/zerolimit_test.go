package karpenter_test

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscaler/gpuscaler/e2e/controller"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
	"github.com/gpuscaler/gpuscaler/e2e/workload"
)

const allFields = "limits,weight,disruption"

func TestZeroLimitIsSetWithoutDemandAndRemovedBeforeDemand(t *testing.T) {
	t.Parallel()
	pools := []pool{
		{name: "zero-spot", kind: "spot", weight: 80, nudge: allFields, by: clientSide, limit: int64(16), edit: withCPU},
		{name: "zero-od", kind: "on-demand", weight: 20, nudge: allFields, by: serverSide, limit: "8"},
		{name: "zero-res", kind: "reserved", weight: 10, nudge: allFields, by: updated},
	}
	contents, hashes := map[string]string{}, map[string]string{}
	for _, p := range pools {
		p.create(t)
	}
	// The pods can run only on spot nodes. gpuscaler may remove the limits of the NodePools at different times, for example on a slow
	// machine. A pod that could run on any node might then start on an on-demand node first.
	chat(t, "zero", map[string]string{"pool": pools[0].name})
	for _, p := range pools {
		contents[p.name], hashes[p.name] = p.content(t), p.hash(t.Context())
	}
	g := start(t, "zero", map[string]string{
		"platform.yaml": controller.Platform("capacityGroups:\n- {name: gpu, resource: nvidia.com/gpu, zeroLimit: true, nodePools: {spot: " +
			"zero-spot, on-demand: zero-od, reserved: zero-res}}\n"),
		"chat.yaml": chatPolicy("zero"),
	})
	g.load(t, map[string]float64{"zero/chat": 0})
	limited := func(ctx context.Context) error {
		var all error
		for _, p := range pools {
			if limit := p.limitNow(ctx); limit != "0" {
				all = errors.Join(all, fmt.Errorf("%s: limit %s", p.name, limit))
			}
		}
		return all
	}
	stack.Eventually(t, 40*time.Second, "every pool has a zero limit", limited)

	g.end(syscall.SIGKILL)
	g.run(t)
	time.Sleep(3 * time.Second) // the next leader must keep the zero limit during this time
	if err := limited(t.Context()); err != nil {
		t.Errorf("after a crash: %v", err)
	}

	small := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "zero", Name: "web"}, Spec: corev1.PodSpec{
		NodeSelector: map[string]string{"pool": pools[0].name}, Containers: []corev1.Container{{Name: "web", Image: "web"}},
	}}
	workload.Create(t, suite.Client, small)
	stack.Eventually(t, 40*time.Second, "a pod without a GPU gets a node from a pool with a zero limit", func(ctx context.Context) error {
		if err := suite.Client.Get(ctx, client.ObjectKeyFromObject(small), small); err != nil || small.Status.Phase != corev1.PodRunning {
			return fmt.Errorf("it is %s: %w", small.Status.Phase, err)
		}
		return limited(ctx)
	})
	if err := suite.Client.Delete(t.Context(), small, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}

	job := lonelyJob(t, "zero", map[string]string{"suite": "zero"}) // a pod that requests a GPU and has no policy
	if err := suite.Client.Delete(t.Context(), job, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	stack.Eventually(t, time.Minute, "the zero limit is removed for the Job and set again after it", limited)

	g.load(t, map[string]float64{"zero/chat": 2})
	restored := func(context.Context) error {
		var all error
		for _, p := range pools {
			if content := p.content(t); content != contents[p.name] {
				all = errors.Join(all, fmt.Errorf("%s by %s differs:\n%s\nbefore:\n%s", p.name, p.by, content, contents[p.name]))
			}
		}
		return all
	}
	stack.Eventually(t, 20*time.Second, "every pool is restored byte for byte, without fields of gpuscaler", restored)
	g.group(t, 40*time.Second, "two spot nodes", func(s fastGroup) error {
		if s.SpotNodes != 2 || s.OnDemandNodes != 0 {
			return errors.New("not two spot nodes")
		}
		return nil
	})

	g.explained(t, "zero limit: no pod", "no zero limit: a pod that may need nvidia.com/gpu is pending", " zero limit: no pod",
		"no zero limit: ")
	for _, p := range pools {
		if h := p.hash(t.Context()); h != hashes[p.name] || h == "" {
			t.Errorf("%s drifted: %s -> %s", p.name, hashes[p.name], h)
		}
	}
}

// withCPU allows a NodePool to launch nodes without GPUs.
func withCPU(spec map[string]any) {
	requirements := spec["template"].(map[string]any)["spec"].(map[string]any)["requirements"].([]any)
	types := requirements[1].(map[string]any)
	types["values"] = append(types["values"].([]any), cpu.Name)
}
