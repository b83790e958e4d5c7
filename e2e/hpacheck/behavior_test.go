package hpacheck

import (
	"math/rand/v2"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	defaults "k8s.io/kubernetes/pkg/apis/autoscaling/v2"

	"github.com/gpuscaler/gpuscaler/pkg/replay/hpa"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// side is one direction of an HPA's behavior, scaleUp or scaleDown, in the replay's type (ours) and in the Kubernetes type (theirs). In the
// Kubernetes type, a nil field means the default.
type side struct {
	ours   scaling.Direction
	theirs autoscalingv2.HPAScalingRules
}

// draw sets some fields of the direction to random values.
func (d *side) draw(r *rand.Rand) {
	if r.IntN(2) == 0 {
		d.window(r.Int32N(20) * r.Int32N(20))
	}
	if r.IntN(2) == 0 {
		d.tolerance(int64(r.IntN(5) * 50))
	}
	if r.IntN(2) == 0 {
		d.choose([]autoscalingv2.ScalingPolicySelect{autoscalingv2.MaxChangePolicySelect, autoscalingv2.MinChangePolicySelect,
			autoscalingv2.DisabledPolicySelect}[r.IntN(3)*r.IntN(2)])
	}
	if r.IntN(2) == 0 {
		d.rates(r)
	}
}

func (d *side) window(seconds int32) {
	d.ours.StabilizationWindow, d.theirs.StabilizationWindowSeconds = time.Duration(seconds)*time.Second, &seconds
}

func (d *side) tolerance(milli int64) {
	q := resource.NewMilliQuantity(milli, resource.DecimalSI)
	d.ours.Tolerance, d.theirs.Tolerance = q.AsApproximateFloat64(), q
}

func (d *side) choose(p autoscalingv2.ScalingPolicySelect) {
	d.theirs.SelectPolicy = &p
	d.ours.Select = map[autoscalingv2.ScalingPolicySelect]scaling.SelectPolicy{autoscalingv2.MaxChangePolicySelect: scaling.SelectMax,
		autoscalingv2.MinChangePolicySelect: scaling.SelectMin, autoscalingv2.DisabledPolicySelect: scaling.Disabled}[p]
}

func (d *side) rates(r *rand.Rand) {
	for range 1 + r.IntN(3) {
		if period := 15 * (1 + r.Int32N(20)); r.IntN(2) == 0 {
			d.rate(autoscalingv2.PodsScalingPolicy, 1+r.Int32N(5), period)
		} else {
			d.rate(autoscalingv2.PercentScalingPolicy, 5+r.Int32N(120), period)
		}
	}
}

// rate adds a scaling policy, which limits the rate of changes, to the direction. The first call replaces the default policies.
func (d *side) rate(kind autoscalingv2.HPAScalingPolicyType, value, seconds int32) {
	if d.theirs.Policies == nil {
		d.ours.Rates = nil
	}
	ours := scaling.RatePolicy{Type: scaling.Pods, Value: value, Period: time.Duration(seconds) * time.Second}
	if kind == autoscalingv2.PercentScalingPolicy {
		ours.Type = scaling.PercentRate
	}
	d.ours.Rates = append(d.ours.Rates, ours)
	d.theirs.Policies = append(d.theirs.Policies, autoscalingv2.HPAScalingPolicy{Type: kind, Value: value, PeriodSeconds: seconds})
}

// drawSpec returns a random HPA in the replay's type and in the Kubernetes type. In the Kubernetes object, fields without a random value
// have the defaults that the API server would set.
func drawSpec(r *rand.Rand) (hpa.Spec, *autoscalingv2.HorizontalPodAutoscaler) {
	ours, theirs := without(1+r.Int32N(3), 5+r.Int32N(40))
	if r.IntN(6) == 0 {
		return ours, theirs
	}
	up, down := bySides()
	if r.IntN(4) > 0 { // in the other cases, the behavior stays empty
		up.draw(r)
		down.draw(r)
	}
	return behaving(ours, theirs, up, down)
}

// steady returns an HPA whose sequence of replicas changes if any field of its behavior changes.
func steady() (hpa.Spec, *autoscalingv2.HorizontalPodAutoscaler) {
	ours, theirs := without(1, 40)
	up, down := bySides()
	up.window(20)
	up.tolerance(100)
	up.rate(autoscalingv2.PodsScalingPolicy, 3, 60)
	down.window(90)
	down.tolerance(100)
	down.rate(autoscalingv2.PodsScalingPolicy, 2, 60)
	down.rate(autoscalingv2.PercentScalingPolicy, 10, 90)
	return behaving(ours, theirs, up, down)
}

// without returns an HPA with the bounds least and most and without the field behavior.
func without(least, most int32) (hpa.Spec, *autoscalingv2.HorizontalPodAutoscaler) {
	return hpa.Spec{Min: least, Max: most}, &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Name: "chat",
		Namespace: "team"},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{MinReplicas: &least, MaxReplicas: most,
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "chat"}}}
}

func bySides() (up, down side) {
	b := hpa.DefaultBehavior()
	return side{ours: b.Up}, side{ours: b.Down}
}

func behaving(ours hpa.Spec, theirs *autoscalingv2.HorizontalPodAutoscaler, up, down side) (hpa.Spec,
	*autoscalingv2.HorizontalPodAutoscaler) {
	ours.Behavior = &hpa.Behavior{Up: up.ours, Down: down.ours}
	theirs.Spec.Behavior = &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: &up.theirs, ScaleDown: &down.theirs}
	defaults.SetDefaults_HorizontalPodAutoscalerBehavior(theirs)
	return ours, theirs
}
