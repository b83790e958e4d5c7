package nodepoolwriter

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/override"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/karpenter"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/ownership"
)

// object is an object of the API server with all of its fields, known and unknown.
type object = *unstructured.Unstructured

// Patch first restores the original values of the changes in which Restore is true. It then applies the values of the fields that gpuscaler
// overrides, unless p.KeepsRecord is true. The first request is based on the version of base, and each further request on the result of the
// previous request. The API server returns a conflict if another client has changed the NodePool in the meantime.
func (w *Writer) Patch(ctx context.Context, p capacity.NodePoolPatch, base *karpenter.NodePool) error {
	if err := checkRecorded(p); err != nil {
		return err
	}
	current, err := w.restore(ctx, p, base.Object)
	if err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	if p.KeepsRecord {
		return nil
	}
	return w.apply(ctx, p, current)
}

// restore restores the original values of fields and their original owners in managedFields. It needs two requests, because the API server
// makes the field manager of a request the owner of each field that the request changes:
//
//   - The first request restores the values. If this process crashes before the second request, gpuscaler still owns the fields, and the
//     next leader continues.
//   - The second request writes managedFields: it moves the fields from gpuscaler's entries to the entries of their original owners.
func (w *Writer) restore(ctx context.Context, p capacity.NodePoolPatch, base object) (object, error) {
	values, err := restoredValues(p, base)
	if err != nil {
		return nil, err
	}
	current := base
	if len(values) > 0 {
		if current, err = w.jsonPatch(ctx, current, values); err != nil {
			return nil, err
		}
	}
	owned, changed := ownership.Read(current.GetManagedFields()), false
	for _, c := range p.Changes {
		if !c.Restore {
			continue
		}
		var owners []ownership.Owner // a missing field has no owner
		if c.To != "" {
			owners = ownership.ParseOwners(c.Owner)
		}
		if owned.Transfer(c.Path(), owners, current.GetAPIVersion()) {
			changed = true
		}
	}
	if !changed {
		return current, nil
	}
	entries, err := owned.Entries()
	if err != nil {
		return nil, err
	}
	return w.jsonPatch(ctx, current, []operation{{Op: "replace", Path: "/metadata/managedFields", Value: entries}})
}

// apply applies all fields that gpuscaler overrides, and the record annotation, by server-side apply. The request must contain all these
// fields, because gpuscaler would lose the ownership of a field that the request omits.
func (w *Writer) apply(ctx context.Context, p capacity.NodePoolPatch, current object) error {
	if err := w.mayWrite(p.Pool); err != nil {
		return err
	}
	desired := newObject(karpenter.NodePoolKind, "", p.Pool)
	desired.SetResourceVersion(current.GetResourceVersion())
	// A server-side apply creates an object that does not exist. For a deleted NodePool, the UID makes the API server return a conflict
	// instead.
	desired.SetUID(current.GetUID())
	if p.Record != "" {
		annotations := map[string]string{karpenter.RecordAnnotation: p.Record}
		if w.options.Release != "" {
			annotations[karpenter.HolderAnnotation] = w.options.Release
		}
		desired.SetAnnotations(annotations)
	}
	for _, c := range p.Overrides {
		value, err := decodeValue(c.To)
		if err != nil {
			return err
		}
		if value == nil {
			continue // this override removes the field, so the request omits it
		}
		if err := unstructured.SetNestedField(desired.Object, value, c.Path()...); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	options := metav1.ApplyOptions{FieldManager: ownership.Manager, Force: true}
	_, err := w.options.Client.Resource(karpenter.NodePools).Apply(ctx, p.Pool, desired, options)
	return err
}

// errNotLeading is returned if this process no longer holds the Lease.
var errNotLeading = errors.New("this process no longer holds the Lease; the leader continues")

// mayWrite returns an error if this process no longer holds the Lease. It is called before each request of a patch, because the Lease can
// be lost while the patch waits for another patch, or while the process is suspended between two requests.
func (w *Writer) mayWrite(pool string) error {
	if !w.options.Leading() {
		return fmt.Errorf("patch NodePool %s: %w", pool, errNotLeading)
	}
	return nil
}

// checkRecorded returns an error for a patch that overrides a field without listing it in Overrides. The record annotation contains only
// the fields of Overrides, so the original value of another field would be lost.
func checkRecorded(p capacity.NodePoolPatch) error {
	for _, c := range p.Changes {
		same := func(o override.Change) bool { return o.Field == c.Field && o.Resource == c.Resource && o.To == c.To }
		if !c.Restore && !slices.ContainsFunc(p.Overrides, same) {
			return fmt.Errorf("NodePool %s: %s is not part of the overrides of the patch, so its original value is not recorded", p.Pool, c.Name())
		}
	}
	return nil
}

func newObject(kind schema.GroupVersionKind, namespace, name string) object {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetGroupVersionKind(kind)
	u.SetNamespace(namespace)
	u.SetName(name)
	return u
}

// jsonPatch sends a JSON patch of a NodePool. The API server returns a conflict if the NodePool has another version than base.
func (w *Writer) jsonPatch(ctx context.Context, base object, operations []operation) (object, error) {
	if err := w.mayWrite(base.GetName()); err != nil {
		return nil, err
	}
	version := operation{Op: "replace", Path: "/metadata/resourceVersion", Value: base.GetResourceVersion()}
	body, err := encode(append([]operation{version}, operations...))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	options := metav1.PatchOptions{FieldManager: ownership.Manager}
	patched, err := w.options.Client.Resource(karpenter.NodePools).Patch(ctx, base.GetName(), types.JSONPatchType, body, options)
	if apierrors.IsInvalid(err) {
		return nil, w.staleOr(ctx, base, err)
	}
	return patched, err
}

// errStale is returned if a patch was based on a version of a NodePool that was not the current version.
var errStale = errors.New("the cached NodePool is not current")

// staleOr returns a conflict if the NodePool has another version than base, and otherwise err. The API server executes a JSON patch before
// it compares versions. If another client has removed a field that the patch removes, the response is therefore "invalid" instead of
// "conflict".
func (w *Writer) staleOr(ctx context.Context, base object, err error) error {
	// a list request, because the controller has permission to list NodePools but not to get one
	selected := metav1.ListOptions{FieldSelector: "metadata.name=" + base.GetName()}
	list, listErr := w.options.Client.Resource(karpenter.NodePools).List(ctx, selected)
	if listErr != nil {
		return err
	}
	for i := range list.Items {
		current := &list.Items[i]
		if current.GetName() != base.GetName() || current.GetResourceVersion() == base.GetResourceVersion() {
			continue
		}
		cause := fmt.Errorf("the patch is for version %s, and the API server has version %s: %w", base.GetResourceVersion(),
			current.GetResourceVersion(), err)
		return fmt.Errorf("%w: %w", errStale, apierrors.NewConflict(karpenter.NodePools.GroupResource(), base.GetName(), cause))
	}
	return err
}
