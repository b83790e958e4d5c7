package main

import (
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/gpuscaler/gpuscaler/e2e/simulate/apiserver"
	"github.com/gpuscaler/gpuscaler/e2e/simulate/hpa"
	"github.com/gpuscaler/gpuscaler/e2e/simulate/karpenter"
)

const (
	namespace   = "team"
	gpuResource = karpenter.Resource
)

// workload is a Deployment with its autoscaler and its load.
type workload struct {
	name, group string
	keda        bool // KEDA scales the workload, including from zero; false: an HPA scales it
	redis       bool // the queue is in Redis; false: the length of the queue is in Prometheus
	min         int32
	load        float64 // length of the queue

	push       *push // nil if KEDA does not scale the workload
	autoscaler *hpa.Autoscaler
}

// needs returns the number of replicas that the queue of a workload requires.
func (w *workload) needs(o *workloadSettings) int32 {
	return int32(math.Ceil(w.load / float64(o.queueTarget)))
}

// utilization returns the mean utilization, in percent, of the ready pods of a workload. This value requires fewer replicas than the
// queue, so that the queue determines the target. ok is false if no pod is ready.
func (s *simulation) utilization(w *workload, o *workloadSettings) (percent float64, ok bool) {
	ready := 0
	for _, p := range s.deployments.PodsOf(w.name) {
		if apiserver.Ready(p) {
			ready++
		}
	}
	if ready == 0 {
		return 0, false
	}
	return min(100, 0.6*utilizationTarget*w.load/float64(o.queueTarget)/float64(ready)), true
}

func (s *simulation) addWorkload(w *workload) {
	target := &hpa.Target{Namespace: namespace, Name: w.name, Min: w.min, KEDA: w.keda}
	w.autoscaler = hpa.New(target, s.now)
	s.workloads = append(s.workloads, w)
	s.deployments.Create(w.name, max(w.min, 1), w.podSpec())
	target.CreateObjects(s.api)
}

func (w *workload) podSpec() *corev1.PodSpec {
	return &corev1.PodSpec{
		NodeSelector: map[string]string{karpenter.GroupLabel: w.group},
		Tolerations:  []corev1.Toleration{{Key: gpuResource, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}},
		Containers: []corev1.Container{{Name: "server", Resources: corev1.ResourceRequirements{
			Limits:   corev1.ResourceList{gpuResource: resource.MustParse("1")},
			Requests: corev1.ResourceList{gpuResource: resource.MustParse("1")},
		}}},
	}
}

// scale writes spec.replicas of a Deployment.
func (s *simulation) scale(w *workload, n int32, who string) {
	if from, exists := s.deployments.Replicas(w.name); exists && from != n {
		s.trace("%s scales %s from %d to %d", who, w.name, from, n)
		s.deployments.Scale(w.name, n)
	}
}

// syncAutoscalers runs the HPA controller and KEDA's scale loop.
func (s *simulation) syncAutoscalers() {
	elapsed := int(s.now.Sub(s.began) / time.Second)
	for i, w := range s.workloads {
		if (elapsed+5*i)%int(hpa.SyncPeriod/time.Second) == 0 {
			s.syncHPA(w)
		}
		if w.keda && (elapsed+7*i)%int(hpa.PollPeriod/time.Second) == 0 {
			s.pollKEDA(w)
		}
	}
}

func (s *simulation) syncHPA(w *workload) {
	target, known := int32(0), false
	for _, r := range s.replicas {
		if n, err := r.served(w); err == nil {
			s.trace("%s serves %d for %s", r.name, n, w.name)
			s.check.served(r, w, n)
			target, known = n, true
			break
		}
	}
	if replicas, exists := s.deployments.Replicas(w.name); exists {
		s.scale(w, w.autoscaler.Sync(s.now, replicas, target, known), "HPA")
	}
}

func (s *simulation) pollKEDA(w *workload) {
	active, known := false, false
	for _, r := range s.replicas {
		if r.up && !s.now.Before(r.paused) && r.lease.leading() {
			active, known = r.active(w)
			break
		}
	}
	if replicas, exists := s.deployments.Replicas(w.name); exists {
		s.scale(w, w.autoscaler.Poll(s.now, replicas, active, known), "KEDA")
	}
}

// Now implements karpenter.Surroundings.
func (s *simulation) Now() time.Time { return s.now }

// Refuses implements karpenter.Surroundings.
func (s *simulation) Refuses(nodePool string) bool {
	return s.now.Before(s.faults.refused[s.poolNamed(nodePool)])
}

// Note implements karpenter.Surroundings.
func (s *simulation) Note(format string, args ...any) { s.trace(format, args...) }
