// Package kubelet runs pods as processes on this host. kwok's pods are Ready
// and do nothing; a pod with the label HostProcess is run for real: its
// command, its environment, its readiness probe, its restarts and its
// termination, on a loopback address of its own. So a Deployment of gpuscaler
// rolls, is drained and loses its leader as in a cluster.
package kubelet

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscaler/gpuscaler/e2e/stack"
)

const (
	syncEvery = 200 * time.Millisecond
	// restartAfter is the pause before a container that ended is started again,
	// as for a kubelet's first restart; there is no back-off after it.
	restartAfter = time.Second
)

// Kubelet runs the labelled pods of one stack.
type Kubelet struct {
	stack *stack.Stack

	mu   sync.Mutex
	pods map[types.UID]*running
	last int // of the addresses handed out
}

// Run runs labelled pods of every namespace until ctx ends; then their
// processes are killed.
func Run(ctx context.Context, s *stack.Stack) *Kubelet {
	k := &Kubelet{stack: s, pods: map[types.UID]*running{}}
	go func() {
		for ctx.Err() == nil {
			if err := k.sync(ctx); err != nil && ctx.Err() == nil {
				fmt.Fprintln(os.Stderr, "kubelet:", err)
			}
			select {
			case <-ctx.Done():
			case <-time.After(syncEvery):
			}
		}
	}()
	return k
}

// Process is the process of a pod that runs now, or nil when none does.
func (k *Kubelet) Process(namespace, name string) *stack.Process {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, r := range k.pods {
		if r.namespace == namespace && r.name == name {
			return r.alive()
		}
	}
	return nil
}

// sync compares the pods that there are with those that run.
func (k *Kubelet) sync(ctx context.Context) error {
	var list corev1.PodList
	if err := k.stack.Client.List(ctx, &list, client.MatchingLabels{stack.HostProcess: "true"}); err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	seen := map[types.UID]bool{}
	for i := range list.Items {
		pod := &list.Items[i]
		seen[pod.UID] = true
		r := k.pods[pod.UID]
		switch {
		case r == nil && pod.Spec.NodeName != "" && pod.DeletionTimestamp == nil:
			k.last++
			r = newRunning(k.stack, pod, k.stack.HostAddress(k.last))
			k.pods[pod.UID] = r
			go r.run(ctx)
		case r == nil && pod.DeletionTimestamp != nil:
			// Deleted before it ran: nothing to end, but the object waits for us.
			if err := k.remove(ctx, pod); err != nil {
				return err
			}
		case r != nil && pod.DeletionTimestamp != nil:
			r.end(time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second)
		}
	}
	for uid, r := range k.pods {
		if !seen[uid] {
			r.end(0) // deleted by force
			delete(k.pods, uid)
		}
	}
	return nil
}

func (k *Kubelet) remove(ctx context.Context, pod *corev1.Pod) error {
	return client.IgnoreNotFound(k.stack.Client.Delete(ctx, pod, client.GracePeriodSeconds(0), client.Preconditions{UID: &pod.UID}))
}
