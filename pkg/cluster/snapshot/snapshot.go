// Package snapshot reads the objects of a cluster once, for `gpuscaler lint`, and checks them by the rules that the controller uses. It can
// also check objects from files.
package snapshot

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/pager"
	apiregistration "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/apiservice"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/cache"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/karpenter"
	"github.com/gpuscaler/gpuscaler/pkg/lint/objects"
	"github.com/gpuscaler/gpuscaler/pkg/policy/store"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// Snapshot contains the objects to check, and the versions of the API server and of the operators.
type Snapshot struct {
	Version      string // version of the API server, "v1.36.4"; empty if it is unknown
	Minor        int    // minor version of the API server; 0 if it is unknown
	KEDA         string // version of KEDA, from the image of its operator; empty if KEDA is not installed or the image has no version
	Karpenter    string
	Registration *apiregistration.APIService // APIService of external.metrics.k8s.io; nil if there is none
	// Unread contains a message with the reason for each resource that could not be listed. The objects of such a resource are not checked.
	Unread []string
	// RegistrationError is the error of the read of Registration. If it is set, Registration is nil.
	RegistrationError error

	hpas            []*autoscalingv2.HorizontalPodAutoscaler
	fallbacks       objects.Fallbacks
	scaledObjects   []*unstructured.Unstructured
	pools, overlays []*unstructured.Unstructured
	nodePoolsServed bool // whether the API server serves NodePools as karpenter.sh/v1
	configMaps      []store.ConfigMap
	nodes           []*corev1.Node
	nodesRead       bool
}

var (
	deployments   = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	hpas          = autoscalingv2.SchemeGroupVersion.WithResource("horizontalpodautoscalers")
	scaledObjects = cache.ScaledObjects.GroupVersion().WithResource("scaledobjects")
	nodePools     = karpenter.NodePools
)

// Read reads the objects of a cluster. Kinds that are not installed are skipped. For kinds that cannot be listed, for example because of
// missing permissions, Read adds the reason to Unread. Read returns an error only if the API server does not respond.
func Read(ctx context.Context, client dynamic.Interface, versions discovery.ServerVersionInterface) (*Snapshot, error) {
	v, err := versions.ServerVersion()
	if err != nil {
		return nil, fmt.Errorf("the API server does not answer: %w", err)
	}
	s := &Snapshot{Version: v.GitVersion}
	s.Minor, _ = strconv.Atoi(strings.TrimRight(v.Minor, "+"))
	found, _ := s.list(ctx, client, hpas, "")
	kedas, _ := s.list(ctx, client, scaledObjects, "")
	pools, served := s.list(ctx, client, nodePools, "")
	s.nodePoolsServed = served
	for _, items := range [][]unstructured.Unstructured{found, kedas, pools} {
		for i := range items {
			if err := s.Add(&items[i]); err != nil {
				return nil, err
			}
		}
	}
	operators, _ := s.list(ctx, client, deployments, "app.kubernetes.io/name in (keda-operator, karpenter)")
	for i := range operators {
		s.readVersion(&operators[i])
	}
	s.readRegistration(ctx, client)
	return s, nil
}

// list returns the objects of a resource. served is false if the API server does not serve the resource.
func (s *Snapshot) list(ctx context.Context, client dynamic.Interface, r schema.GroupVersionResource, selector string,
) (items []unstructured.Unstructured, served bool) {
	served = s.each(ctx, client.Resource(r), r, selector, func(u *unstructured.Unstructured) { items = append(items, *u) })
	return items, served
}

// pageSize is the number of objects in one response of the API server. A Node can have 100 KB, and more after it is decoded.
const pageSize = 100

// each calls a function for each object of a resource, without keeping the objects in memory. If the objects cannot be listed, it adds the
// reason to Unread. served is false if the API server does not serve the resource.
func (s *Snapshot) each(ctx context.Context, client dynamic.ResourceInterface, r schema.GroupVersionResource, selector string,
	do func(*unstructured.Unstructured)) (served bool) {
	pages := pager.New(pager.SimplePageFunc(func(o metav1.ListOptions) (runtime.Object, error) { return client.List(ctx, o) }))
	pages.PageSize, pages.PageBufferSize = pageSize, 0
	err := pages.EachListItem(ctx, metav1.ListOptions{LabelSelector: selector}, func(object runtime.Object) error {
		do(object.(*unstructured.Unstructured))
		return nil
	})
	switch {
	case apierrors.IsNotFound(err):
		return false
	case apierrors.IsForbidden(err):
		s.Unread = append(s.Unread, r.GroupResource().String()+": these permissions do not allow to list it")
	case err != nil:
		s.Unread = append(s.Unread, fmt.Sprintf("%s: %v", r.GroupResource(), err))
	}
	return true
}

