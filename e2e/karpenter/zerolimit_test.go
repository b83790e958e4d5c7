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

func TestAFenceStandsAtNightAndIsGoneWithoutATraceBeforeTheDay(t *testing.T) {
	t.Parallel()
	pools := []pool{
		{name: "fence-spot", kind: "spot", weight: 80, nudge: allFields, by: clientSide, limit: int64(16), edit: withCPU},
		{name: "fence-od", kind: "on-demand", weight: 20, nudge: allFields, by: serverSide, limit: "8"},
		{name: "fence-res", kind: "reserved", weight: 10, nudge: allFields, by: updated},
	}
	faces, hashes := map[string]string{}, map[string]string{}
	for _, p := range pools {
		p.create(t)
	}
	// For spot alone: where the limits are lifted a moment apart, as on a machine that stalls, a node may come on demand, and returns
	// at its pace.
	chat(t, "fence", map[string]string{"pool": pools[0].name})
	for _, p := range pools {
		faces[p.name], hashes[p.name] = p.face(t), p.hash(t.Context())
	}
	g := start(t, "fence", map[string]string{
		"platform.yaml": controller.Platform("capacityGroups:\n- {name: gpu, resource: nvidia.com/gpu, zeroLimit: true, nodePools: {spot: fence-spot, on-demand: fence-od, reserved: fence-res}}\n"),
		"chat.yaml":     chatPolicy("fence"),
	})
	g.load(t, map[string]float64{"fence/chat": 0})
	fenced := func(ctx context.Context) error {
		var all error
		for _, p := range pools {
			if limit := p.limitNow(ctx); limit != "0" {
				all = errors.Join(all, fmt.Errorf("%s: limit %s", p.name, limit))
			}
		}
		return all
	}
	stack.Eventually(t, 40*time.Second, "every pool is fenced", fenced)

	g.end(syscall.SIGKILL)
	g.run(t)
	time.Sleep(3 * time.Second) // the next leader finds the fence and keeps it
	if err := fenced(t.Context()); err != nil {
		t.Errorf("after a crash: %v", err)
	}

	small := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "fence", Name: "web"}, Spec: corev1.PodSpec{
		NodeSelector: map[string]string{"pool": pools[0].name}, Containers: []corev1.Container{{Name: "web", Image: "web"}},
	}}
	workload.Create(t, suite.Client, small)
	stack.Eventually(t, 40*time.Second, "a pod without a GPU has its machine from a fenced pool", func(ctx context.Context) error {
		if err := suite.Client.Get(ctx, client.ObjectKeyFromObject(small), small); err != nil || small.Status.Phase != corev1.PodRunning {
			return fmt.Errorf("it is %s: %w", small.Status.Phase, err)
		}
		return fenced(ctx)
	})
	if err := suite.Client.Delete(t.Context(), small, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}

	job := lonelyJob(t, "fence", map[string]string{"suite": "fence"}) // a GPU, and no policy that would ask for it
	if err := suite.Client.Delete(t.Context(), job, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	stack.Eventually(t, time.Minute, "the fence went for the Job, and stands again after it", fenced)

	g.load(t, map[string]float64{"fence/chat": 2})
	whole := func(context.Context) error {
		var all error
		for _, p := range pools {
			if face := p.face(t); face != faces[p.name] {
				all = errors.Join(all, fmt.Errorf("%s by %s is not as before:\n%s\nbefore:\n%s", p.name, p.by, face, faces[p.name]))
			}
		}
		return all
	}
	stack.Eventually(t, 20*time.Second, "every pool is as before, byte for byte, and nothing of it is ours", whole)
	g.group(t, 40*time.Second, "two spot nodes", func(s fastGroup) error {
		if s.SpotNodes != 2 || s.OnDemandNodes != 0 {
			return errors.New("not two on spot")
		}
		return nil
	})

	g.explained(t, "zero limit: no pod", "no zero limit: a pod is pending", " zero limit: no pod", "no zero limit: ")
	for _, p := range pools {
		if h := p.hash(t.Context()); h != hashes[p.name] || h == "" {
			t.Errorf("%s drifted: %s -> %s", p.name, hashes[p.name], h)
		}
	}
}

// withCPU lets a pool launch machines without a GPU too.
func withCPU(spec map[string]any) {
	requirements := spec["template"].(map[string]any)["spec"].(map[string]any)["requirements"].([]any)
	types := requirements[1].(map[string]any)
	types["values"] = append(types["values"].([]any), cpu.Name)
}
