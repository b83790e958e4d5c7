package policystatus

import (
	"context"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/gpuscaler/gpuscaler/pkg/policy/annotations"
)

// pageSize is the number of objects in one response of the API server. It is small because a ConfigMap can have 1 MiB.
const pageSize = 50

// Remover removes the annotation policy-status from all objects that have it.
type Remover struct {
	Client  kubernetes.Interface
	Objects dynamic.Interface
	// Namespaces are the namespaces whose HPAs and ScaledObjects are read. ConfigMapsIn are the namespaces whose ConfigMaps are read. If
	// both are empty, all namespaces are read.
	Namespaces, ConfigMapsIn []string
	DryRun                   bool
}

// Removed is the result for one object from which the annotation was removed, or for a kind whose objects were not searched.
type Removed struct {
	Object  string // kind, namespace and name of the object; or only the kind, if it was not searched
	Err     error
	Skipped string // why the objects of this kind were not searched
}

// RemoveAll removes the annotation. It returns a result for each object that had the annotation, and for each kind whose objects the user
// is not allowed to list in all namespaces.
func (r *Remover) RemoveAll(ctx context.Context) (done []Removed, err error) {
	scalers, configMaps := r.Namespaces, r.ConfigMapsIn
	everywhere := len(scalers)+len(configMaps) == 0
	if everywhere {
		scalers, configMaps = []string{metav1.NamespaceAll}, []string{metav1.NamespaceAll}
	}
	for _, list := range []struct {
		kind       string
		namespaces []string
		page       lister
	}{{"HorizontalPodAutoscaler", scalers, r.hpas}, {"ScaledObject", scalers, r.scaledObjects}, {configMapKind, configMaps, r.configMaps}} {
		if everywhere && !r.mayListAll(ctx, list.kind) {
			done = append(done, Removed{Object: list.kind, Skipped: "the annotation " + annotations.PolicyStatus + " was not searched, because " +
				"you are not allowed to list this kind in all namespaces; name the namespaces with --policy-status-namespaces and " +
				"--configmap-namespaces"})
			continue
		}
		for _, namespace := range list.namespaces {
			removed, err := r.removeFrom(ctx, list.kind, namespace, list.page)
			if done = append(done, removed...); err != nil {
				return done, fmt.Errorf("list objects of kind %s: %w", list.kind, err)
			}
		}
	}
	return done, nil
}

// mayListAll reports whether the user is allowed to list the objects of a kind in all namespaces. For example, the service account of
// gpuscaler may not list ConfigMaps in all namespaces. If the API server does not respond, mayListAll returns true, so that the following
// list request returns the error.
func (r *Remover) mayListAll(ctx context.Context, kind string) bool {
	resource := resources[kind]
	answer, err := r.Client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: "list", Group: resource.Group, Resource: resource.Resource}},
	}, metav1.CreateOptions{})
	return err != nil || answer.Status.Allowed
}

// lister returns one page of the objects of a kind, and the token of the next page.
type lister func(ctx context.Context, namespace string, o metav1.ListOptions) (objects []metav1.Object, next string, err error)

// removeFrom removes the annotation from the objects of one kind in a namespace.
func (r *Remover) removeFrom(ctx context.Context, kind, namespace string, page lister) (done []Removed, err error) {
	o := metav1.ListOptions{Limit: pageSize}
	for {
		objects, next, err := page(ctx, namespace, o)
		if apierrors.IsNotFound(err) {
			return done, nil // the API server does not serve this kind
		}
		if err != nil {
			return done, err
		}
		for _, object := range objects {
			if Read(object).Ours {
				done = append(done, r.remove(ctx, kind, object))
			}
		}
		if o.Continue = next; next == "" {
			return done, nil
		}
	}
}

func (r *Remover) remove(ctx context.Context, kind string, o metav1.Object) Removed {
	out := Removed{Object: kind + " " + o.GetNamespace() + "/" + o.GetName()}
	if r.DryRun {
		return out
	}
	out.Err = Apply(ctx, r.Objects, corev1.ObjectReference{APIVersion: resources[kind].GroupVersion().String(), Kind: kind,
		Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID()}, "")
	if apierrors.IsNotFound(out.Err) || apierrors.IsConflict(out.Err) {
		out.Err = nil // the object was deleted in the meantime
	}
	return out
}

func (r *Remover) hpas(ctx context.Context, namespace string, o metav1.ListOptions) (all []metav1.Object, next string, err error) {
	list, err := r.Client.AutoscalingV2().HorizontalPodAutoscalers(namespace).List(ctx, o)
	if err != nil {
		return nil, "", err
	}
	for i := range list.Items {
		all = append(all, &list.Items[i])
	}
	return all, list.Continue, nil
}

func (r *Remover) configMaps(ctx context.Context, namespace string, o metav1.ListOptions) (all []metav1.Object, next string, err error) {
	list, err := r.Client.CoreV1().ConfigMaps(namespace).List(ctx, o)
	if err != nil {
		return nil, "", err
	}
	for i := range list.Items {
		all = append(all, &list.Items[i])
	}
	return all, list.Continue, nil
}

func (r *Remover) scaledObjects(ctx context.Context, namespace string, o metav1.ListOptions) (all []metav1.Object, next string, err error) {
	list, err := r.Objects.Resource(resources["ScaledObject"]).Namespace(namespace).List(ctx, o)
	if err != nil {
		return nil, "", err
	}
	for i := range list.Items {
		all = append(all, &list.Items[i])
	}
	return all, list.GetContinue(), nil
}
