package agreement

import (
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gpuscaler/gpuscaler/e2e/simulate/apiserver"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/karpenter"
)

// others runs a step of the owner of the NodePool, of a GitOps controller or of Karpenter.
func (p *poolStory) others(who, what string) error {
	manager := map[string]string{"owner": "kubectl-edit", "gitops": "argocd-controller", "karpenter": "karpenter"}[who]
	if rest, ok := arguments(what, "applies"); ok {
		return p.apply(who, rest, manager)
	}
	switch what {
	case "creates":
		return p.create()
	case "deletes":
		p.answered(who, what, p.api.Delete(p.pool))
		return nil
	case "reads":
		var err error
		p.read, err = p.api.Get(p.pool)
		return err
	}
	u, err := p.api.Get(p.pool)
	if err != nil {
		return err
	}
	if rest, ok := strings.CutSuffix(what, " of what it read"); ok {
		u, what = p.read.DeepCopy(), rest
	}
	if err := change(u, what); err != nil {
		return err
	}
	_, err = p.api.Send(p.pool, &apiserver.Request{Replace: u, Manager: manager})
	p.answered(who, what, err)
	return nil
}

// change changes a NodePool as the text of a step describes.
func change(u *unstructured.Unstructured, what string) error {
	annotations := u.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	if limit, ok := arguments(what, "sets the limit"); ok {
		apiserver.SetField(u, limit, "spec", "limits", gpu)
		return nil
	}
	if weight, ok := arguments(what, "sets the weight"); ok {
		n, err := strconv.ParseInt(weight, 10, 64)
		apiserver.SetField(u, n, "spec", "weight")
		return err
	}
	if fields, ok := arguments(what, "lets gpuscaler override"); ok {
		annotations[karpenter.ConsentAnnotation] = strings.Trim(fields, `"`)
	}
	switch what {
	case "removes the limit":
		apiserver.SetField(u, nil, "spec", "limits", gpu)
	case "removes all limits":
		apiserver.SetField(u, nil, "spec", "limits")
	case "removes the annotations":
		annotations = nil
	case "writes":
		annotations["karpenter.sh/nodepool-hash"] += "1"
	case "changes nothing":
	default:
		if !strings.HasPrefix(what, "lets gpuscaler override") {
			return fmt.Errorf("unknown step")
		}
	}
	u.SetAnnotations(annotations)
	return nil
}

// apply sends a server-side apply that sets or omits the limit. The parameter what is "the limit 6" or "no limit". The suffix " with force"
// sets the force option.
func (p *poolStory) apply(who, what, manager string) error {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(karpenter.NodePoolKind)
	u.SetName(p.pool)
	rest, force := strings.CutSuffix(what, " with force")
	if limit, ok := arguments(rest, "the limit"); ok {
		apiserver.SetField(u, limit, "spec", "limits", gpu)
	} else if weight, ok := arguments(rest, "the weight"); ok {
		n, err := strconv.ParseInt(weight, 10, 64)
		if err != nil {
			return err
		}
		apiserver.SetField(u, n, "spec", "weight")
	} else if rest != "no limit" {
		return fmt.Errorf("unknown step")
	}
	_, err := p.api.Send(p.pool, &apiserver.Request{Apply: u, Manager: manager, Force: force})
	p.answered(who, "applies "+what, err)
	return nil
}
