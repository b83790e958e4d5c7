package hpacheck

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	scaleclient "k8s.io/client-go/scale"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/controller/podautoscaler/metrics"

	"github.com/gpuscaler/gpuscaler/pkg/replay/hpa"
)

// metric is one metric of an HPA. Its target is in thousandths.
type metric struct {
	kind   kind
	target int64
}

type kind uint8

const (
	externalAverage kind = iota
	externalValue
	podsAverage
	kinds
)

func (m metric) spec(i int) autoscalingv2.MetricSpec {
	identifier, q := autoscalingv2.MetricIdentifier{Name: fmt.Sprint("m", i)}, resource.NewMilliQuantity(m.target, resource.DecimalSI)
	average := autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: q}
	switch m.kind {
	case externalValue:
		return autoscalingv2.MetricSpec{Type: autoscalingv2.ExternalMetricSourceType, External: &autoscalingv2.ExternalMetricSource{
			Metric: identifier, Target: autoscalingv2.MetricTarget{Type: autoscalingv2.ValueMetricType, Value: q}}}
	case podsAverage:
		return autoscalingv2.MetricSpec{Type: autoscalingv2.PodsMetricSourceType,
			Pods: &autoscalingv2.PodsMetricSource{Metric: identifier, Target: average}}
	}
	return autoscalingv2.MetricSpec{Type: autoscalingv2.ExternalMetricSourceType,
		External: &autoscalingv2.ExternalMetricSource{Metric: identifier, Target: average}}
}

// look contains the input and the result of one sync of the controller.
type look struct {
	at     time.Time
	edit   int32 // spec.replicas that a user wrote before the sync; -1: no user wrote it
	status int32
	pods   hpa.Pods // the pods at the sync; the fields Current and Sum are not set
	usage  []int64  // values by metric; for a Pods metric, the value per pod
	failed []bool
	wrote  int32 // spec.replicas after the sync
}

// proposals returns the replicas that the replay's HPA computes for each metric from the inputs of a sync.
func (l *look) proposals(all []metric, current int32, t hpa.Tolerances) []hpa.Proposal {
	out := make([]hpa.Proposal, len(all))
	for i, m := range all {
		if l.failed[i] {
			continue
		}
		switch m.kind {
		case externalAverage:
			out[i] = hpa.Proposal{Replicas: hpa.AverageValue(l.usage[i], m.target, l.status, t), Known: true}
		case externalValue:
			out[i] = hpa.Proposal{Replicas: hpa.Value(l.usage[i], m.target, current, l.pods.Counted+l.pods.Missing, t), Known: true}
		case podsAverage:
			pods := l.pods
			pods.Current, pods.Sum = current, l.usage[i]*int64(pods.Counted)
			out[i].Replicas, out[i].Known = pods.Average(m.target, t)
		}
	}
	return out
}

// stage simulates the cluster that a HorizontalController reads: a scale target, its pods and their metrics. Whenever the controller reads
// the scale, which is at the beginning of a sync, stage makes random changes: a user changes the replicas, pods are created or deleted,
// metrics change or fail.
type stage struct {
	said
	*rand.Rand
	max     int32
	metrics []metric
	late    time.Duration // maximum latency of the API server in a sync
	pods    cache.Indexer
	spec    int32
	load    float64 // the load, expressed as the number of replicas that it needs
	looks   []look
}

func (s *stage) Scales(string) scaleclient.ScaleInterface { return s }

func (s *stage) Get(context.Context, schema.GroupResource, string, metav1.GetOptions) (*autoscalingv1.Scale, error) {
	time.Sleep(time.Duration(s.Int64N(int64(s.late) + 1)))
	l := look{at: time.Now(), edit: -1}
	switch {
	case s.spec == 0 && s.IntN(4) > 0:
		l.edit = 1 + s.Int32N(s.max)
	case s.IntN(60) == 0:
		l.edit = []int32{0, 1, s.max + 1, s.Int32N(s.max)}[s.IntN(4)]
	}
	if l.edit >= 0 {
		s.spec = l.edit
	}
	if s.IntN(15) == 0 {
		s.load = 1.2 * float64(s.max) * s.Float64()
	}
	l.status, l.wrote = s.spec, s.spec
	if s.IntN(4) == 0 { // some pods are not ready, as during a rollout or the start of replicas
		l.status = max(0, s.spec+s.Int32N(7)-3)
	}
	l.pods = hpa.Pods{Unready: s.Int32N(3), Missing: s.Int32N(3)}
	l.pods.Counted = max(1, s.spec-l.pods.Unready-l.pods.Missing)
	s.populate(l.pods)
	for _, m := range s.metrics {
		l.usage, l.failed = append(l.usage, s.move(m)), append(l.failed, s.IntN(25) == 0)
	}
	s.looks = append(s.looks, l)
	return &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: s.spec},
		Status: autoscalingv1.ScaleStatus{Replicas: l.status, Selector: "app=chat"}}, nil
}

// move returns the next value of a metric: the load, which stays constant for several syncs, with random noise of up to 15%. The noise is
// about as large as the tolerances.
func (s *stage) move(m metric) int64 {
	value := float64(m.target) * s.load * (0.85 + 0.3*s.Float64())
	if m.kind != externalAverage {
		value /= float64(max(1, s.spec))
	}
	return int64(value)
}

func (s *stage) populate(p hpa.Pods) {
	var all []any
	s.said.pods = metrics.PodMetricsInfo{}
	add := func(n int32, phase v1.PodPhase, counted bool) {
		for range n {
			name := fmt.Sprint("pod-", len(all))
			all = append(all, &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "team", Labels: map[string]string{"app": "chat"}},
				Status: v1.PodStatus{Phase: phase, Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}}}})
			if counted {
				s.said.pods[name] = metrics.PodMetric{}
			}
		}
	}
	add(p.Counted, v1.PodRunning, true)
	add(p.Missing, v1.PodRunning, false)
	add(p.Unready, v1.PodPending, false)
	if err := s.pods.Replace(all, ""); err != nil {
		panic(err)
	}
}

func (s *stage) Update(_ context.Context, _ schema.GroupResource, scale *autoscalingv1.Scale,
	_ metav1.UpdateOptions) (*autoscalingv1.Scale, error) {
	s.spec = scale.Spec.Replicas
	s.looks[len(s.looks)-1].wrote = s.spec
	return scale, nil
}

func (s *stage) Patch(context.Context, schema.GroupVersionResource, string, types.PatchType, []byte,
	metav1.PatchOptions) (*autoscalingv1.Scale, error) {
	panic("the controller patches nothing")
}

func (s *stage) read(name string) (int64, error) {
	var i int
	if _, err := fmt.Sscanf(name, "m%d", &i); err != nil {
		return 0, err
	}
	l := &s.looks[len(s.looks)-1]
	if l.failed[i] {
		return 0, errors.New("the adapter is down")
	}
	return l.usage[i], nil
}

func (s *stage) GetExternalMetric(name, _ string, _ labels.Selector) ([]int64, time.Time, error) {
	usage, err := s.read(name)
	return []int64{usage}, time.Now(), err
}

func (s *stage) GetRawMetric(name, _ string, _, _ labels.Selector) (metrics.PodMetricsInfo, time.Time, error) {
	usage, err := s.read(name)
	out := metrics.PodMetricsInfo{}
	for pod := range s.said.pods {
		out[pod] = metrics.PodMetric{Value: usage}
	}
	return out, time.Now(), err
}
