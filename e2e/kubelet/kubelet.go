// Package kubelet runs the pods with the label HostProcess as real processes on this host, with their command, environment, readiness
// probe, restarts and termination. Each of these pods has its own loopback address. All other pods are simulated by kwok: they become Ready
// and do nothing. The tests use this package to roll out and drain a Deployment of gpuscaler and to kill its leader, as in a cluster.
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
	// restartAfter is the delay between the end of a container's process and its restart. A real kubelet also restarts a container soon
	// after its first exit, but waits longer after each subsequent exit. This package always waits for the same time.
	restartAfter = time.Second
)

// Kubelet runs the labeled pods of one stack.
type Kubelet struct {
	stack      *stack.Stack
	kubeconfig Kubeconfig

	mu   sync.Mutex
	pods map[types.UID]*running
	last int // number of addresses that were assigned so far
}

// Kubeconfig returns the path of the kubeconfig that a pod uses. The parameter path is the kubeconfig of the pod's ServiceAccount.
type Kubeconfig func(pod, path string) (string, error)

// Run runs labeled pods of all namespaces until ctx ends. Then it kills their processes.
func Run(ctx context.Context, s *stack.Stack) *Kubelet { return RunWith(ctx, s, nil) }

// RunWith does the same as Run, with the kubeconfigs that the function kubeconfig returns. If this function is nil, each pod uses the
// kubeconfig of its ServiceAccount.
func RunWith(ctx context.Context, s *stack.Stack, kubeconfig Kubeconfig) *Kubelet {
	k := &Kubelet{stack: s, kubeconfig: kubeconfig, pods: map[types.UID]*running{}}
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

// sync starts a process for each labeled pod without a process, and ends the processes of pods that are being deleted.
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
			r.kubeconfig = k.kubeconfig
			k.pods[pod.UID] = r
			go r.run(ctx)
		case r == nil && pod.DeletionTimestamp != nil:
			// The pod was deleted before its process started. There is no process to end, but the pod object must still be removed.
			if err := k.remove(ctx, pod); err != nil {
				return err
			}
		case r != nil && pod.DeletionTimestamp != nil:
			r.end(time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second)
		}
	}
	for uid, r := range k.pods {
		if !seen[uid] {
			r.end(0) // the pod was force-deleted, so its object no longer exists
			delete(k.pods, uid)
		}
	}
	return nil
}

func (k *Kubelet) remove(ctx context.Context, pod *corev1.Pod) error {
	return client.IgnoreNotFound(k.stack.Client.Delete(ctx, pod, client.GracePeriodSeconds(0), client.Preconditions{UID: &pod.UID}))
}
