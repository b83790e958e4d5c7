package cache

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/gpupods"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/informer"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/manual"
	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// LeaderWorkerSetKind is the kind of LeaderWorkerSets. One replica is a group of pods.
var LeaderWorkerSetKind = schema.GroupVersionKind{Group: "leaderworkerset.x-k8s.io", Version: "v1", Kind: "LeaderWorkerSet"}

// Ref identifies a scale target. It has no API version, because a policy, an HPA and a ScaledObject can refer to different versions of one
// object.
type Ref struct{ Namespace, Group, Kind, Name string }

// String returns kind, namespace and name, for example "Deployment team/chat".
func (r Ref) String() string { return r.Kind + " " + r.Namespace + "/" + r.Name }

// RefOf returns the Ref of a scale target without allocating memory. An empty kind means a Deployment, and an empty apiVersion means the
// group apps, as in KEDA.
func RefOf(namespace, apiVersion, kind, name string) Ref {
	if kind == "" {
		kind = "Deployment"
	}
	group := "apps"
	if apiVersion != "" {
		group, _, _ = strings.Cut(apiVersion, "/")
		if len(group) == len(apiVersion) {
			group = "" // the core group: its apiVersion is only "v1"
		}
	}
	return Ref{namespace, group, kind, name}
}

// RefOfWorkload returns the Ref of a workload's scale target.
func RefOfWorkload(w *scaling.Workload) Ref {
	return RefOf(w.Key.Namespace, w.Target.APIVersion, w.Target.Kind, w.Target.Name)
}

// Target contains the fields of a scale target that the cache stores.
type Target struct {
	metav1.ObjectMeta
	Ref            Ref
	APIVersion     string
	Replicas       int32
	Size           int32              // pods per replica
	ReplicaLabel   string             // key of the pod label whose value identifies the replica; empty if a replica has one pod
	ReadScale      bool               // whether the target was read through /scale, which does not report how many pods a replica has
	SizeVariable   string             // environment variable of the pods that contains Size; empty: Size is not read from pods
	undescribed    string             // why the pods or the number of pods per replica are unknown; empty: both are known
	StatusReplicas int32              // status.replicas of /scale
	PerPod         []gpupods.Amount   // extended resources of its largest pod, if a replica has several pods
	GPUs           int32              // GPUs per replica, in all pods of the replica
	Extended       []gpupods.Amount   // extended resources per replica
	Unreadable     bool               // whether the pod template cannot be decoded, so that GPUs and Extended are unknown
	Claims         []gpupods.ClaimRef // ResourceClaims of its pods
	// LimitsOnly is true if a container has a limit of an extended resource and no request. The API server adds the request to pods but not to
	// the template.
	LimitsOnly bool
	Rejection  engine.Rejection // why the API server rejects further pods; the zero value: it does not reject pods
	Selector   labels.Selector  // selector of the pods; nil: the selector is unknown, so View returns no observed state of the target
	operator   manual.Operator
}

// Reference returns the object reference that an Event about the scale target contains.
func (t *Target) Reference() corev1.ObjectReference {
	return corev1.ObjectReference{APIVersion: t.APIVersion, Kind: t.Ref.Kind, Namespace: t.Namespace, Name: t.Name, UID: t.UID}
}

// TrimDeployment is the transform of the Deployment informer. It returns a *Target.
func TrimDeployment(obj any) (any, error) {
	d, ok := obj.(*appsv1.Deployment)
	if !ok {
		return obj, nil
	}
	t := appsTarget(&d.ObjectMeta, d.Spec.Selector, &d.Spec.Template.Spec).as("Deployment", d.Spec.Replicas)
	t.Rejection = deploymentRejection(d)
	return t, nil
}

// TrimStatefulSet is the transform of the StatefulSet informer. It returns a *Target.
func TrimStatefulSet(obj any) (any, error) {
	s, ok := obj.(*appsv1.StatefulSet)
	if !ok {
		return obj, nil
	}
	return appsTarget(&s.ObjectMeta, s.Spec.Selector, &s.Spec.Template.Spec).as("StatefulSet", s.Spec.Replicas), nil
}

func appsTarget(m *metav1.ObjectMeta, s *metav1.LabelSelector, pod *corev1.PodSpec) *Target {
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		// The API server rejects an invalid selector, so this does not occur. If it does, View returns no observed state of the target.
		selector = nil
	}
	return &Target{
		ObjectMeta: informer.Identity(m),
		APIVersion: "apps/v1",
		Size:       1,
		GPUs:       gpupods.GPUs(pod),
		Extended:   gpupods.ExtendedResources(pod),
		Claims:     gpupods.ClaimRefs(pod),
		LimitsOnly: gpupods.HasLimitWithoutRequest(pod),
		Selector:   selector,
		operator:   manual.ReadOperator(m.Annotations, m.ManagedFields),
	}
}

func (t *Target) as(kind string, replicas *int32) *Target {
	t.Ref, t.Replicas = Ref{t.Namespace, "apps", kind, t.Name}, 1
	if replicas != nil {
		t.Replicas = *replicas
	}
	return t
}

