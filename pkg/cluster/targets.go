package cluster

import (
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/gpupods"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// ref names a scaled object by what its users write. The version is left out: a policy, an HPA and a ScaledObject may each name
// another version of the same object.
type ref struct{ namespace, group, kind, name string }

// refOf names a target without allocating. An empty apiVersion or kind means a Deployment, as in KEDA.
func refOf(namespace, apiVersion, kind, name string) ref {
	if kind == "" {
		kind = "Deployment"
	}
	group := "apps"
	if apiVersion != "" {
		group, _, _ = strings.Cut(apiVersion, "/")
		if len(group) == len(apiVersion) {
			group = "" // "v1": the core group
		}
	}
	return ref{namespace, group, kind, name}
}

func refOfWorkload(w *scaling.Workload) ref {
	return refOf(w.Key.Namespace, w.Target.APIVersion, w.Target.Kind, w.Target.Name)
}

// targetFacts is all that is kept of a scaled object.
type targetFacts struct {
	metav1.ObjectMeta
	ref        ref
	apiVersion string
	replicas   int32
	size       int32              // pods per replica; > 1 only for groups
	scaled     bool               // read through /scale: nothing says how many pods a replica has
	exist      int32              // status.replicas of /scale
	perPod     []gpupods.Amount   // extended resources of its greatest pod, where a replica is several
	gpus       int32              // GPUs per replica, all of its pods together
	extended   []gpupods.Amount   // extended resources per replica
	unreadable bool               // the pod template cannot be read, so that gpus and extended are not known
	claims     []gpupods.ClaimRef // devices that its pods claim
	limitsOnly bool               // one of them is limited and not requested, which only a pod that exists makes the same
	quota      bool               // a ResourceQuota refuses its pods
	selector   labels.Selector    // nil while unknown: the view stays unknown with it
	operator   operatorFacts
}

func trimDeployment(obj any) (any, error) {
	d, ok := obj.(*appsv1.Deployment)
	if !ok {
		return obj, nil
	}
	f := appTarget(&d.ObjectMeta, d.Spec.Selector, &d.Spec.Template.Spec).as("Deployment", d.Spec.Replicas)
	for i := range d.Status.Conditions {
		c := &d.Status.Conditions[i]
		f.quota = f.quota || c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue && strings.Contains(c.Message, "exceeded quota")
	}
	return f, nil
}

func trimStatefulSet(obj any) (any, error) {
	s, ok := obj.(*appsv1.StatefulSet)
	if !ok {
		return obj, nil
	}
	return appTarget(&s.ObjectMeta, s.Spec.Selector, &s.Spec.Template.Spec).as("StatefulSet", s.Spec.Replicas), nil
}

func appTarget(m *metav1.ObjectMeta, s *metav1.LabelSelector, pod *corev1.PodSpec) *targetFacts {
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		selector = nil // the API server refuses such an object; a view of it would count nobody's pods
	}
	return &targetFacts{
		ObjectMeta: identity(m),
		apiVersion: "apps/v1",
		size:       1,
		gpus:       gpupods.GPUs(pod),
		extended:   gpupods.ExtendedResources(pod),
		claims:     gpupods.ClaimRefs(pod),
		limitsOnly: gpupods.HasLimitWithoutRequest(pod),
		selector:   selector,
		operator:   readOperator(m.Annotations, m.ManagedFields),
	}
}

func (f *targetFacts) as(kind string, replicas *int32) *targetFacts {
	f.ref, f.replicas = ref{f.Namespace, "apps", kind, f.Name}, 1
	if replicas != nil {
		f.replicas = *replicas
	}
	return f
}

