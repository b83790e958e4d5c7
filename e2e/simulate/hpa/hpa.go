// Package hpa is a model of the controllers that scale a Deployment: the HPA controller of kube-controller-manager (Kubernetes 1.36,
// pkg/controller/podautoscaler) and the scale loop of KEDA's operator (KEDA v2.21, pkg/scaling/executor). The computation is in
// pkg/replay/hpa, which e2e/hpacheck compares with Kubernetes' own code. e2e/keda compares the scale loop with the real operator.
package hpa

import (
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gpuscaler/gpuscaler/e2e/simulate/apiserver"
	"github.com/gpuscaler/gpuscaler/pkg/externalmetrics"
	"github.com/gpuscaler/gpuscaler/pkg/replay/hpa"
)

// SyncPeriod is the time between two calls of Sync, and PollPeriod the pollingInterval of the ScaledObjects: the time between two calls of
// Poll.
const (
	SyncPeriod = hpa.SyncPeriod
	PollPeriod = 15 * time.Second
)

const (
	maxReplicas = 20
	cooldown    = 30 * time.Second
)

// Autoscaler scales one Deployment. The caller reads gpuscaler's target, and writes the replicas that the methods return.
type Autoscaler struct {
	min        int32
	controller hpa.Controller
	loop       hpa.ScaleLoop
	bounds     hpa.Spec
}

// Target is the Deployment that an Autoscaler scales.
type Target struct {
	Namespace, Name string
	Min             int32
	KEDA            bool // KEDA creates the HPA, and scales the Deployment from zero and to zero if Min is 0
}

// New returns the autoscaler of a Deployment.
func New(t *Target, now time.Time) *Autoscaler {
	a := &Autoscaler{min: t.Min, bounds: hpa.Spec{Min: max(t.Min, 1), Max: maxReplicas, Behavior: hpa.Follower()}}
	a.loop = hpa.ScaleLoop{Cooldown: cooldown}
	a.loop.Seen(now)
	return a
}

// CreateObjects creates the HPA of a Deployment, and its ScaledObject if KEDA scales it.
func (t *Target) CreateObjects(api *apiserver.Server) {
	follow := func(p autoscalingv2.HPAScalingPolicy) *autoscalingv2.HPAScalingRules {
		return &autoscalingv2.HPAScalingRules{Tolerance: new(resource.MustParse("0")), StabilizationWindowSeconds: new(int32(0)),
			Policies: []autoscalingv2.HPAScalingPolicy{p}}
	}
	external := autoscalingv2.ExternalMetricSource{
		Metric: autoscalingv2.MetricIdentifier{Name: externalmetrics.MetricName, Selector: &metav1.LabelSelector{
			MatchLabels: map[string]string{externalmetrics.PolicyLabel: t.Name}}},
		Target: autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: new(resource.MustParse("1"))},
	}
	h := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: t.Namespace, Name: t.Name},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: apiserver.KindDeployment, Name: t.Name},
			MinReplicas:    new(max(t.Min, 1)), MaxReplicas: maxReplicas,
			Metrics: []autoscalingv2.MetricSpec{{Type: autoscalingv2.ExternalMetricSourceType, External: &external}},
			Behavior: &autoscalingv2.HorizontalPodAutoscalerBehavior{
				ScaleUp:   follow(autoscalingv2.HPAScalingPolicy{Type: autoscalingv2.PodsScalingPolicy, Value: 1000, PeriodSeconds: 15}),
				ScaleDown: follow(autoscalingv2.HPAScalingPolicy{Type: autoscalingv2.PercentScalingPolicy, Value: 100, PeriodSeconds: 15}),
			}}}
	if t.KEDA {
		t.createScaledObject(api)
		h.Name = "keda-hpa-" + t.Name
		h.OwnerReferences = []metav1.OwnerReference{{APIVersion: "keda.sh/v1alpha1", Kind: apiserver.KindScaledObject, Name: t.Name}}
		external.Metric = autoscalingv2.MetricIdentifier{Name: "s0-" + externalmetrics.MetricName, Selector: &metav1.LabelSelector{
			MatchLabels: map[string]string{"scaledobject.keda.sh/name": t.Name}}}
	}
	api.Put(apiserver.KindHPA, h)
}

func (t *Target) createScaledObject(api *apiserver.Server) {
	api.Put(apiserver.KindScaledObject, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "keda.sh/v1alpha1", "kind": apiserver.KindScaledObject,
		"metadata": map[string]any{"name": t.Name, "namespace": t.Namespace},
		"spec": map[string]any{
			"scaleTargetRef": map[string]any{"name": t.Name}, "minReplicaCount": int64(t.Min), "maxReplicaCount": int64(maxReplicas),
			"triggers": []any{map[string]any{"type": "external", "metadata": map[string]any{
				"scalerAddress": "gpuscaler-scaler.gpuscaler-system.svc:9090", externalmetrics.PolicyMetadata: t.Name,
			}}},
		},
	}})
}

// Sync returns spec.replicas of the Deployment after a sync of the HPA controller. The parameter target is the target that gpuscaler
// served; known is false if gpuscaler served none.
func (a *Autoscaler) Sync(now time.Time, replicas, target int32, known bool) int32 {
	n, _ := a.controller.Sync(&a.bounds, now, replicas, []hpa.Proposal{{Replicas: target, Known: known}})
	return n
}

// Poll returns spec.replicas of the Deployment after an iteration of KEDA's scale loop. The parameter active is the answer of gpuscaler's
// external scaler; known is false if the scaler did not answer. KEDA does not scale to zero if Min is greater than 0.
func (a *Autoscaler) Poll(now time.Time, replicas int32, active, known bool) int32 {
	if n := a.loop.Poll(now, replicas, active, known); n > 0 || a.min == 0 {
		return n
	}
	return replicas
}