// TrimLeaderWorkerSet is the transform of the LeaderWorkerSet informer. It returns a *Target. One replica is a group of pods: a leader and
// size-1 workers, where size is a field of the LeaderWorkerSet.
func TrimLeaderWorkerSet(obj any) (any, error) {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return obj, nil
	}
	t := unstructuredTarget(u)
	size, found, _ := unstructured.NestedInt64(u.Object, "spec", "leaderWorkerTemplate", "size")
	if !found || size < 1 {
		size = 1
	}
	workers, readable := templatePod(u, "spec", "leaderWorkerTemplate", "workerTemplate")
	leader := workers
	if _, own, _ := unstructured.NestedMap(u.Object, "spec", "leaderWorkerTemplate", "leaderTemplate"); own {
		var leaderReadable bool
		leader, leaderReadable = templatePod(u, "spec", "leaderWorkerTemplate", "leaderTemplate")
		readable = readable && leaderReadable
	}
	t.Unreadable, t.ReplicaLabel = !readable, lwsGroupLabel
	t.Size = int32(min(size, gpupods.MaxGPUs))
	t.Claims = append(gpupods.ClaimRefs(leader), gpupods.ClaimRefs(workers)...)
	t.GPUs = int32(min(int64(gpupods.GPUs(leader))+(size-1)*int64(gpupods.GPUs(workers)), gpupods.MaxGPUs))
	t.addGroupResources(gpupods.ExtendedResources(leader), gpupods.ExtendedResources(workers), size)
	// status.hpaPodSelector is not used, because it selects only the leader pods: readiness and metrics are read from all pods of a group
	t.Selector = labels.SelectorFromSet(labels.Set{lwsNameLabel: u.GetName()})
	return t, nil
}

// addGroupResources sets the extended resources of a replica that has one leader and size-1 workers.
func (t *Target) addGroupResources(leader, worker []gpupods.Amount, size int64) {
	for _, a := range append(append([]gpupods.Amount{}, worker...), leader...) {
		ofLeader, ofWorker := gpupods.CountOf(leader, a.Resource), gpupods.CountOf(worker, a.Resource)
		if gpupods.CountOf(t.PerPod, a.Resource) == 0 {
			t.PerPod = append(t.PerPod, gpupods.Amount{Resource: a.Resource, Count: max(ofLeader, ofWorker)})
		}
		if gpupods.CountOf(t.Extended, a.Resource) == 0 {
			count := min(ofLeader+(size-1)*ofWorker, gpupods.MaxGPUs)
			t.Extended = append(t.Extended, gpupods.Amount{Resource: a.Resource, Count: count})
		}
	}
}

// WithScale returns a copy of the target with the replicas that its /scale reports. If the target has no selector, the copy also has the
// selector that /scale reports.
func (t *Target) WithScale(scale *unstructured.Unstructured) (*Target, error) {
	replicas, _, err := unstructured.NestedInt64(scale.Object, "spec", "replicas")
	if err != nil || replicas < 0 || replicas > maxReplicas {
		spec := shortened(fmt.Sprint(scale.Object["spec"]))
		return nil, fmt.Errorf("/scale of %s: spec is %s; want a spec.replicas from 0 to %d", t.Ref, spec, maxReplicas)
	}
	selector := t.Selector
	if selector == nil {
		text, _, _ := unstructured.NestedString(scale.Object, "status", "selector")
		if text == "" {
			return nil, fmt.Errorf("/scale of %s has no selector, so its pods are not known: add nameLabel to the kind in scaleKinds", t.Ref)
		}
		if selector, err = labels.Parse(text); err != nil {
			return nil, fmt.Errorf("/scale of %s: status.selector: %s", t.Ref, shortened(err.Error()))
		}
	}
	statusReplicas, _, _ := unstructured.NestedInt64(scale.Object, "status", "replicas")
	full := *t
	full.Replicas, full.Selector = int32(replicas), selector
	full.ReadScale, full.StatusReplicas = true, int32(min(max(statusReplicas, 0), maxReplicas))
	return &full, nil
}

// WithoutScale returns a copy of the scale target for a workload whose /scale cannot be read. The copy contains the reason why gpuscaler
// computes no target for the workload: the kind has no scale subresource (notFound is true), or the error err of the read. The copy has no
// selector. PutTarget adds the selector of the previous version.
func (t *Target) WithoutScale(notFound bool, err error) *Target {
	refused := *t
	refused.Selector = nil
	refused.undescribed = fmt.Sprintf("%s: %v", t.Ref, err)
	if notFound {
		refused.undescribed = withoutScale(t.Ref)
	}
	return &refused
}

// refusedAfter returns the target t to store, given its previous version old. If t is the result of WithoutScale and old has a selector,
// refusedAfter returns a copy of t with old's selector and replicas. gpuscaler computes no target for the copy, but its pods still belong
// to the workload. Otherwise they would count as pods without a policy in addition to the workload, and gpuscaler would remove the
// annotations that it set on them for a move to another NodePool.
func (t *Target) refusedAfter(old *Target) *Target {
	if t.Selector != nil || t.undescribed == "" || old == nil || old.Selector == nil || old.UID != t.UID {
		return t
	}
	kept := *t
	kept.Selector, kept.Replicas, kept.StatusReplicas, kept.ReadScale = old.Selector, old.Replicas, old.StatusReplicas, old.ReadScale
	return &kept
}

func unstructuredTarget(u *unstructured.Unstructured) *Target {
	gvk := u.GroupVersionKind()
	m := informer.Identity(u)
	t := &Target{
		ObjectMeta: m,
		Ref:        Ref{m.Namespace, gvk.Group, gvk.Kind, m.Name},
		APIVersion: u.GetAPIVersion(),
		Replicas:   1, Size: 1,
		operator: manual.ReadOperator(u.GetAnnotations(), u.GetManagedFields()),
	}
	if n, found, err := unstructured.NestedInt64(u.Object, "spec", "replicas"); found && err == nil {
		t.Replicas = int32(min(max(n, 0), maxReplicas))
	}
	return t
}

// maxReplicas is the largest number of replicas that is read from an object. It prevents an overflow of sums of replicas, which are int32.
const maxReplicas = 1 << 24

// templatePod returns the pod template at a path of an object. If the template is missing, cannot be decoded or has no container, ok is
// false and the pod is empty.
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
