package cluster

import (
	"encoding/json"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// owner is a field manager and how it owns a field. The two operations are two entries of managedFields: who applied a field and
// leaves it out of the next apply removes it, who updated it does not.
type owner struct {
	manager   string
	operation metav1.ManagedFieldsOperationType
}

// String is "kubectl/Apply", as it stands in a record.
func (o owner) String() string { return o.manager + "/" + string(o.operation) }

// parseOwners reads a list of them, joined by commas. A manager's name may hold commas of its own.
func parseOwners(text string) (all []owner) {
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
		all = append(all, owner{name[:i], operation})
		name = ""
	}
	return all
}

// fieldTree is a FieldsV1: "f:spec" -> "f:weight" -> {}; "." is the object itself.
type fieldTree map[string]any

// owners is who owns what of one object.
type owners []ownerEntry

type ownerEntry struct {
	entry metav1.ManagedFieldsEntry
	tree  fieldTree
}

// ownersOf reads managedFields; entries of subresources are kept as they are and own nothing here.
func ownersOf(entries []metav1.ManagedFieldsEntry) owners {
	all := make(owners, 0, len(entries))
	for i := range entries {
		e := ownerEntry{entry: entries[i]}
		if e.entry.FieldsV1 != nil && e.entry.Subresource == "" {
			if json.Unmarshal(e.entry.FieldsV1.Raw, &e.tree) != nil {
				e.tree = nil
			}
		}
		all = append(all, e)
	}
	return all
}

func (e *ownerEntry) owner() owner { return owner{e.entry.Manager, e.entry.Operation} }

// of lists who owns the field at a path.
func (all owners) of(path []string) (found []owner) {
	for i := range all {
		if all[i].tree.has(path) {
			found = append(found, all[i].owner())
		}
	}
	return found
}

func (t fieldTree) has(path []string) bool {
	for i, name := range path {
		below, ok := t["f:"+name].(map[string]any)
		if !ok {
			return false
		}
		if i == len(path)-1 {
			return true
		}
		t = below
	}
	return false
}

// add and remove return whether they changed anything.
func (t fieldTree) add(path []string) bool {
	if t.has(path) {
		return false
	}
	for _, name := range path {
		below, ok := t["f:"+name].(map[string]any)
		if !ok {
			below = map[string]any{}
			t["f:"+name] = below
		}
		t = below
	}
	return true
}

// remove takes a field out, and parents of which nothing is left but themselves.
func (t fieldTree) remove(path []string) bool {
	if !t.has(path) {
		return false
	}
	name := "f:" + path[0]
	below := fieldTree(t[name].(map[string]any))
	if len(path) > 1 {
		below.remove(path[1:])
	}
	if _, itself := below["."]; len(path) == 1 || len(below) == 0 || len(below) == 1 && itself {
		delete(t, name)
	}
	return true
}

// give makes these the owners of a field, and nobody else's it is no longer who we are. It returns whether anything changed.
func (all *owners) give(path []string, to []owner, version string) (changed bool) {
	for i := range *all {
		e := &(*all)[i]
		if e.entry.Manager == fieldManager && e.tree.remove(path) {
			changed = true
		}
	}
	for _, o := range to {
		i := slices.IndexFunc(*all, func(e ownerEntry) bool { return e.owner() == o && e.tree != nil })
		if i < 0 {
			*all = append(*all, ownerEntry{tree: fieldTree{}, entry: metav1.ManagedFieldsEntry{
				Manager: o.manager, Operation: o.operation, APIVersion: version, FieldsType: "FieldsV1",
			}})
			i = len(*all) - 1
		}
		if (*all)[i].tree.add(path) {
			changed = true
		}
	}
	return changed
}

// entries are managedFields again, without those that own nothing any more.
func (all owners) entries() (out []metav1.ManagedFieldsEntry, err error) {
	for i := range all {
		e := all[i].entry
		if all[i].tree != nil {
			if len(all[i].tree) == 0 {
				continue
			}
			raw, err := json.Marshal(all[i].tree)
			if err != nil {
				return nil, err
			}
			e.FieldsV1 = &metav1.FieldsV1{Raw: raw}
		}
		out = append(out, e)
	}
	return out, nil
}
