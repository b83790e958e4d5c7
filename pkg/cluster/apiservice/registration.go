package apiservice

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	apiregistration "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/ownership"
)

const (
	// NoOwner is the value that ServiceOf returns if the APIService does not exist.
	NoOwner = "no service"
	// LocalOwner is the value that ServiceOf returns if the APIService names no Service, because the API server itself serves the API.
	LocalOwner = "the API server itself"
)

// registration is the result of comparing the APIService in the cluster with the APIService that this release needs.
type registration struct {
	owner     string // the Service that the APIService names, as NAMESPACE/NAME; otherwise NoOwner or LocalOwner
	ours      bool
	conflict  bool
	write     bool   // whether the APIService must be written: it does not exist, or it refers to this release and is outdated
	available string // status of the condition Available if the APIService refers to this release: "True" or "False: reason"
	detail    string // message of the condition Available; it can contain a port number that differs in each message
}

// compare compares the found APIService with the APIService that this release needs. found is nil if the APIService does not exist.
func (g *Guard) compare(found *apiregistration.APIService) registration {
	if found == nil {
		return registration{owner: NoOwner, write: true}
	}
	s := found.Spec.Service
	switch {
	case s == nil:
		return registration{owner: LocalOwner, conflict: g.wasOurs || g.options.Mode == Owner}
	case s.Namespace != g.options.Service.Namespace || s.Name != g.options.Service.Name:
		return registration{owner: ServiceOf(found), conflict: g.wasOurs || g.options.Mode == Owner}
	}
	port := int32(443)
	if s.Port != nil {
		port = *s.Port
	}
	stale := port != g.options.Port
	if ca := g.options.CABundle(); len(ca) > 0 { // an empty bundle is not compared, because cert-manager's CA injector may set caBundle
		stale = stale || !bytes.Equal(found.Spec.CABundle, ca)
	}
	now := registration{owner: ServiceOf(found), ours: true, write: stale}
	now.available, now.detail = Available(found)
	return now
}

// ServiceOf returns the service that serves external metrics according to an APIService: NAMESPACE/NAME, LocalOwner if the APIService names
// no Service, or NoOwner if found is nil.
func ServiceOf(found *apiregistration.APIService) string {
	switch {
	case found == nil:
		return NoOwner
	case found.Spec.Service == nil:
		return LocalOwner
	}
	return found.Spec.Service.Namespace + "/" + found.Spec.Service.Name
}

// NextStep returns what a user can do while another server is registered for external metrics. owner is the Service of that server,
// NAMESPACE/NAME. Only one server can be registered. If that server is not KEDA, KEDA is no alternative, because the HPAs of its
// ScaledObjects read the same API.
func NextStep(owner string) string {
	switch {
	case strings.Contains(owner, "keda"):
		return "scale through ScaledObjects with an external-push trigger (config/guides/keda.md)"
	case strings.Contains(owner, "datadog"):
		return "set clusterAgent.metricsProvider.registerAPIService=false in Datadog's chart and delete the APIService; or keep it: without " +
			"the registration gpuscaler scales only between 0 and 1 (activate: true) and prepares NodePools (config/guides/datadog.md)"
	case owner == LocalOwner:
		return "delete the APIService, and gpuscaler registers itself"
	}
	return "remove the registration of that server and delete the APIService, and gpuscaler registers itself; or keep it: without the " +
		"registration gpuscaler scales only between 0 and 1 (activate: true) and prepares NodePools"
}

// Available returns the condition Available of an APIService: "True", "STATUS: REASON" for any other status, or "Unknown" without the
// condition. detail is the condition's message; it is empty for "True" and without the condition.
func Available(found *apiregistration.APIService) (state, detail string) {
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

// apply creates or updates the APIService by server-side apply. It creates without force: if another adapter creates the APIService at the
// same time, apply returns an error and leaves the APIService unchanged. An update contains the resource version that was read, so it does
// not overwrite a change by another adapter.
func (g *Guard) apply(ctx context.Context, found *apiregistration.APIService) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	desired := &apiregistration.APIService{
		TypeMeta:   metav1.TypeMeta{APIVersion: apiregistration.SchemeGroupVersion.String(), Kind: "APIService"},
		ObjectMeta: metav1.ObjectMeta{Name: Name},
		Spec: apiregistration.APIServiceSpec{
			Group: "external.metrics.k8s.io", Version: "v1beta1", GroupPriorityMinimum: 100, VersionPriority: 100,
			CABundle: g.options.CABundle(),
			Service:  &apiregistration.ServiceReference{Namespace: g.options.Service.Namespace, Name: g.options.Service.Name, Port: &g.options.Port},
		},
	}
	if found != nil {
		desired.ResourceVersion = found.ResourceVersion
	}
	desired.OwnerReferences = g.owner(ctx)
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(desired)
	if err != nil {
		return err
	}
	delete(content, "status")
	u := &unstructured.Unstructured{Object: content}
	unstructured.RemoveNestedField(u.Object, "metadata", "creationTimestamp")
	_, err = g.objects.Apply(ctx, Name, u, metav1.ApplyOptions{FieldManager: ownership.Manager, Force: found != nil})
	if apierrors.IsConflict(err) {
		return fmt.Errorf("another service was registered in the meantime: %w", err)
	}
	return err
}

// owner returns the owner reference to the ClusterRole OwnerRole. It returns nil if the role cannot be read. The APIService is then written
// without an owner, because without any APIService HPAs cannot read their metrics.
func (g *Guard) owner(ctx context.Context) []metav1.OwnerReference {
	if g.options.OwnerRole == "" {
		return nil
	}
	role, err := g.roles.Get(ctx, g.options.OwnerRole, metav1.GetOptions{})
	if err != nil {
		g.log.Warn("the APIService of external metrics has no owner and stays after an uninstall: the ClusterRole cannot be read",
			"role", g.options.OwnerRole, "error", err)
		return nil
	}
	return []metav1.OwnerReference{{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRole", Name: role.Name, UID: role.UID}}
}
