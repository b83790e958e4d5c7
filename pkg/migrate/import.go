package migrate

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/gpuscaler/gpuscaler/pkg/policy/spec"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// Kinds that can be imported.
const (
	kindHPA          = "HorizontalPodAutoscaler"
	kindScaledObject = "ScaledObject"
)

// ErrOurs refuses an object that follows gpuscaler already.
var ErrOurs = errors.New("it follows gpuscaler already")

// Plan is the way from an HPA or a ScaledObject to gpuscaler, and back. Each text is complete and can be applied as it stands.
type Plan struct {
	Source string `json:"source"` // "ScaledObject team-chat/llama-chat"
	// Policy is an advisory policy: it decides and explains, and moves nothing until its mode is taken out.
	Policy string `json:"policy"`
	// Replacement follows the policy; it has the name of what it replaces, so that applying it is the switch and no second owner of the
	// replicas ever stands beside the first.
	Replacement string `json:"replacement"`
	Rollback    string `json:"rollback"` // the object as it stood, without what the API server adds
	// Lost is what could not be carried over, each with what to do about it.
	Lost  []string `json:"lost"`
	Steps []string `json:"steps"` // in order, with the way back last

	key scaling.Key
}

// Key is the policy's namespace and name.
func (p *Plan) Key() scaling.Key { return p.key }

// Import plans the way in for one object. It fails for what is none of the two kinds, for what follows gpuscaler already, and for what
// says nothing that a policy could be made of.
func Import(u *unstructured.Unstructured, o Options) (*Plan, error) {
	p := &Plan{
		Source: fmt.Sprintf("%s %s/%s", u.GetKind(), u.GetNamespace(), u.GetName()),
		Lost:   []string{}, key: scaling.Key{Namespace: u.GetNamespace(), Name: u.GetName()},
	}
	var written *spec.Policy
	var err error
	switch u.GetKind() {
	case kindHPA:
		written, err = p.fromHPA(u)
	case kindScaledObject:
		written, err = p.fromScaledObject(u, o)
	default:
		err = fmt.Errorf("want a %s or a %s", kindHPA, kindScaledObject)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.Source, err)
	}
	written.Mode = scaling.Advisory.String()
	text, err := spec.Marshal(p.key, written)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.Source, err)
	}
	p.Policy = string(text)
	if p.Rollback, err = render(pristine(u)); err != nil {
		return nil, fmt.Errorf("%s: %w", p.Source, err)
	}
	p.steps()
	return p, nil
}

func (p *Plan) steps() {
	name := p.key.Name
	p.Steps = []string{
		"Put " + name + ".policy.yaml among the policies. It is advisory: nothing moves. Compare for some days what it would have done: gpuscaler explain " + p.key.String(),
		"Switch: take `mode: advisory` out of the policy, wait until `gpuscaler explain` says it is served, then kubectl replace -f " + name + ".replacement.yaml. A policy begins with the replicas that it finds.",
		"The way back, at any time: kubectl replace -f " + name + ".rollback.yaml, then put `mode: advisory` back. Replicas stay as they are until the old rules move them.",
	}
}

func (p *Plan) lose(format string, args ...any) {
	p.Lost = append(p.Lost, fmt.Sprintf(format, args...))
}

// addedByServer are the fields of metadata that must not be applied again.
var addedByServer = []string{"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink", "ownerReferences", "finalizers"}

// pristine is an object as its author would have written it.
func pristine(u *unstructured.Unstructured) *unstructured.Unstructured {
	c := u.DeepCopy()
	for _, f := range addedByServer {
		unstructured.RemoveNestedField(c.Object, "metadata", f)
	}
	unstructured.RemoveNestedField(c.Object, "status")
	annotations, labels := c.GetAnnotations(), c.GetLabels()
	for key := range annotations {
		if strings.HasPrefix(key, "kubectl.kubernetes.io/") || strings.HasPrefix(key, "autoscaling.alpha.kubernetes.io/") {
			delete(annotations, key)
		}
	}
	delete(labels, "scaledobject.keda.sh/name") // KEDA's operator adds it
	c.SetAnnotations(annotations)
	c.SetLabels(labels)
	return c
}

func render(u *unstructured.Unstructured) (string, error) {
	text, err := yaml.Marshal(u.Object)
	return string(text), err
}
