// Package ownership reads and writes metadata.managedFields, which lists the fields of an object that each field manager owns. gpuscaler
// records the owners of a field before it overrides the field, and makes them the owners again when it restores the value.
package ownership

import (
	"bytes"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// Field managers of gpuscaler. An apply removes every field of its field manager that the request omits. Annotations that are applied in
// separate requests therefore have separate field managers.
const (
	Manager             = "gpuscaler"
	PolicyStatusManager = "gpuscaler-policy-status"
	DoNotDisruptManager = "gpuscaler-shield"
	DeletionCostManager = "gpuscaler-cost"
)

// HasManager reports whether managedFields contains an entry of a field manager.
func HasManager(entries []metav1.ManagedFieldsEntry, manager string) bool {
	return slices.ContainsFunc(entries, func(e metav1.ManagedFieldsEntry) bool { return e.Manager == manager })
}

// Owner is a field manager and the operation by which it owns a field. managedFields has separate entries for Apply and Update. A manager
// that applied a field removes the field when its next apply omits the field. A manager that updated a field does not.
type Owner struct {
	Manager   string
	Operation metav1.ManagedFieldsOperationType
}

// String returns the manager and the operation, for example "kubectl/Apply". The record annotation of a NodePool contains owners in this
// form.
func (o Owner) String() string { return o.Manager + "/" + string(o.Operation) }

// ParseOwners reads a comma-separated list of owners. The name of a manager may contain commas. Text that does not end with an operation is
// ignored.
func ParseOwners(text string) (all []Owner) {
	name := ""
	for part := range strings.SplitSeq(text, ",") {
		name += part
		i := strings.LastIndexByte(name, '/')
		if i < 0 {
			name += ","
			continue
		}
		operation := metav1.ManagedFieldsOperationType(name[i+1:])
		if operation != metav1.ManagedFieldsOperationApply && operation != metav1.ManagedFieldsOperationUpdate {
			name += ","
			continue
		}
		all = append(all, Owner{Manager: name[:i], Operation: operation})
		name = ""
	}
	return all
}

// Fields contains the decoded managedFields of one object.
type Fields []entry

type entry struct {
	managed metav1.ManagedFieldsEntry
	fields  *fieldpath.Set // nil for an entry of a subresource and for an entry that cannot be decoded; both are copied unchanged
}

// Read decodes managedFields. Owners ignores entries of subresources and entries that cannot be decoded. Entries returns these entries
// unchanged.
func Read(entries []metav1.ManagedFieldsEntry) Fields {
	all := make(Fields, 0, len(entries))
	for i := range entries {
		e := entry{managed: entries[i]}
		if e.managed.FieldsV1 != nil && e.managed.Subresource == "" {
			set := &fieldpath.Set{}
			if set.FromJSON(bytes.NewReader(e.managed.FieldsV1.Raw)) == nil {
				e.fields = set
			}
		}
		all = append(all, e)
	}
	return all
}

func (e *entry) owner() Owner {
	return Owner{Manager: e.managed.Manager, Operation: e.managed.Operation}
}

// Owners returns the owners of the field at a path, in the order of managedFields.
func (all Fields) Owners(path ...string) (found []Owner) {
	for i := range all {
		if all[i].owns(path) {
			found = append(found, all[i].owner())
		}
	}
	return found
}

// Transfer moves the ownership of the field at a path from gpuscaler to the given owners. An owner without an entry in managedFields gets a
// new entry with the given apiVersion. Transfer reports whether the ownership changed.
func (all *Fields) Transfer(path []string, to []Owner, apiVersion string) (changed bool) {
	for i := range *all {
		e := &(*all)[i]
		if e.managed.Manager == Manager && e.remove(path) {
			changed = true
		}
	}
	for _, o := range to {
		i := slices.IndexFunc(*all, func(e entry) bool { return e.owner() == o && e.fields != nil })
		if i < 0 {
			*all = append(*all, entry{fields: &fieldpath.Set{}, managed: metav1.ManagedFieldsEntry{
				Manager: o.Manager, Operation: o.Operation, APIVersion: apiVersion, FieldsType: "FieldsV1",
			}})
			i = len(*all) - 1
		}
		if e := &(*all)[i]; !e.owns(path) {
			e.fields.Insert(pathOf(path))
			changed = true
		}
	}
	return changed
}

// Entries returns managedFields without entries that own no field any more.
func (all Fields) Entries() (out []metav1.ManagedFieldsEntry, err error) {
	for i := range all {
		e := all[i].managed
		if fields := all[i].fields; fields != nil {
			if fields.Empty() {
				continue
			}
			raw, err := fields.ToJSON()
			if err != nil {
				return nil, err
			}
			e.FieldsV1 = &metav1.FieldsV1{Raw: raw}
		}
		out = append(out, e)
	}
	return out, nil
}

// owns reports whether the entry contains the field at a path or a field below it.
func (e *entry) owns(path []string) bool {
	if e.fields == nil {
		return false
	}
	p := pathOf(path)
	return e.fields.Has(p) || !below(e.fields, p).Empty()
}

// remove removes the entry's ownership of the field at a path, and of each parent field below which the entry owns no other field. It
// reports whether the entry owned the field.
func (e *entry) remove(path []string) bool {
	if !e.owns(path) {
		return false
	}
	p := pathOf(path)
	e.fields = e.fields.RecursiveDifference(fieldpath.NewSet(p))
	for parent := p[:len(p)-1]; len(parent) > 0 && below(e.fields, parent).Empty(); parent = parent[:len(parent)-1] {
		e.fields = e.fields.Difference(fieldpath.NewSet(parent))
	}
	return true
}

func below(s *fieldpath.Set, path fieldpath.Path) *fieldpath.Set {
	for _, element := range path {
		s = s.WithPrefix(element)
	}
	return s
}

func pathOf(names []string) fieldpath.Path {
	path := make(fieldpath.Path, len(names))
	for i := range names {
		path[i] = fieldpath.PathElement{FieldName: &names[i]}
	}
	return path
}
