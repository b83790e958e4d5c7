// Package kubelet runs pods as processes on this host. Pods of kwok are Ready and do nothing. A pod with the label HostProcess runs as a
// real process with its command, environment, readiness probe, restarts and termination, on its own loopback address. So a Deployment of
// gpuscaler can be rolled out, drained and lose its leader as in a cluster.
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
	// restartAfter is the delay before a container that ended is started again, as for the first restart by a kubelet. There is no
	// back-off.
	restartAfter = time.Second
)

// Kubelet runs the labeled pods of one stack.
type Kubelet struct {
	stack *stack.Stack

	mu   sync.Mutex
	pods map[types.UID]*running
	last int // number of assigned addresses
}

// Run runs labeled pods of all namespaces until ctx ends. Then it kills their processes.
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

// Process returns the running process of a pod, or nil.
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

// sync compares the existing pods with the running ones.
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
			// The pod was deleted before it ran: no process to end, but the object must be removed.
			if err := k.remove(ctx, pod); err != nil {
				return err
			}
		case r != nil && pod.DeletionTimestamp != nil:
			r.end(time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second)
		}
	}
	for uid, r := range k.pods {
		if !seen[uid] {
			r.end(0) // force-deleted
			delete(k.pods, uid)
		}
	}
	return nil
}

func (k *Kubelet) remove(ctx context.Context, pod *corev1.Pod) error {
	return client.IgnoreNotFound(k.stack.Client.Delete(ctx, pod, client.GracePeriodSeconds(0), client.Preconditions{UID: &pod.UID}))
}
