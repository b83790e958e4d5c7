package buffers

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
)

// removeByHand is appended to an error if this account is not allowed to list or delete buffers. It contains the kubectl command that
// deletes them.
const removeByHand = "; with an account that may, run kubectl delete capacitybuffers --all-namespaces -l " + managedByLabel +
	"=gpuscaler, or give this account the verbs list and delete on capacitybuffers.autoscaling.x-k8s.io, as the chart does for Karpenter"

// Removed is the result for one CapacityBuffer. If the CapacityBuffers could not be listed, RemoveAll returns a single result, whose Object
// is "CapacityBuffers".
type Removed struct {
	Object string
	Err    error
}

// Remover removes all CapacityBuffers of gpuscaler. The command `gpuscaler restore` uses it.
type Remover struct {
	Discovery discovery.DiscoveryInterface
	Client    dynamic.Interface
	Allowed   func(ctx context.Context, verb string) (bool, error)
	DryRun    bool
}

// RemoveAll removes every CapacityBuffer of gpuscaler. If this account may not remove a buffer, the result contains an error with the
// command that removes the buffer, because its nodes cost money until it is removed.
func (r Remover) RemoveAll(ctx context.Context) (done []Removed, err error) {
	if served, err := r.served(); err != nil || !served {
		return nil, err
	}
	client := r.Client.Resource(Resource)
	list, err := client.List(ctx, metav1.ListOptions{LabelSelector: managedByLabel + "=gpuscaler"})
	if apierrors.IsForbidden(err) {
		return []Removed{{Object: "CapacityBuffers", Err: errors.New("this account is not allowed to list them" + removeByHand)}}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list CapacityBuffers: %w", err)
	}
	var ours []*Buffer
	for i := range list.Items {
		if b := Decode(&list.Items[i]); b.ours {
			ours = append(ours, b)
		}
	}
	if len(ours) == 0 {
		return nil, nil
	}
	allowed, unanswered := r.Allowed(ctx, "delete")
	for _, b := range ours {
		out := Removed{Object: "CapacityBuffer " + b.key()}
		switch {
		case !allowed && unanswered == nil:
			out.Err = errors.New("this account is not allowed to delete it" + removeByHand)
		case !r.DryRun:
			err := client.Namespace(b.Namespace).Delete(ctx, b.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &b.UID}})
			if !apierrors.IsNotFound(err) {
				out.Err = err
			}
		}
		done = append(done, out)
	}
	return done, nil
}

// served reports whether the API server serves CapacityBuffers.
func (r Remover) served() (bool, error) {
	list, err := r.Discovery.ServerResourcesForGroupVersion(Kind.GroupVersion().String())
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for CapacityBuffers: %w", err)
	}
	for i := range list.APIResources {
		if list.APIResources[i].Kind == Kind.Kind {
			return true, nil
		}
	}
	return false, nil
}
