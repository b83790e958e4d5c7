package findings

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/cache"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/events"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/fixture"
	"github.com/gpuscaler/gpuscaler/pkg/policy/annotations"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

var start = time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)

// policies is a source of policies that do not change.
type policies []scaling.Workload

func (p policies) Current() []scaling.Workload { return p }

type sentEvent struct {
	about        corev1.ObjectReference
	reason, note string
}

// sentEvents records Events instead of posting them.
type sentEvents struct{ all []sentEvent }

func (s *sentEvents) Send(about corev1.ObjectReference, _, reason, note string) {
	s.all = append(s.all, sentEvent{about, reason, note})
}

// take returns the Events that were sent since the last call.
func (s *sentEvents) take() []sentEvent {
	all := s.all
	s.all = nil
	return all
}

// newTestReporter returns a Reporter for a cache with the Deployment chat, and the Events that the Reporter sends.
func newTestReporter(o Options, work ...scaling.Workload) (*Reporter, *sentEvents) {
	sent := &sentEvents{}
	o.Cache, o.Policies, o.Events, o.Log = cache.New(0), cache.NewPolicies(policies(work)), sent, slog.New(slog.DiscardHandler)
	if len(work) == 0 {
		o.Policies = cache.NewPolicies(nil)
	}
	o.Leading = func() bool { return true }
	o.SharesGPUs = func(string) bool { return false }
	if o.RefusedActivations == nil {
		o.RefusedActivations = func() []cache.Problem { return nil }
	}
	o.Cache.PutTarget(fixture.Must[*cache.Target](cache.TrimDeployment(fixture.Deployment("chat", 3, "1"))))
	return New(o), sent
}

func TestFindingIsReportedAgainEachHourUntilItIsFixed(t *testing.T) {
	r, sent := newTestReporter(Options{}, *fixture.Workload("chat"))
	h := fixture.HPA("chat", "chat", "chat")
	h.Spec.Behavior.ScaleDown.StabilizationWindowSeconds = nil
	h.Annotations = map[string]string{annotations.Override: "min=3"}
	wrong := fixture.Must[*cache.HPA](cache.TrimHPA(h))
	r.options.Cache.PutHPA(nil, wrong)
	r.round(start)
	var reasons []string
	for _, e := range sent.take() {
		reasons = append(reasons, e.reason)
	}
	slices.Sort(reasons)
	if !slices.Equal(reasons, []string{events.AnnotationInvalid, events.HPAMisconfigured}) {
		t.Fatalf("Events %v", reasons)
	}
	r.round(start.Add(time.Minute))
	if again := sent.take(); len(again) != 0 {
		t.Errorf("reported again after a minute: %v", again)
	}
	r.round(start.Add(time.Hour))
	if again := sent.take(); len(again) != 2 {
		t.Errorf("the API server deletes Events after an hour, and reported again is %v", again)
	}
	r.options.Cache.PutHPA(wrong, fixture.Must[*cache.HPA](cache.TrimHPA(fixture.HPA("chat", "chat", "chat"))))
	r.round(start.Add(2 * time.Hour))
	if again := sent.take(); len(again) != 0 || len(r.reported) != 0 {
		t.Errorf("fixed, and reported is %v", again)
	}
}

func TestNamespaceThatExceedsALimitAtADataSourceHasAnEvent(t *testing.T) {
	limits := []SourceLimit{{Namespace: "evil", Note: "too many series"}, {Namespace: "far", Outside: true, Note: "too many series"}}
	r, sent := newTestReporter(Options{SourceLimits: func() []SourceLimit { return limits }})
	r.round(start)
	found := map[string]string{}
	for _, e := range sent.take() {
		if e.reason != events.SourceLimit || e.about.Kind != "Namespace" || e.note != "too many series" {
			t.Errorf("event %+v", e)
		}
		found[e.about.Name] = e.about.Namespace
	}
	if len(found) != 2 || found["evil"] != "evil" || found["far"] != "" {
		t.Errorf("namespaces of the Events: %v", found)
	}
	r.round(start.Add(time.Minute))
	if again := sent.take(); len(again) != 0 {
		t.Errorf("reported again after a minute: %v", again)
	}
	limits = nil
	r.round(start.Add(2 * time.Minute))
	if len(r.reported) != 0 {
		t.Errorf("limits that are no longer exceeded are kept: %v", r.reported)
	}
}

