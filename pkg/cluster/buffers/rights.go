package buffers

import (
	"context"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// gpuscaler uses two kinds of permissions on CapacityBuffers. In a cluster with Karpenter, the chart always grants the verbs to watch and
// to delete CapacityBuffers. It grants the verb create only if the value karpenter.capacityBuffers is true. If a user later sets the value
// to false, gpuscaler can still delete its buffers.

// MayWatch reports whether this account may watch and delete CapacityBuffers, and stores whether it may create them. If the API server does
// not respond, MayWatch returns false, and the next call asks the API server again.
func (c *Cache) MayWatch(ctx context.Context) bool {
	deletes, err := c.options.Allowed(ctx, "delete")
	if err != nil {
		return false
	}
	if !deletes {
		c.setMayWrite(false)
		return false
	}
	creates, err := c.options.Allowed(ctx, "create")
	if err != nil {
		return false
	}
	c.setMayWrite(creates)
	return true
}

// RefreshRights asks the API server again whether this account may create buffers, because the role may change while the controller runs.
// If the API server does not respond, the stored result is kept.
func (c *Cache) RefreshRights(ctx context.Context) {
	c.mu.RLock()
	served := c.kind != nil && c.kind.Synced() != nil
	c.mu.RUnlock()
	if !served || !c.options.Requested() {
		return
	}
	if creates, err := c.options.Allowed(ctx, "create"); err == nil {
		c.setMayWrite(creates)
	}
}

// setMayWrite stores whether this account may create buffers. If the account may not, although a capacity group uses buffers, setMayWrite
// logs the missing permission once.
func (c *Cache) setMayWrite(may bool) {
	missing := !may && c.options.Requested()
	c.mu.Lock()
	c.mayWrite = may
	log := missing && !c.missingLogged
	c.missingLogged = missing
	c.mu.Unlock()
	if log {
		c.options.Log.Warn("a capacity group requests a buffer, but this account is not allowed to create CapacityBuffers: " +
			"set karpenter.capacityBuffers in the values of the chart")
	}
}

// AskAllowed asks the API server whether this account may use a verb on CapacityBuffers in all namespaces.
func AskAllowed(ctx context.Context, client kubernetes.Interface, verb string) (bool, error) {
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Group: Kind.Group, Resource: Resource.Resource},
	}}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	answer, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return false, err
	}
	return answer.Status.Allowed, nil
}
