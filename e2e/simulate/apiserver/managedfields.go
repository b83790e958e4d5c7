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
)

// FieldManagers computes the results of requests by the library that the API server uses: server-side apply, and the managedFields of every
// other write. The schema is deduced from the objects, so that each list is one field, as spec.disruption.budgets is in the CRD.
type FieldManagers struct {
	byKind map[schema.GroupVersionKind]*managedfields.FieldManager
}

func newFieldManagers() *FieldManagers {
	return &FieldManagers{byKind: map[schema.GroupVersionKind]*managedfields.FieldManager{}}
}

func (m *FieldManagers) of(kind schema.GroupVersionKind) *managedfields.FieldManager {
	if m.byKind[kind] == nil {
		f, err := managedfields.NewDefaultCRDFieldManager(managedfields.NewDeducedTypeConverter(), unconverted{}, unconverted{}, unconverted{},
			kind, kind.GroupVersion(), "", nil)
		if err != nil {
			panic(err)
		}
		m.byKind[kind] = f
	}
	return m.byKind[kind]
}

// Apply is a server-side apply with force. live is nil if the object does not exist.
func (m *FieldManagers) Apply(live, desired *unstructured.Unstructured, manager string, force bool) (*unstructured.Unstructured, error) {
	desired = desired.DeepCopy()
	desired.SetResourceVersion("")
	out, err := m.of(desired.GroupVersionKind()).Apply(live.DeepCopy(), desired, manager, force)
	if err != nil {
		return nil, err
	}
	return out.(*unstructured.Unstructured), nil
}

// Update is any write that is not a server-side apply.
func (m *FieldManagers) Update(live, next *unstructured.Unstructured, manager string) *unstructured.Unstructured {
	out, err := m.of(next.GroupVersionKind()).Update(live.DeepCopy(), next, manager)
	if err != nil {
		panic(fmt.Errorf("update %s %s as %s: %w", next.GetKind(), next.GetName(), manager, err))
	}
	return out.(*unstructured.Unstructured)
}

// Patch returns an object with a JSON patch applied.
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

// SameWithoutTimes compares two objects without the times in managedFields and without metadata that the API server sets.
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

// FieldText returns a field as JSON, empty if it is not set.
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

// TextOf returns the text of a field with a value, empty for nil.
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

// unconverted is the conversion, defaulting and creation of objects of a kind with one version and no defaults.
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
