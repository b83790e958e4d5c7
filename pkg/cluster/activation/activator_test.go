package activation

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/cache"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/fixture"
	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/policy/annotations"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

var night = time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)

var workloadResource = schema.GroupResource{Group: "apps", Resource: "deployments"}

// fakeScale simulates /scale of a Deployment in the API server. writes contains the replicas of each write.
type fakeScale struct {
	replicas int64
	writes   []int64
	fails    error
}

func (s *fakeScale) serve(o Options) {
	objects := o.Dynamic.(*dynamicfake.FakeDynamicClient)
	objects.PrependReactor("get", "deployments", func(a clienttesting.Action) (bool, runtime.Object, error) {
		return true, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "autoscaling/v1", "kind": "Scale",
			"metadata": map[string]any{"name": "chat", "namespace": "team", "resourceVersion": "7"},
			"spec":     map[string]any{"replicas": s.replicas},
		}}, nil
	})
	objects.PrependReactor("update", "deployments", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if s.fails != nil {
			return true, nil, s.fails
		}
		scale := a.(clienttesting.UpdateAction).GetObject().(*unstructured.Unstructured)
		n, _, _ := unstructured.NestedInt64(scale.Object, "spec", "replicas")
		if a.GetSubresource() == "scale" && scale.GetResourceVersion() == "7" {
			s.replicas, s.writes = n, append(s.writes, n)
		}
		return true, scale, nil
	})
}

// fixed is a source of policies that do not change.
type fixed []scaling.Workload

func (f fixed) Current() []scaling.Workload { return f }

// servedTargets contains the result of Lookup for each policy name: the target as an int, or an error.
type servedTargets map[string]any

func (s servedTargets) Lookup(k scaling.Key, _ time.Time) (engine.Served, error) {
	switch v := s[k.Name].(type) {
	case int:
		return engine.Served{Replicas: int32(v)}, nil
	case error:
		return engine.Served{}, v
	}
	return engine.Served{}, engine.ErrUnknown
}

// sentEvents contains the Events that were sent, in the form "reason: note".
type sentEvents []string

func (s *sentEvents) Send(_ corev1.ObjectReference, _, reason, note string) {
	*s = append(*s, reason+": "+note)
}

// take returns the Events that were sent since the last call.
func (s *sentEvents) take() []string {
	all := *s
	*s = nil
	return all
}

func testOptions(policies engine.Policies) (Options, *sentEvents) {
	scheme, sent := runtime.NewScheme(), &sentEvents{}
	utilruntime.Must(appsv1.AddToScheme(scheme))
	return Options{
		Cache: cache.New(0), Policies: cache.NewPolicies(policies), Namespaces: []string{"team"}, Events: sent,
		Dynamic: dynamicfake.NewSimpleDynamicClient(scheme), Leading: func() bool { return true }, Log: slog.New(slog.DiscardHandler),
		Resource: func(schema.GroupKind) (schema.GroupVersionResource, bool) {
			return schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}, true
		},
	}, sent
}

// activatingWorkload returns a policy for the Deployment chat with activate: true, modified by the function change.
func activatingWorkload(change func(w *scaling.Workload)) scaling.Workload {
	w := *fixture.Workload("chat")
	w.Activate = true
	if change != nil {
		change(&w)
	}
	return w
}

// newTestActivator returns an Activator for the Deployment chat with the given replicas, and the Events that it sends.
func newTestActivator(replicas int32, target any, policies engine.Policies) (*Activator, *sentEvents) {
	o, sent := testOptions(policies)
	o.Cache.PutTarget(fixture.Must[*cache.Target](cache.TrimDeployment(fixture.Deployment("chat", replicas, "1"))))
	a := New(o)
	a.Serve(servedTargets{"chat": target})
	return a, sent
}

