// Package ownership reads and writes metadata.managedFields: which field manager owns which field of an object. gpuscaler records the
// owners of a field before it overrides the field, and makes them the owners again when it restores the value.
package ownership

import (
	"bytes"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// Field managers of gpuscaler. Each annotation that is applied separately has its own field manager, because an apply removes every field
// of its manager that it omits.
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

// Owner is a field manager and the operation by which it owns a field. managedFields has separate entries for Apply and Update, because
// they differ: a manager that applied a field removes it when its next apply omits it, but a manager that updated a field does not.
type Owner struct {
	Manager   string
	Operation metav1.ManagedFieldsOperationType
}

// String returns the manager and the operation, for example "kubectl/Apply". The record annotation of a NodePool contains owners in this
// form.
func (o Owner) String() string { return o.Manager + "/" + string(o.Operation) }

// ParseOwners reads a list of owners, separated by commas. The name of a manager may itself contain commas. Text that does not end with
// an operation is ignored.
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
	fields  *fieldpath.Set // nil for an entry of a subresource and for one that cannot be decoded; both are copied unchanged
}

// Read decodes managedFields. Owners ignores the entries of subresources and entries that cannot be decoded; Entries returns them
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

// Transfer moves the ownership of the field at a path from gpuscaler to the given owners. An owner that has no entry in managedFields gets
// a new entry with the given apiVersion. Transfer reports whether anything changed.
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

// Entries returns managedFields without the entries that no longer own a field.
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

// remove removes the entry's ownership of the field at a path. It also removes the ownership of each parent field below which the entry
// then owns nothing. It reports whether the entry owned the field.
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
