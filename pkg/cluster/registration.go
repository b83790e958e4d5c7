package cluster

import (
	"bytes"
	"context"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	apiregistration "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// standingOf is what the registration looks like to us.
type standingOf struct {
	owner     string // namespace/name of the service that is named, "nobody", or "the API server itself"
	ours      bool
	stolen    bool
	write     bool   // it should be written: absent, or ours and out of date
	available string // what the aggregator says of ours: "True", or "False: reason"
	detail    string // in its words, which name another source port each time
}

// judge compares the registration with what it should be; nil means that there is none.
func (g *APIService) judge(found *apiregistration.APIService) standingOf {
	if found == nil {
		return standingOf{owner: "nobody", write: true}
	}
	s := found.Spec.Service
	switch {
	case s == nil:
		return standingOf{owner: "the API server itself", stolen: g.had || g.options.Mode == APIServiceOwner}
	case s.Namespace != g.options.Service.Namespace || s.Name != g.options.Service.Name:
		return standingOf{owner: s.Namespace + "/" + s.Name, stolen: g.had || g.options.Mode == APIServiceOwner}
	}
	port := int32(443)
	if s.Port != nil {
		port = *s.Port
	}
	stale := port != g.options.Port
	if ca := g.options.CABundle(); len(ca) > 0 { // without one, another may have been put in place (cert-manager's injector)
		stale = stale || !bytes.Equal(found.Spec.CABundle, ca)
	}
	now := standingOf{owner: s.Namespace + "/" + s.Name, ours: true, write: stale}
	now.available, now.detail = available(found)
	return now
}

func available(found *apiregistration.APIService) (state, detail string) {
	for _, c := range found.Status.Conditions {
		if c.Type == apiregistration.Available {
			if c.Status == apiregistration.ConditionTrue {
				return "True", ""
			}
			return fmt.Sprintf("%s: %s", c.Status, c.Reason), c.Message
		}
	}
	return "Unknown", ""
}

// apply registers us, or brings our registration up to date. A new one is written without force, so that somebody who registers
// in the same instant keeps it; ours is written at the version that was seen, so that it cannot have become somebody else's.
func (g *APIService) apply(ctx context.Context, found *apiregistration.APIService) error {
	ctx, cancel := context.WithTimeout(ctx, activateTimeout)
	defer cancel()
	want := &apiregistration.APIService{
		TypeMeta:   metav1.TypeMeta{APIVersion: apiregistration.SchemeGroupVersion.String(), Kind: "APIService"},
		ObjectMeta: metav1.ObjectMeta{Name: ExternalMetricsAPIService},
		Spec: apiregistration.APIServiceSpec{
			Group: "external.metrics.k8s.io", Version: "v1beta1", GroupPriorityMinimum: 100, VersionPriority: 100,
			CABundle: g.options.CABundle(),
			Service:  &apiregistration.ServiceReference{Namespace: g.options.Service.Namespace, Name: g.options.Service.Name, Port: &g.options.Port},
		},
	}
	if found != nil {
		want.ResourceVersion = found.ResourceVersion
	}
	want.OwnerReferences = g.owner(ctx)
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(want)
	if err != nil {
		return err
	}
	delete(content, "status")
	u := &unstructured.Unstructured{Object: content}
	unstructured.RemoveNestedField(u.Object, "metadata", "creationTimestamp")
	_, err = g.objects.Apply(ctx, ExternalMetricsAPIService, u, metav1.ApplyOptions{FieldManager: fieldManager, Force: found != nil})
	if apierrors.IsConflict(err) {
		return fmt.Errorf("somebody else registered meanwhile: %w", err)
	}
	return err
}

// owner refers to the role that the registration goes away with. Where it cannot be read the registration is written all the same:
// HPAs wait for it.
func (g *APIService) owner(ctx context.Context) []metav1.OwnerReference {
	if g.options.OwnerRole == "" {
		return nil
	}
	role, err := g.roles.Get(ctx, g.options.OwnerRole, metav1.GetOptions{})
	if err != nil {
		g.log.Warn("the registration for external metrics will outlive an uninstall: its owner cannot be read", "role", g.options.OwnerRole, "error", err)
		return nil
	}
	return []metav1.OwnerReference{{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRole", Name: role.Name, UID: role.UID}}
}