func TestRefusedActivationIsReported(t *testing.T) {
	refused := cache.Problem{About: corev1.ObjectReference{Kind: "Deployment", Namespace: "team", Name: "chat"}, Text: "not in this namespace"}
	r, sent := newTestReporter(Options{RefusedActivations: func() []cache.Problem { return []cache.Problem{refused} }})
	r.round(start)
	if all := sent.take(); len(all) != 1 || all[0].reason != events.ActivationRefused || all[0].note != refused.Text {
		t.Errorf("Events %+v", all)
	}
}

// A policy has a signal of type dcgm, and the workload's pod runs on a shared GPU. The Reporter must send an Event about the workload that
// contains the name of the signal.
func TestSignalThatReadsSharedGPUsIsReported(t *testing.T) {
	w := *fixture.Workload("chat")
	w.Policy = &scaling.Policy{Signals: []scaling.Signal{{Name: "queue", Type: "vllm"}, {Name: "gpu", Type: "dcgm"}}}
	r, _ := newTestReporter(Options{}, w)
	p := fixture.Pod("chat", 0, "ready")
	p.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{
		Limits: corev1.ResourceList{"nvidia.com/gpu.shared": resource.MustParse("1")},
	}}}
	r.options.Cache.PutPod(fixture.Must[*cache.Pod](cache.TrimPod(p)))
	all := r.sharedGPUs()
	if len(all) != 1 || all[0].About.Name != "chat" || !strings.Contains(all[0].Text, "signal gpu of policy team/chat") {
		t.Fatalf("%+v", all)
	}
	w.Policy.Signals = w.Policy.Signals[:1]
	if all := r.sharedGPUs(); len(all) != 0 {
		t.Errorf("a policy without a signal of type dcgm: %+v", all)
	}
}

// hpaWithFallback returns the HPA chat, whose metric has the given fallback.replicas.
func hpaWithFallback(t *testing.T, replicas int64) *unstructured.Unstructured {
	t.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(fixture.HPA("chat", "chat", "chat"))
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{Object: content}
	u.SetAPIVersion("autoscaling/v2")
	u.SetKind(cache.HPAKind)
	metrics, _, _ := unstructured.NestedSlice(u.Object, "spec", "metrics")
	external := metrics[0].(map[string]any)["external"].(map[string]any)
	external["fallback"] = map[string]any{"failureDurationSeconds": int64(180), "replicas": replicas}
	if err := unstructured.SetNestedSlice(u.Object, metrics, "spec", "metrics"); err != nil {
		t.Fatal(err)
	}
	return u
}

func TestFallbackIsReportedOnceTheAPIServerHasTheField(t *testing.T) {
	r, sent := newTestReporter(Options{})
	r.options.Cache.PutHPA(nil, fixture.Must[*cache.HPA](cache.TrimHPA(fixture.HPA("chat", "chat", "chat"))))
	lists := map[schema.GroupVersionResource]string{hpas: "HorizontalPodAutoscalerList"}
	served, failing := false, false
	reader := &fallbackReader{
		objects: dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists, hpaWithFallback(t, 1)),
		served: func() (bool, error) {
			if failing {
				return false, errors.New("no answer")
			}
			return served, nil
		},
	}
	at := start
	round := func(after time.Duration) []sentEvent {
		at = at.Add(after)
		r.readFallbacks(context.Background(), reader, at)
		r.round(at)
		return sent.take()
	}
	if got := round(0); len(got) > 0 {
		t.Errorf("the API server does not have the field, and reported is %v", got)
	}
	served = true
	if got := round(time.Minute); len(got) > 0 {
		t.Errorf("the schema is read once an hour, and reported is %v", got)
	}
	if got := round(time.Hour); len(got) != 1 || got[0].reason != events.HPAMisconfigured ||
		!strings.Contains(got[0].note, "fallback.replicas 1") {
		t.Errorf("reported is %v", got)
	}
	failing = true
	if round(time.Hour); len(r.reported) != 1 {
		t.Errorf("a failed request removes the finding: %v", r.reported)
	}
}

func TestSchemaShowsWhetherTheFieldIsServed(t *testing.T) {
	for text, want := range map[string]bool{
		`{"components":{"schemas":{"v2.ExternalMetricSource":{"properties":{"metric":{},"target":{}}}}}}`:               false,
		`{"components":{"schemas":{"v2.ExternalMetricSource":{"properties":{"metric":{},"target":{},"fallback":{}}}}}}`: true,
		`{}`: false,
	} {
		if got, err := schemaHasFallback([]byte(text)); got != want || err != nil {
			t.Errorf("%s: %t, %v", text, got, err)
		}
	}
}
