package apiserver

import (
	"encoding/json"
	"fmt"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// FieldManagers computes the result of a write with the library that the API server uses: the merged object of a server-side apply, and the
// managedFields of every write. For NodePools it uses the schema in nodePoolSchema. For other kinds it deduces the schema from the objects.
type FieldManagers struct {
	byKind map[schema.GroupVersionKind]*managedfields.FieldManager
}

// nodePoolSchema contains the parts of the schema in Karpenter's CRD (v1.15) that determine who owns a field. spec.disruption.budgets is
// one field. Each entry of spec.limits is one field, and no manager owns spec.limits itself. Without a schema, the manager that creates the
// first entry would own spec.limits, and its next server-side apply could remove the entries of other managers.
const nodePoolSchema = `{
	"type": "object", "x-kubernetes-group-version-kind": [{"group": "karpenter.sh", "version": "v1", "kind": "NodePool"}],
	"properties": {
		"apiVersion": {"type": "string"}, "kind": {"type": "string"},
		"metadata": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {
			"annotations": {"type": "object", "additionalProperties": {"type": "string"}}}},
		"spec": {"type": "object", "properties": {
			"weight": {"type": "integer"},
			"limits": {"type": "object", "additionalProperties": {"x-kubernetes-int-or-string": true}},
			"disruption": {"type": "object", "properties": {
				"consolidateAfter": {"type": "string"}, "consolidationPolicy": {"type": "string"},
				"budgets": {"type": "array", "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}},
			"template": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}}}`

// converterOf returns the type converter of a kind.
func converterOf(kind string) (managedfields.TypeConverter, error) {
	if kind != KindNodePool {
		return managedfields.NewDeducedTypeConverter(), nil
	}
	s := &spec.Schema{}
	if err := json.Unmarshal([]byte(nodePoolSchema), s); err != nil {
		return nil, err
	}
	return managedfields.NewTypeConverter(map[string]*spec.Schema{kind: s}, false)
}

func newFieldManagers() *FieldManagers {
	return &FieldManagers{byKind: map[schema.GroupVersionKind]*managedfields.FieldManager{}}
}

func (m *FieldManagers) of(kind schema.GroupVersionKind) *managedfields.FieldManager {
	if m.byKind[kind] == nil {
		converter, err := converterOf(kind.Kind)
		if err != nil {
			panic(err)
		}
		f, err := managedfields.NewDefaultCRDFieldManager(converter, unconverted{}, unconverted{}, unconverted{}, kind, kind.GroupVersion(), "",
			nil)
		if err != nil {
			panic(err)
		}
		m.byKind[kind] = f
	}
	return m.byKind[kind]
}

// Apply returns the object that results from a server-side apply of desired by a field manager. The parameter live is the stored object,
// or nil if it does not exist. If force is false, a conflict with another field manager is an error.
func (m *FieldManagers) Apply(live, desired *unstructured.Unstructured, manager string, force bool) (*unstructured.Unstructured, error) {
	desired = desired.DeepCopy()
	desired.SetResourceVersion("")
	out, err := m.of(desired.GroupVersionKind()).Apply(live.DeepCopy(), desired, manager, force)
	if err != nil {
		return nil, err
	}
	return out.(*unstructured.Unstructured), nil
}

// Update returns the object that results if a field manager replaces live by next, including its managedFields. It is used for every
// write except server-side applies.
func (m *FieldManagers) Update(live, next *unstructured.Unstructured, manager string) *unstructured.Unstructured {
	out, err := m.of(next.GroupVersionKind()).Update(live.DeepCopy(), next, manager)
	if err != nil {
		panic(fmt.Errorf("update %s %s as %s: %w", next.GetKind(), next.GetName(), manager, err))
	}
	return out.(*unstructured.Unstructured)
}

// Patch returns a copy of live to which the JSON patch in body is applied.
func Patch(live *unstructured.Unstructured, body []byte) (*unstructured.Unstructured, error) {
	operations, err := jsonpatch.DecodePatch(body)
	if err != nil {
		return nil, err
	}
	text, err := live.MarshalJSON()
	if err != nil {
		return nil, err
	}
	if text, err = operations.Apply(text); err != nil {
		return nil, err
	}
	next := &unstructured.Unstructured{}
	return next, next.UnmarshalJSON(text)
}

// SameWithoutTimes reports whether two objects are equal except for the resourceVersion, the generation and the times in managedFields.
func SameWithoutTimes(a, b *unstructured.Unstructured) bool {
	return equality.Semantic.DeepEqual(withoutTimes(a), withoutTimes(b))
}

func withoutTimes(u *unstructured.Unstructured) map[string]any {
	u = u.DeepCopy()
	entries := u.GetManagedFields()
	for i := range entries {
		entries[i].Time = nil
	}
	u.SetManagedFields(entries)
	u.SetResourceVersion("")
	u.SetGeneration(0)
	return u.Object
}

func sameField(a, b *unstructured.Unstructured, path ...string) bool {
	return FieldText(a, path...) == FieldText(b, path...)
}

// FieldText returns the value of a field as JSON, or an empty string if the field is not set.
func FieldText(u *unstructured.Unstructured, path ...string) string {
	value, found, _ := unstructured.NestedFieldNoCopy(u.Object, path...)
	if !found {
		return ""
	}
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// TextOf returns a value as JSON in the format of FieldText, or "" for nil.
func TextOf(value any) string {
	if value == nil {
		return ""
	}
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// SetField sets a field of an object. A nil value removes the field.
func SetField(u *unstructured.Unstructured, value any, path ...string) {
	if value == nil {
		unstructured.RemoveNestedField(u.Object, path...)
		return
	}
	if err := unstructured.SetNestedField(u.Object, value, path...); err != nil {
		panic(err)
	}
}

// unconverted implements the converter, the defaulter and the creator that the library needs. Each kind has one version and no defaults, so
// ConvertToVersion returns the object unchanged, and Default does nothing.
type unconverted struct{}

func (unconverted) Convert(_, _, _ any) error { return fmt.Errorf("not supported") }
func (unconverted) ConvertToVersion(in runtime.Object, _ runtime.GroupVersioner) (runtime.Object, error) {
	return in, nil
}
func (unconverted) ConvertFieldLabel(_ schema.GroupVersionKind, label, value string) (string, string, error) {
	return label, value, nil
}
func (unconverted) Default(runtime.Object) {}
func (unconverted) New(kind schema.GroupVersionKind) (runtime.Object, error) {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(kind)
	return u, nil
}