// Add adds an HPA, a ScaledObject, a NodePool, a NodeOverlay, a Node or a ConfigMap with policies, of the API server or of a file. It
// ignores other kinds.
func (s *Snapshot) Add(u *unstructured.Unstructured) error {
	switch u.GetKind() {
	case cache.HPAKind:
		h := &autoscalingv2.HorizontalPodAutoscaler{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, h); err != nil {
			return fmt.Errorf("HorizontalPodAutoscaler %s/%s: %w", u.GetNamespace(), u.GetName(), err)
		}
		s.hpas = append(s.hpas, h)
		if s.fallbacks == nil {
			s.fallbacks = objects.Fallbacks{}
		}
		s.fallbacks.Add(u)
	case cache.ScaledObjectKind:
		s.scaledObjects = append(s.scaledObjects, u)
	case karpenter.NodePoolKind.Kind:
		s.pools = append(s.pools, u)
	case karpenter.NodeOverlayKind.Kind:
		s.overlays = append(s.overlays, u)
	case "Node":
		s.addNode(u)
	case "ConfigMap":
		s.addConfigMap(u)
	}
	return nil
}

// readVersion reads the version of an operator from the tag of its image.
func (s *Snapshot) readVersion(u *unstructured.Unstructured) {
	containers, _, _ := unstructured.NestedSlice(u.Object, "spec", "template", "spec", "containers")
	if len(containers) == 0 {
		return
	}
	first, _ := containers[0].(map[string]any)
	image, _ := first["image"].(string)
	image, _, _ = strings.Cut(image, "@")
	tag := image[strings.LastIndexByte(image, ':')+1:]
	if strings.Contains(tag, "/") || tag == image {
		return // the image has no tag: the text after the last colon is the port of a registry and a path
	}
	if u.GetLabels()["app.kubernetes.io/name"] == "karpenter" {
		s.Karpenter = tag
	} else {
		s.KEDA = tag
	}
}

func (s *Snapshot) readRegistration(ctx context.Context, client dynamic.Interface) {
	// a list request, because the role of the controller, with which `helm test` runs, may list only this APIService
	one := metav1.ListOptions{FieldSelector: "metadata.name=" + apiservice.Name}
	all, err := client.Resource(apiservice.Resource).List(ctx, one)
	if err != nil {
		s.RegistrationError = fmt.Errorf("APIService %s: %w", apiservice.Name, err)
		s.Unread = append(s.Unread, s.RegistrationError.Error())
		return
	}
	for i := range all.Items {
		found := &apiregistration.APIService{}
		err := runtime.DefaultUnstructuredConverter.FromUnstructured(all.Items[i].Object, found)
		if err == nil && found.Name == apiservice.Name {
			s.Registration = found
		}
	}
}

// Owner returns the Service that the APIService of external metrics names, for example "keda/keda-operator-metrics-apiserver". It returns
// "no service" if the APIService does not exist.
func (s *Snapshot) Owner() string { return apiservice.ServiceOf(s.Registration) }

// fixedPolicies is a source of policies that do not change.
type fixedPolicies []scaling.Workload

func (p fixedPolicies) Current() []scaling.Workload { return p }

// Findings returns the configuration errors of the objects. If known is true, policies contains all policies of the cluster, so an HPA that
// selects a policy outside this list is an error. groups contains the names of the NodePools of each capacity group of the PlatformConfig,
// by group and capacity type.
func (s *Snapshot) Findings(policies []scaling.Workload, known bool,
	groups map[string]map[string][]string,
) (found []objects.ObjectFinding) {
	c := s.cache()
	var index *cache.PolicyIndex
	if known {
		index = cache.NewPolicies(fixedPolicies(policies)).Index()
	}
	for _, h := range c.ReadingHPAs() {
		h.Facts.Fallback = s.fallbacks.Of(h.HPA.Namespace, h.HPA.Name)
		object := fmt.Sprintf("%s %s/%s", cache.HPAKind, h.HPA.Namespace, h.HPA.Name)
		found = append(found, objects.About(object, objects.HPA(h.HPA.Object(), index.HPAFacts(h)))...)
	}
	for _, o := range c.ScaledObjects() {
		object := fmt.Sprintf("%s %s/%s", cache.ScaledObjectKind, o.Namespace, o.Name)
		found = append(found, objects.About(object, objects.ScaledObject(o.Checks, index.ScaledObjectFacts(o)))...)
	}
	found = append(found, c.ScaledTwice()...)
	found = append(found, objects.NodePools(nodePoolFacts(s.pools), groups)...)
	found = append(found, s.ClusterFindings()...)
	slices.SortStableFunc(found, func(a, b objects.ObjectFinding) int { return strings.Compare(a.Object, b.Object) })
	return found
}

