package cluster

import (
	"context"
	"slices"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
)

// Rights on CapacityBuffers come in two halves: whoever works with Karpenter may watch and remove them, and only where the chart's
// karpenter.capacityBuffers says so may we write one. Taken away, the second half leaves none behind that nobody could remove.

// mayBuffer asks whether we may watch CapacityBuffers and take ours away, and notes whether we may write one. An answer that did not
// come is none: it is asked again at the next look.
func (n *nodes) mayBuffer(ctx context.Context) bool {
	removes, err := n.allowed(ctx, "delete")
	if err != nil {
		return false
	}
	if !removes {
		n.noteWrites(false)
		return false
	}
	writes, err := n.allowed(ctx, "create")
	if err != nil {
		return false
	}
	n.noteWrites(writes)
	return true
}

// askToWrite keeps up with the role: the right may be given or taken while we run. A question without an answer changes nothing.
func (n *nodes) askToWrite(ctx context.Context) {
	if n.buffer.synced() == nil || !n.wantsBuffers() {
		return
	}
	if writes, err := n.allowed(ctx, "create"); err == nil {
		n.noteWrites(writes)
	}
}

func (n *nodes) wantsBuffers() bool {
	return slices.ContainsFunc(n.cluster.options.Groups.Groups(), func(g *capacity.Group) bool { return g.Buffer })
}

// noteWrites keeps whether we may write a buffer, and says once that we may not where a group asks for one.
func (n *nodes) noteWrites(may bool) {
	told := !may && n.wantsBuffers()
	n.mu.Lock()
	n.writes = may
	news := told && !n.refused
	n.refused = told
	n.mu.Unlock()
	if news {
		n.cluster.log.Warn("a capacity group asks for a buffer, and our roles allow to write none: set karpenter.capacityBuffers in the chart's values")
	}
}

// allowed asks the API server whether our roles allow a verb on CapacityBuffers of every namespace.
func (n *nodes) allowed(ctx context.Context, verb string) (bool, error) {
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Group: bufferKind.Group, Resource: bufferResource.Resource},
	}}
	ctx, cancel := context.WithTimeout(ctx, handsTimeout)
	defer cancel()
	answer, err := n.cluster.typed.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		n.cluster.log.Debug("cannot ask what is allowed on CapacityBuffers", "verb", verb, "error", err)
		return false, err
	}
	return answer.Status.Allowed, nil
}
