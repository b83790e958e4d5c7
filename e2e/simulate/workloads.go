package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gpuscaler/gpuscaler/e2e/simulate/apiserver"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/gpupods"
	"github.com/gpuscaler/gpuscaler/pkg/externalmetrics"
	"github.com/gpuscaler/gpuscaler/pkg/replay/hpa"
)

const (
	namespace   = "team"
	gpuResource = "nvidia.com/gpu"
	poolLabel   = "simulate/group"
)

// workload is a Deployment with its autoscaler and its load.
type workload struct {
	name, group string
	keda        bool // KEDA scales the workload, also from zero; false: an HPA scales it
	redis       bool // its queue is in Redis; false: Prometheus has the length of the queue
	min         int32
	load        float64 // length of the queue
	serial      int

	push     *push // nil if KEDA does not scale the workload
	hpa      hpa.Controller
	loop     hpa.ScaleLoop
	bounds   hpa.Spec
	replicas int32 // spec.replicas
}

// needs returns the number of replicas that the queue of a workload requires.
func (w *workload) needs(o *workloadSettings) int32 {
	return int32(math.Ceil(w.load / float64(o.queueTarget)))
}

// utilization returns the mean utilization of the ready pods of a workload in percent. This value requires fewer replicas than the queue,
// so that the queue determines the target. ok is false if no pod is ready.
func (s *simulation) utilization(w *workload, o *workloadSettings) (percent float64, ok bool) {
	ready := 0
	for _, p := range s.podsOf(w) {
		if podReady(p) {
			ready++
		}
	}
	if ready == 0 {
		return 0, false
	}
	return min(100, 0.6*utilizationTarget*w.load/float64(o.queueTarget)/float64(ready)), true
}

func (s *simulation) addWorkload(w *workload) {
	w.bounds = hpa.Spec{Min: max(w.min, 1), Max: 20, Behavior: hpa.Follower()}
	w.loop = hpa.ScaleLoop{Cooldown: 30 * time.Second}
	w.loop.Seen(s.now)
	s.workloads = append(s.workloads, w)
	s.createDeployment(w)
	target := autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: apiserver.KindDeployment, Name: w.name}
	follow := func(p autoscalingv2.HPAScalingPolicy) *autoscalingv2.HPAScalingRules {
		return &autoscalingv2.HPAScalingRules{Tolerance: new(resource.MustParse("0")), StabilizationWindowSeconds: new(int32(0)),
			Policies: []autoscalingv2.HPAScalingPolicy{p}}
	}
	external := autoscalingv2.ExternalMetricSource{
		Metric: autoscalingv2.MetricIdentifier{Name: externalmetrics.MetricName, Selector: &metav1.LabelSelector{
			MatchLabels: map[string]string{externalmetrics.PolicyLabel: w.name}}},
		Target: autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: new(resource.MustParse("1"))},
	}
	h := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: w.name},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: target, MinReplicas: new(w.bounds.Min), MaxReplicas: w.bounds.Max,
			Metrics: []autoscalingv2.MetricSpec{{Type: autoscalingv2.ExternalMetricSourceType, External: &external}},
			Behavior: &autoscalingv2.HorizontalPodAutoscalerBehavior{
				ScaleUp:   follow(autoscalingv2.HPAScalingPolicy{Type: autoscalingv2.PodsScalingPolicy, Value: 1000, PeriodSeconds: 15}),
				ScaleDown: follow(autoscalingv2.HPAScalingPolicy{Type: autoscalingv2.PercentScalingPolicy, Value: 100, PeriodSeconds: 15}),
			}}}
	if w.keda {
		s.createScaledObject(w)
		h.Name = "keda-hpa-" + w.name
		h.OwnerReferences = []metav1.OwnerReference{{APIVersion: "keda.sh/v1alpha1", Kind: apiserver.KindScaledObject, Name: w.name}}
		external.Metric = autoscalingv2.MetricIdentifier{Name: "s0-" + externalmetrics.MetricName, Selector: &metav1.LabelSelector{
			MatchLabels: map[string]string{"scaledobject.keda.sh/name": w.name}}}
	}
	s.api.Put(apiserver.KindHPA, h)
}

func (s *simulation) createScaledObject(w *workload) {
	s.api.Put(apiserver.KindScaledObject, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "keda.sh/v1alpha1", "kind": apiserver.KindScaledObject,
		"metadata": map[string]any{"name": w.name, "namespace": namespace},
		"spec": map[string]any{
			"scaleTargetRef": map[string]any{"name": w.name}, "minReplicaCount": int64(w.min), "maxReplicaCount": int64(w.bounds.Max),
			"triggers": []any{map[string]any{"type": "external", "metadata": map[string]any{
				"scalerAddress": "gpuscaler-scaler.gpuscaler-system.svc:9090", externalmetrics.PolicyMetadata: w.name,
			}}},
		},
	}})
}

func (s *simulation) createDeployment(w *workload) {
	w.replicas = max(w.min, 1)
	s.api.Put(apiserver.KindDeployment, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: w.name},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(w.replicas), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": w.name}},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": w.name}}, Spec: w.podSpec()},
		},
	})
}

