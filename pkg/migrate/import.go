package migrate

import (
	"cmp"
	"errors"
	"fmt"
	"path"
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

// ErrManaged is returned for an HPA or ScaledObject that reads its replicas from gpuscaler.
var ErrManaged = errors.New("it follows gpuscaler already")

// Plan contains the manifests that move a workload from an HPA or a ScaledObject to gpuscaler and back. Each manifest is a whole object.
type Plan struct {
	Source string `json:"source"` // kind and name of the original object, for example "ScaledObject team-chat/llama-chat"
	// Policy is the manifest of the policy. Its mode is advisory: gpuscaler computes and explains a target but does not serve it. For each
	// metric that could not be converted, comments at the end of the manifest contain the draft of a signal.
	Policy string `json:"policy"`
	// Replacement is the manifest of an HPA or ScaledObject that follows the policy. It has the same name as the object that it replaces, so
	// that the workload never has two autoscalers.
	Replacement string `json:"replacement"`
	Rollback    string `json:"rollback"` // the original object without the fields that the API server sets
	// Incomplete is true if no metric could be converted. The user must then add a signal to the policy.
	Incomplete bool `json:"incomplete,omitempty"`
	// ReadExternalMetrics contains the names of the external metrics that the signals read. The user must add them to the chart value
	// readExternalMetrics, so that the controller has the permission to read them.
	ReadExternalMetrics []string `json:"readExternalMetrics,omitempty"`
	// Lost contains the settings that could not be converted. Each entry describes what the user can do.
	Lost  []string `json:"lost"`
	Steps []Step   `json:"steps"` // steps of the migration in order; the last step is the rollback

	key    scaling.Key
	scales string // the scale target, as kubectl names it: deployment/llama-chat
	drafts []draft

	resources int // number of metrics of CPU and memory
}

// Step is one step of a migration.
type Step struct {
	Text    string `json:"text"`
	Command string `json:"command,omitempty"` // empty: the step is an edit of a file
}

// Key returns the namespace and the name of the policy.
func (p *Plan) Key() scaling.Key { return p.key }

// Import returns the plan for one object. It returns ErrManaged if the object reads its replicas from gpuscaler, and another error if
// objects of this kind cannot be imported.
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
	kind := cmp.Or(written.ScaleTargetRef.Kind, "Deployment")
	p.scales = strings.ToLower(kind) + "/" + written.ScaleTargetRef.Name
	written.Mode = scaling.Advisory.String()
	text, err := spec.Marshal(p.key, written)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.Source, err)
	}
	p.Policy, p.Incomplete = string(text), len(written.Signals)+len(written.Schedules) == 0
	p.addDrafts()
	if p.Rollback, err = render(withoutServerFields(u)); err != nil {
		return nil, fmt.Errorf("%s: %w", p.Source, err)
	}
	p.addSteps()
	return p, nil
}

// upgrade is the beginning of a command that changes a value of the chart.
const upgrade = "helm upgrade gpuscaler charts/gpuscaler --namespace gpuscaler-system --reuse-values "

// addSteps sets p.Steps, the steps of the migration.
func (p *Plan) addSteps() {
	name := p.key.Name
	step := func(text, command string) { p.Steps = append(p.Steps, Step{text, command}) }
	if p.Incomplete {
		step("Complete "+name+".policy.yaml: no metric could be converted. Answer the questions at its end, and add the signals to "+
			"spec.signals. Then check the file.", "gpuscaler validate --no-platform "+name+".policy.yaml")
	}
	if len(p.ReadExternalMetrics) > 0 {
		step("Allow the controller to read the metrics of the signals. This replaces the present value of readExternalMetrics in the chart.",
			upgrade+"--set 'readExternalMetrics={"+strings.Join(p.ReadExternalMetrics, ",")+"}'")
	}
	add := upgrade + "--set-file 'files." + strings.ReplaceAll(name, ".", `\.`) + `\.yaml=` + name + ".policy.yaml'"
	step("Add the policy to the release. It is advisory: replicas do not change.", add)
	step("Compare its targets with the replicas for some days.", "gpuscaler explain "+p.key.String())
	step("Remove `mode: advisory` from "+name+".policy.yaml, and add it to the release again.", add)
	step("Wait until the target is served.", "gpuscaler explain "+p.key.String())
	step("Switch. The policy starts with the current replicas.", "kubectl replace -f "+name+".replacement.yaml")
	step("To go back at any time, replace the object again, and add `mode: advisory` to the policy. Replicas do not change until the "+
		"original rules change them.", "kubectl replace -f "+name+".rollback.yaml")
}

// InFolder changes the commands in p.Steps so that they refer to files in a folder.
func (p *Plan) InFolder(folder string) {
	for i := range p.Steps {
		for _, part := range []string{"policy", "replacement", "rollback"} {
			file := p.key.Name + "." + part + ".yaml"
			p.Steps[i].Command = strings.ReplaceAll(p.Steps[i].Command, file, path.Join(folder, file))
		}
	}
}

// lost adds a setting that could not be converted to p.Lost.
func (p *Plan) lost(format string, args ...any) {
	p.Lost = append(p.Lost, fmt.Sprintf(format, args...))
}

// serverFields contains the fields of metadata that the API server sets.
var serverFields = []string{
	"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink", "ownerReferences", "finalizers",
}

// withoutServerFields returns a copy of an object that contains only the fields that a user writes.
func withoutServerFields(u *unstructured.Unstructured) *unstructured.Unstructured {
	c := u.DeepCopy()
	for _, f := range serverFields {
		unstructured.RemoveNestedField(c.Object, "metadata", f)
	}
	unstructured.RemoveNestedField(c.Object, "status")
	annotations, labels := c.GetAnnotations(), c.GetLabels()
	for key := range annotations {
		if strings.HasPrefix(key, "kubectl.kubernetes.io/") || strings.HasPrefix(key, "autoscaling.alpha.kubernetes.io/") {
			delete(annotations, key)
		}
	}
	delete(labels, "scaledobject.keda.sh/name") // KEDA has added this label
	c.SetAnnotations(annotations)
	c.SetLabels(labels)
	return c
}

func render(u *unstructured.Unstructured) (string, error) {
	text, err := yaml.Marshal(u.Object)
	return string(text), err
}