// trimLeaderWorkerSet reads a LeaderWorkerSet, whose replica is a group of `size` pods: a leader and size-1 workers.
func trimLeaderWorkerSet(obj any) (any, error) {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return obj, nil
	}
	f := unstructuredTarget(u)
	size, found, _ := unstructured.NestedInt64(u.Object, "spec", "leaderWorkerTemplate", "size")
	if !found || size < 1 {
		size = 1
	}
	workers, readable := templatePod(u, "spec", "leaderWorkerTemplate", "workerTemplate")
	leader := workers
	if _, own, _ := unstructured.NestedMap(u.Object, "spec", "leaderWorkerTemplate", "leaderTemplate"); own {
		var also bool
		leader, also = templatePod(u, "spec", "leaderWorkerTemplate", "leaderTemplate")
		readable = readable && also
	}
	f.unreadable = !readable
	f.size = int32(min(size, gpupods.MaxGPUs))
	for _, e := range append(gpupods.ExtendedResources(workers), gpupods.ExtendedResources(leader)...) {
		if n := max(gpupods.CountOf(gpupods.ExtendedResources(workers), e.Resource), gpupods.CountOf(gpupods.ExtendedResources(leader), e.Resource)); gpupods.CountOf(f.perPod, e.Resource) == 0 {
			f.perPod = append(f.perPod, gpupods.Amount{Resource: e.Resource, Count: n})
		}
	}
	f.claims = append(gpupods.ClaimRefs(leader), gpupods.ClaimRefs(workers)...)
	f.gpus = int32(min(int64(gpupods.GPUs(leader))+(size-1)*int64(gpupods.GPUs(workers)), gpupods.MaxGPUs))
	for _, e := range append(gpupods.ExtendedResources(workers), gpupods.ExtendedResources(leader)...) {
		if gpupods.CountOf(f.extended, e.Resource) == 0 {
			n := gpupods.CountOf(gpupods.ExtendedResources(leader), e.Resource) + (size-1)*gpupods.CountOf(gpupods.ExtendedResources(workers), e.Resource)
			f.extended = append(f.extended, gpupods.Amount{Resource: e.Resource, Count: min(n, gpupods.MaxGPUs)})
		}
	}
	// status.hpaPodSelector chooses the leaders only; readiness and coverage need every pod of the group.
	f.selector = labels.SelectorFromSet(labels.Set{lwsName: u.GetName()})
	return f, nil
}

// trimScalable reads any other kind with /scale. Its selector is only known to /scale, which scales asks for.
func trimScalable(obj any) (any, error) {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return obj, nil
	}
	f := unstructuredTarget(u)
	pod, readable := templatePod(u, "spec", "template")
	f.gpus, f.extended, f.claims, f.unreadable = gpupods.GPUs(pod), gpupods.ExtendedResources(pod), gpupods.ClaimRefs(pod), !readable
	return f, nil
}

func unstructuredTarget(u *unstructured.Unstructured) *targetFacts {
	gvk := u.GroupVersionKind()
	m := metav1.ObjectMeta{Name: u.GetName(), Namespace: u.GetNamespace(), UID: u.GetUID(), ResourceVersion: u.GetResourceVersion()}
	f := &targetFacts{
		ObjectMeta: m,
		ref:        ref{m.Namespace, gvk.Group, gvk.Kind, m.Name},
		apiVersion: u.GetAPIVersion(),
		replicas:   1, size: 1,
		operator: readOperator(u.GetAnnotations(), u.GetManagedFields()),
	}
	if n, found, err := unstructured.NestedInt64(u.Object, "spec", "replicas"); found && err == nil {
		f.replicas = int32(min(max(n, 0), maxReplicas))
	}
	return f
}

// maxReplicas keeps an absurd number in a foreign object from overflowing an int32.
const maxReplicas = 1 << 24

// templatePod returns a pod template inside an unstructured object. ok is false, and the pod is empty, where none can be read or the
// one that is there has no container.
func templatePod(u *unstructured.Unstructured, fields ...string) (spec *corev1.PodSpec, ok bool) {
	spec = &corev1.PodSpec{}
	raw, found, err := unstructured.NestedMap(u.Object, append(fields, "spec")...)
	if !found || err != nil {
		return spec, false
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(raw, spec); err != nil {
		return &corev1.PodSpec{}, false
	}
	return spec, len(spec.Containers) > 0
}
