package smoke

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/metrics/pkg/apis/external_metrics/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscaler/gpuscaler/e2e/stack"
	"github.com/gpuscaler/gpuscaler/e2e/workload"
)

func TestPodsUseFreeGPUsAndLoadForTheirStartupTime(t *testing.T) {
	ns := namespace(t, "gpus")
	big := workload.Deployment(ns, "big", 2)
	big.Spec.Template.Spec.Containers[0].Resources.Limits[stack.GPU] = resource.MustParse("9")
	slow := workload.Deployment(ns, "slow", 1)
	slow.Spec.Template.Annotations = map[string]string{stack.StartupAnnotation: "6s"}
	create(t, big, slow, workload.Deployment(ns, "small", 2))

	stack.Eventually(t, time.Minute, "two pods of one GPU are ready", replicas(ns, "small", 2, 2))
	stack.Eventually(t, time.Minute, "the slow pod is ready", replicas(ns, "slow", 1, 1))
	var pods corev1.PodList
	if err := shared.Client.List(t.Context(), &pods, client.InNamespace(ns),
		client.MatchingLabels{"app": "slow"}); err != nil || len(pods.Items) != 1 {
		t.Fatal(len(pods.Items), err)
	}
	since := map[corev1.PodConditionType]time.Time{}
	for _, c := range pods.Items[0].Status.Conditions {
		since[c.Type] = c.LastTransitionTime.Time
	}
	// The test compares the timestamps in the pod's status, because a delay of the test would falsify a measurement. The timestamps are
	// truncated to seconds, so the difference for six seconds can be five.
	if loaded := since[corev1.PodReady].Sub(since[corev1.PodScheduled]); loaded < 5*time.Second {
		t.Errorf("the pod was ready %s after it was scheduled, want 6s", loaded)
	}
	if err := replicas(ns, "big", 2, 0)(t.Context()); err != nil {
		t.Error("pods of 9 GPUs on nodes of 8:", err)
	}
}

func TestServiceAccountNeedsARole(t *testing.T) {
	ns := namespace(t, "accounts")
	stack.Eventually(t, time.Minute, "a token", func(ctx context.Context) error {
		_, err := shared.ServiceAccountKubeconfig(ctx, ns, "default")
		return err
	})
	path, err := shared.ServiceAccountKubeconfig(t.Context(), ns, "default")
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(config, client.Options{Scheme: stack.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.List(t.Context(), &corev1.PodList{}, client.InNamespace(ns)); !apierrors.IsForbidden(err) {
		t.Errorf("listing pods without a role: %v, want forbidden", err)
	}
}

// metricServer is an aggregated API server with one external metric.
type metricServer struct{ value atomic.Int64 }

func (m *metricServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	const base = "/apis/external.metrics.k8s.io/v1beta1"
	w.Header().Set("Content-Type", "application/json")
	switch r.URL.Path {
	case base:
		_ = json.NewEncoder(w).Encode(metav1.APIResourceList{
			TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: "external.metrics.k8s.io/v1beta1",
		})
	case base + "/namespaces/hpa/desired":
		_ = json.NewEncoder(w).Encode(v1beta1.ExternalMetricValueList{
			TypeMeta: metav1.TypeMeta{Kind: "ExternalMetricValueList", APIVersion: "external.metrics.k8s.io/v1beta1"},
			Items: []v1beta1.ExternalMetricValue{{
				MetricName: "desired", Timestamp: metav1.Now(), Value: *resource.NewQuantity(m.value.Load(), resource.DecimalSI),
			}},
		})
	default:
		http.NotFound(w, r)
	}
}

func TestRealHPAFollowsAnAggregatedMetricByOneReplica(t *testing.T) {
	ns := namespace(t, "hpa")
	metric := &metricServer{}
	metric.value.Store(10)
	serveAggregated(t, ns, metric)
	create(t, workload.Deployment(ns, "chat", 10), exactHPA(ns, "chat"))

	for _, desired := range []int32{10, 11, 10} {
		metric.value.Store(int64(desired))
		stack.Eventually(t, time.Minute, fmt.Sprintf("%d replicas", desired), replicas(ns, "chat", desired, desired))
	}
}

func serveAggregated(t *testing.T, ns string, handler http.Handler) {
	t.Helper()
	port, err := shared.Port()
	if err != nil {
		t.Fatal(err)
	}
	cert, key, err := shared.CA.Issue(stack.Identity{User: "metrics", DNS: []string{"metrics." + ns + ".svc"}})
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(handler)
	server.Listener.Close()
	server.Listener = l
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	server.StartTLS()
	t.Cleanup(server.Close)
	err = shared.APIService(t.Context(), stack.AggregatedAPI{
		Group: "external.metrics.k8s.io", Version: "v1beta1",
		Namespace: ns, Service: "metrics", Port: port, CABundle: shared.CA.PEM,
	})
	if err != nil {
		t.Fatal(err)
	}
	stack.Eventually(t, time.Minute, "the aggregated API", func(ctx context.Context) error {
		return shared.APIServiceAvailable(ctx, "external.metrics.k8s.io", "v1beta1")
	})
}

// exactHPA returns an HPA that sets the replicas to the metric's value at once. It has no tolerance and no stabilization windows, and its
// rate limits are so high that they have no effect.
func exactHPA(ns, target string) *autoscalingv2.HorizontalPodAutoscaler {
	zero, one, none := int32(0), resource.MustParse("1"), resource.MustParse("0")
	rule := func(kind autoscalingv2.HPAScalingPolicyType, value int32) *autoscalingv2.HPAScalingRules {
		return &autoscalingv2.HPAScalingRules{
			StabilizationWindowSeconds: &zero, Tolerance: &none,
			Policies: []autoscalingv2.HPAScalingPolicy{{Type: kind, Value: value, PeriodSeconds: 15}},
		}
	}
	return &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: target},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "Deployment",
				Name: target},
			MaxReplicas: 20,
			Metrics: []autoscalingv2.MetricSpec{{
				Type: autoscalingv2.ExternalMetricSourceType,
				External: &autoscalingv2.ExternalMetricSource{
					Metric: autoscalingv2.MetricIdentifier{Name: "desired", Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}},
					Target: autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: &one},
				},
			}},
			Behavior: &autoscalingv2.HorizontalPodAutoscalerBehavior{
				ScaleUp: rule(autoscalingv2.PodsScalingPolicy, 1000), ScaleDown: rule(autoscalingv2.PercentScalingPolicy, 100),
			},
		},
	}
}