// cache returns a cache with the HPAs and ScaledObjects of the snapshot.
func (s *Snapshot) cache() *cache.Cache {
	c := cache.New(s.Minor)
	for _, object := range s.hpas {
		if trimmed, err := cache.TrimHPA(object); err == nil {
			c.PutHPA(nil, trimmed.(*cache.HPA))
		}
	}
	for _, object := range s.scaledObjects {
		if trimmed, err := cache.TrimScaledObject(object); err == nil {
			c.PutScaledObject(nil, trimmed.(*cache.ScaledObject))
		}
	}
	return c
}

// PolicyObjects returns the HPAs and ScaledObjects in the form from which the policy store reads policies in annotations.
func (s *Snapshot) PolicyObjects() (all []store.Object) {
	for _, object := range s.hpas {
		if trimmed, err := cache.TrimHPA(object); err == nil {
			if o, ok := trimmed.(*cache.HPA).PolicyObject(); ok {
				all = append(all, o)
			}
		}
	}
	for _, o := range s.cache().ScaledObjects() {
		all = append(all, o.PolicyObject())
	}
	return all
}

// ClusterFindings returns the findings about the cluster itself: another server is registered for external metrics, or a version is too
// old.
func (s *Snapshot) ClusterFindings() []objects.ObjectFinding {
	return objects.Cluster(s.clusterFacts())
}

// InactiveHPA is an HPA that reads a target of gpuscaler but does not scale. Reason and Message are from its condition ScalingActive.
type InactiveHPA struct{ Namespace, Name, Reason, Message string }

// InactiveHPAs returns the HPAs that read targets of gpuscaler and whose condition ScalingActive is False, for example because they cannot
// read the metric. It skips HPAs of workloads with zero replicas, which are normally inactive.
func (s *Snapshot) InactiveHPAs() (inactive []InactiveHPA) {
	reading := map[string]bool{}
	for _, h := range s.cache().ReadingHPAs() {
		reading[h.HPA.Namespace+"/"+h.HPA.Name] = true
	}
	for _, h := range s.hpas {
		for _, c := range h.Status.Conditions {
			if c.Type == autoscalingv2.ScalingActive && c.Status == corev1.ConditionFalse && c.Reason != "ScalingDisabled" &&
				reading[h.Namespace+"/"+h.Name] {
				inactive = append(inactive, InactiveHPA{h.Namespace, h.Name, c.Reason, c.Message})
			}
		}
	}
	return inactive
}

func (s *Snapshot) clusterFacts() objects.ClusterFacts {
	f := objects.ClusterFacts{
		Version: s.Version, Minor: s.Minor, KEDA: s.KEDA, Karpenter: s.Karpenter, NodePoolsServed: s.nodePoolsServed, APIService: apiservice.Name,
	}
	if s.Registration != nil && s.Registration.Spec.Service != nil {
		f.Service = s.Owner()
		f.Available, f.Detail = apiservice.Available(s.Registration)
	}
	return f
}

// TriggerQueries contains the Prometheus queries of one ScaledObject.
type TriggerQueries struct {
	Object, Namespace string
	MinReplicas       int32
	Queries           map[string]string // key: the trigger's name, or its index if it has no name
	Others            bool              // whether the ScaledObject has triggers whose values do not depend on the workload's pods
}

// Queries returns the Prometheus queries of every ScaledObject, including ScaledObjects that gpuscaler does not manage.
func (s *Snapshot) Queries() (out []TriggerQueries) {
	for _, u := range s.scaledObjects {
		o, err := cache.DecodeScaledObject(u)
		if err != nil {
			continue // skipped, because a finding about the ScaledObject reports the error
		}
		q := TriggerQueries{Object: fmt.Sprintf("%s %s/%s", cache.ScaledObjectKind, u.GetNamespace(), u.GetName()), Namespace: u.GetNamespace(),
			Queries: map[string]string{}}
		if n := o.Spec.MinReplicaCount; n != nil {
			q.MinReplicas = max(*n, 0)
		}
		for i := range o.Spec.Triggers {
			t := &o.Spec.Triggers[i]
			name := t.Name
			if name == "" {
				name = strconv.Itoa(i)
			}
			if query := t.Metadata["query"]; t.Type == "prometheus" && query != "" {
				q.Queries[name] = query
			} else if t.Type != "cpu" && t.Type != "memory" {
				q.Others = true
			}
		}
		if len(q.Queries) > 0 {
			out = append(out, q)
		}
	}
	return out
}