// The HPA of the workload reads its metric from the metrics server of another product. gpuscaler must still scale between zero and one
// replica, and must write no other number of replicas.
func TestStepsBetweenZeroAndOneReplicaBesideAnHPAOfAnotherMetricsServer(t *testing.T) {
	for _, c := range []struct {
		replicas int32
		target   int
		want     []int64
	}{{0, 5, []int64{1}}, {1, 5, nil}, {4, 0, nil}, {4, 7, nil}, {1, 0, []int64{0}}} {
		a, _ := newTestActivator(c.replicas, c.target, fixed{activatingWorkload(nil)})
		h := fixture.HPA("chat", "chat", "chat")
		h.Spec.Metrics[0].External.Metric.Name = "datadogmetric@team:queue"
		h.Spec.Metrics[0].External.Metric.Selector = nil
		a.options.Cache.PutHPA(nil, fixture.Must[*cache.HPA](cache.TrimHPA(h)))
		s := &fakeScale{replicas: int64(c.replicas)}
		s.serve(a.options)
		a.round(t.Context(), night)
		if !slices.Equal(s.writes, c.want) {
			t.Errorf("%d replicas, target %d: wrote %v, want %v", c.replicas, c.target, s.writes, c.want)
		}
	}
}

func TestStepsBetweenZeroAndOneReplica(t *testing.T) {
	paused := func(c *cache.Cache) {
		d := fixture.Deployment("chat", 0, "1")
		d.Annotations = map[string]string{annotations.Paused: "true"}
		c.PutTarget(fixture.Must[*cache.Target](cache.TrimDeployment(d)))
	}
	hpa := func(least int32) func(*cache.Cache) {
		return func(c *cache.Cache) {
			h := fixture.HPA("chat", "chat", "chat")
			h.Spec.MinReplicas = &least
			c.PutHPA(nil, fixture.Must[*cache.HPA](cache.TrimHPA(h)))
		}
	}
	keda := func(c *cache.Cache) {
		c.PutScaledObject(nil, fixture.Must[*cache.ScaledObject](cache.TrimScaledObject(fixture.ScaledObject("so", "chat"))))
	}
	for name, c := range map[string]struct {
		replicas int32
		target   any
		workload func(w *scaling.Workload)
		add      func(*cache.Cache)
		want     []int64
	}{
		"demand at zero: one replica, the HPA continues": {0, 5, nil, hpa(1), []int64{1}},
		"demand at zero, and no HPA":                     {0, 5, nil, nil, []int64{1}},
		"idle at one":                                    {1, 0, nil, hpa(1), []int64{0}},
		"idle at one, and no HPA":                        {1, 0, nil, nil, []int64{0}},
		"idle at three: the HPA scales to one":           {3, 0, nil, hpa(1), nil},
		"an HPA with minReplicas 0 scales to zero":       {1, 0, nil, hpa(0), nil},
		"an HPA with minReplicas 0 scales from zero":     {0, 2, nil, hpa(0), nil},
		"no demand at zero":                              {0, 0, nil, hpa(1), nil},
		"demand at four":                                 {4, 5, nil, hpa(1), nil},
		"without activate: true":                         {0, 5, func(w *scaling.Workload) { w.Activate = false }, hpa(1), nil},
		"advisory":                                       {0, 5, func(w *scaling.Workload) { w.Mode = scaling.Advisory }, hpa(1), nil},
		"held":                                           {0, engine.ErrHeld, nil, hpa(1), nil},
		"the target is too old to scale to zero":         {1, engine.ErrStale, nil, hpa(1), nil},
		"without a decision":                             {1, engine.ErrUndecided, nil, hpa(1), nil},
		"paused by a user":                               {0, 5, nil, paused, nil},
		"KEDA scales from zero":                          {0, 5, nil, keda, nil},
		"KEDA scales to zero":                            {1, 0, nil, keda, nil},
	} {
		t.Run(name, func(t *testing.T) {
			a, _ := newTestActivator(c.replicas, c.target, fixed{activatingWorkload(c.workload)})
			scale := &fakeScale{replicas: int64(c.replicas)}
			scale.serve(a.options)
			if c.add != nil {
				c.add(a.options.Cache)
			}
			a.round(t.Context(), night)
			a.round(t.Context(), night.Add(time.Second)) // must write nothing, although the cache has not observed the write yet
			if !slices.Equal(scale.writes, c.want) {
				t.Errorf("wrote %v, want %v", scale.writes, c.want)
			}
		})
	}
}