func (w *workload) podSpec() corev1.PodSpec {
	return corev1.PodSpec{
		NodeSelector: map[string]string{poolLabel: w.group},
		Tolerations:  []corev1.Toleration{{Key: gpuResource, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}},
		Containers: []corev1.Container{{Name: "server", Resources: corev1.ResourceRequirements{
			Limits:   corev1.ResourceList{gpuResource: resource.MustParse("1")},
			Requests: corev1.ResourceList{gpuResource: resource.MustParse("1")},
		}}},
	}
}

// scale writes spec.replicas of a Deployment.
func (s *simulation) scale(w *workload, n int32, who string) {
	live, ok := s.api.Get(apiserver.KindDeployment, namespace+"/"+w.name).(*appsv1.Deployment)
	if !ok || *live.Spec.Replicas == n {
		return
	}
	s.trace("%s scales %s from %d to %d", who, w.name, *live.Spec.Replicas, n)
	next := live.DeepCopy()
	next.Spec.Replicas = new(n)
	w.replicas = n
	s.api.Put(apiserver.KindDeployment, next)
}

// podsOf returns the pods of a workload, oldest first.
func (s *simulation) podsOf(w *workload) (all []*corev1.Pod) {
	for _, p := range s.pods() {
		if p.Labels["app"] == w.name {
			all = append(all, p)
		}
	}
	return all
}

// pods returns all pods, oldest first. The slice is valid until the next change of a pod, and the caller must not change it.
func (s *simulation) pods() []*corev1.Pod { return s.api.Pods() }

// runDeployments creates and deletes pods to match spec.replicas.
func (s *simulation) runDeployments() {
	for _, w := range s.workloads {
		pods := s.podsOf(w)
		desired := 0
		if d, ok := s.api.Get(apiserver.KindDeployment, namespace+"/"+w.name).(*appsv1.Deployment); ok {
			desired = int(*d.Spec.Replicas)
		}
		for range desired - len(pods) {
			w.serial++
			s.api.Put(apiserver.KindPod, &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{
					Namespace: namespace, Name: fmt.Sprintf("%s-%04d", w.name, w.serial), Labels: map[string]string{"app": w.name},
					OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: w.name, Controller: new(true)}},
				},
				Spec: w.podSpec(),
			})
		}
		if len(pods) > desired {
			// The ReplicaSet controller deletes pods in this order: pods without a node, then pods that are not ready, then pods with a
			// lower deletion cost.
			slices.SortStableFunc(pods, func(a, b *corev1.Pod) int {
				return cmp.Or(rank(a)-rank(b), cmp.Compare(deletionCost(a), deletionCost(b)))
			})
			for _, p := range pods[:len(pods)-desired] {
				s.api.Remove(apiserver.KindPod, namespace+"/"+p.Name)
			}
		}
	}
}

func rank(p *corev1.Pod) int {
	switch {
	case p.Spec.NodeName == "":
		return 0
	case !podReady(p):
		return 1
	}
	return 2
}

func deletionCost(p *corev1.Pod) int {
	cost, _ := strconv.Atoi(p.Annotations[gpupods.DeletionCostAnnotation]) // 0 if the pod has no such annotation
	return cost
}

func podReady(p *corev1.Pod) bool {
	return len(p.Status.Conditions) > 0 && p.Status.Conditions[0].Status == corev1.ConditionTrue
}

// syncAutoscalers runs the HPA controller and KEDA's scale loop.
func (s *simulation) syncAutoscalers() {
	elapsed := int(s.now.Sub(s.began) / time.Second)
	for i, w := range s.workloads {
		if (elapsed+5*i)%int(hpa.SyncPeriod/time.Second) == 0 {
			s.syncHPA(w)
		}
		if w.keda && (elapsed+7*i)%kedaPolling == 0 {
			s.pollKEDA(w)
		}
	}
}

// kedaPolling is the pollingInterval of the ScaledObjects, in seconds.
const kedaPolling = 15

func (s *simulation) syncHPA(w *workload) {
	proposal := hpa.Proposal{}
	for _, r := range s.replicas {
		if n, err := r.served(w); err == nil {
			s.trace("%s serves %d for %s", r.name, n, w.name)
			s.check.served(r, w, n)
			proposal = hpa.Proposal{Replicas: n, Known: true}
			break
		}
	}
	if _, exists := s.api.Get(apiserver.KindDeployment, namespace+"/"+w.name).(*appsv1.Deployment); !exists {
		return
	}
	n, _ := w.hpa.Sync(&w.bounds, s.now, w.replicas, []hpa.Proposal{proposal})
	s.scale(w, n, "HPA")
}

func (s *simulation) pollKEDA(w *workload) {
	active, known := false, false
	for _, r := range s.replicas {
		if r.up && !s.now.Before(r.paused) && r.lease.leading() {
			active, known = r.active(w)
			break
		}
	}
	if _, exists := s.api.Get(apiserver.KindDeployment, namespace+"/"+w.name).(*appsv1.Deployment); !exists {
		return
	}
	if n := w.loop.Poll(s.now, w.replicas, active, known); n != w.replicas && (n > 0 || w.min == 0) {
		s.scale(w, n, "KEDA")
	}
}