func TestWriteOfAnotherClientIsNotOverwritten(t *testing.T) {
	a, sent := newTestActivator(1, 0, fixed{activatingWorkload(nil)})
	scale := &fakeScale{replicas: 6} // the HPA has scaled to 6 replicas, but the cache has not received the change yet
	scale.serve(a.options)
	a.round(t.Context(), night)
	if all := sent.take(); scale.replicas != 6 || len(all) != 0 {
		t.Errorf("replicas %d, Events %v", scale.replicas, all)
	}
	scale.replicas, scale.fails = 1, apierrors.NewConflict(workloadResource, "chat", errors.New("changed"))
	a.round(t.Context(), night)
	if all := sent.take(); len(all) != 0 {
		t.Errorf("a conflict is reported as a failure: %v", all)
	}
}

func TestRefusedWriteIsReportedOnceAndRetriedWithBackoff(t *testing.T) {
	a, sent := newTestActivator(0, 5, fixed{activatingWorkload(nil)})
	scale := &fakeScale{fails: apierrors.NewForbidden(workloadResource, "chat", errors.New("no"))}
	scale.serve(a.options)
	for i := range 300 {
		a.round(t.Context(), night.Add(time.Duration(i)*time.Second))
	}
	if all := sent.take(); len(all) != 1 {
		t.Errorf("reported %d times: %v", len(all), all)
	}
	if counted := testutil.ToFloat64(a.writes.WithLabelValues("up", "failed")); counted < 5 {
		t.Errorf("%v failures counted", counted)
	}
	if tries := a.failures[scaling.Key{Namespace: "team", Name: "chat"}].count; tries < 5 || tries > 12 {
		t.Errorf("%d tries in five minutes", tries)
	}
	scale.fails = nil
	for i := range 61 {
		a.round(t.Context(), night.Add(5*time.Minute+time.Duration(i)*time.Second))
	}
	if all := sent.take(); !slices.Equal(scale.writes, []int64{1}) ||
		!slices.Equal(all, []string{"ActivatedFromZero: 0 -> 1 (policy team/chat)"}) {
		t.Errorf("wrote %v, Events %v", scale.writes, all)
	}
}

// The alert ActivationFailing needs every series before the first failure, because Prometheus observes no increase from a missing series to
// 1.
func TestEveryResultOfActivationsIsCountedFromZero(t *testing.T) {
	a, _ := newTestActivator(0, 5, fixed{})
	if n := testutil.CollectAndCount(a.writes); n != 6 {
		t.Errorf("%d series before the first write, want 2 directions with 3 results", n)
	}
}

// withdrawing is a source whose policies are removed: Current returns the workloads for the first `reads` calls and then nil.
type withdrawing struct {
	workloads []scaling.Workload
	reads     int
}

func (p *withdrawing) Current() []scaling.Workload {
	if p.reads--; p.reads < 0 {
		return nil
	}
	return p.workloads
}

// A policy is removed between the decision and the write. The write must not be sent.
func TestStepIsNotWrittenWithoutACurrentPolicy(t *testing.T) {
	a, sent := newTestActivator(0, 5, &withdrawing{[]scaling.Workload{activatingWorkload(nil)}, 1})
	scale := &fakeScale{}
	scale.serve(a.options)
	a.round(t.Context(), night)
	if len(scale.writes) > 0 {
		t.Errorf("wrote %v", scale.writes)
	}
	if all := sent.take(); len(all) != 1 || !strings.Contains(all[0], "no current policy activates it") {
		t.Errorf("Events %v", all)
	}
}

func TestPolicyOutsideTheNamespacesWritesNothingAndIsRefused(t *testing.T) {
	a, _ := newTestActivator(0, 5, fixed{activatingWorkload(nil)})
	a.options.Namespaces = []string{"another"}
	scale := &fakeScale{}
	scale.serve(a.options)
	a.round(t.Context(), night)
	if len(scale.writes) > 0 {
		t.Errorf("wrote %v", scale.writes)
	}
	refused := a.Refused()
	if len(refused) != 1 || !strings.Contains(refused[0].Text,
		"gpuscaler is not allowed to write /scale in namespace team: add it to activator.namespaces") {
		t.Errorf("refused %v", refused)
	}
	a.options.Namespaces = append(a.options.Namespaces, "team")
	a.round(t.Context(), night)
	if !slices.Equal(scale.writes, []int64{1}) || len(a.Refused()) != 0 {
		t.Errorf("wrote %v after the namespace was added", scale.writes)
	}
}
