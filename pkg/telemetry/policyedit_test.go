package telemetry

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/store"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// editedCluster is a cluster in which every workload has six replicas.
type editedCluster struct{ applied int }

func (c *editedCluster) View(*scaling.Workload) (engine.View, bool) {
	return engine.View{Replicas: 6, Ready: 6, MinReplicas: -1, MaxReplicas: -1, Operator: scaling.NoOperator}, true
}
func (c *editedCluster) Apply(_ context.Context, changes []engine.Change) error {
	c.applied += len(changes)
	return nil
}

// edited is a small controller: a store that reads policies from annotations, a poller of one Prometheus server, and an engine.
type edited struct {
	t       *testing.T
	store   *store.Store
	poller  *Poller
	engine  *engine.Engine
	changes []engine.Record
	now     time.Time
	object  store.Object
}

func newEdited(t *testing.T, server *testPrometheus) *edited {
	e := &edited{t: t, now: time.Now()}
	e.poller = newPoller(t, Options{Pods: testPods{{Namespace: "chat", Name: "llama"}: readyPods("l-0", "l-1", "l-2", "l-3", "l-4", "l-5")}})
	e.store = store.New(store.Options{Prepare: e.poller.SetPolicies})
	path := file(t, "platform.yaml", fmt.Sprintf(`apiVersion: gpuscaler.io/v1alpha1
kind: PlatformConfig
metadata: {name: prod}
spec:
  dataSources: [{name: prom, type: prometheus, default: true, address: %q, interval: 1m}]
`, server.URL))
	if r := e.store.Load(path); len(r.Problems) > 0 {
		t.Fatal(policy.Render(r.Problems))
	}
	e.engine = engine.New(e.store, e.poller, &editedCluster{},
		engine.Options{OnTransition: func(r engine.Record) { e.changes = append(e.changes, r) }})
	e.object = store.Object{Kind: "HorizontalPodAutoscaler", Namespace: "chat", Name: "llama", MinReplicas: 1, MaxReplicas: 12,
		Target: scaling.Target{APIVersion: "apps/v1", Kind: "Deployment", Name: "llama"}, Annotations: map[string]string{
			"gpuscaler.io/spec": "signals:\n- {name: queue, type: vllm, target: 10}\nbehavior: {scaleDown: {stabilizationWindowSeconds: 0}}\n"}}
	e.annotate(nil)
	pollOnce(t, e.poller)
	e.tick()
	return e
}

// annotate changes the HPA and passes it to the store, as the informer does after an edit by a user. The store informs the poller.
func (e *edited) annotate(edit func(o *store.Object)) {
	e.t.Helper()
	o := e.object
	o.Annotations = maps.Clone(o.Annotations)
	if edit != nil {
		edit(&o)
	}
	e.object = o
	if problems := e.store.SetObject(o); len(problems) > 0 {
		e.t.Fatal(policy.Render(problems))
	}
	e.store.Publish() // makes the edit visible; the controller also calls Publish before each tick
}

func (e *edited) tick() scaling.Decision {
	e.now = e.now.Add(time.Second)
	e.engine.Tick(context.Background(), e.now)
	d, _ := e.engine.Decisions().Decision(scaling.Key{Namespace: "chat", Name: "llama"})
	return d
}

func TestEditOfAnnotationsKeepsTheReadings(t *testing.T) {
	server := newTestPrometheus(t)
	at := time.Now().Add(-2 * time.Second)
	for i := range 6 {
		server.put(fmt.Sprintf(`{__name__="vllm:num_requests_waiting",namespace="chat",pod="l-%d"}`, i), at, 10)
		server.put(fmt.Sprintf(`{__name__="vllm:num_requests_running",namespace="chat",pod="l-%d"}`, i), at, 10)
	}
	e := newEdited(t, server)
	if d := e.tick(); d.Replicas != 6 || d.Degraded {
		t.Fatalf("before: %+v", d)
	}
	e.changes = nil
	for _, edit := range []func(o *store.Object){
		func(o *store.Object) { o.MaxReplicas = 13 },
		func(o *store.Object) { o.Annotations["gpuscaler.io/spec"] += "cooldownPeriod: 20m\n" },
		func(o *store.Object) { o.MaxReplicas = 14 },
	} {
		e.annotate(edit)
		if d := e.tick(); d.Replicas != 6 || d.Degraded || d.Status[0] != scaling.SignalOK {
			t.Errorf("the first tick after an edit decided %d, degraded %t, signal %d", d.Replicas, d.Degraded, d.Status[0])
		}
	}
	if len(e.changes) > 0 {
		t.Errorf("%d transitions of edits that change no outcome: %+v", len(e.changes), e.changes[0].Decision)
	}
}

// An edit that changes the metric of a signal makes the signal unknown until its next poll. Until then the target must not decrease.
func TestEditOfASignalsSourceWaitsForTheFirstPoll(t *testing.T) {
	server := newTestPrometheus(t)
	for i := range 6 {
		server.put(fmt.Sprintf(`{__name__="vllm:num_requests_waiting",namespace="chat",pod="l-%d"}`, i), time.Now(), 10)
		server.put(fmt.Sprintf(`{__name__="vllm:num_requests_running",namespace="chat",pod="l-%d"}`, i), time.Now(), 0)
	}
	e := newEdited(t, server)
	e.annotate(func(o *store.Object) {
		o.Annotations["gpuscaler.io/spec"] = "signals:\n- {name: queue, type: vllm, metric: requestsRunning, target: 10}\nbehavior: " +
			"{scaleDown: {stabilizationWindowSeconds: 0}}\n"
	})
	if d := e.tick(); d.Replicas != 6 || !d.Degraded {
		t.Errorf("decided %d, degraded %t, on the reading of another metric", d.Replicas, d.Degraded)
	}
	pollOnce(t, e.poller)
	if d := e.tick(); d.Replicas != 1 || d.Degraded {
		t.Errorf("after the poll: %d, degraded %t", d.Replicas, d.Degraded)
	}
}

// A tick that began before an edit must read the readings of the policy version with which it started.
func TestTickInProgressReadsTheVersionThatItStartedWith(t *testing.T) {
	server := newTestPrometheus(t)
	server.put(`queue_size{namespace="chat",pool="llama"}`, time.Now().Add(-time.Second), 30)
	first := compiled("chat", "llama", querySource())
	p := newPoller(t, Options{})
	p.SetPolicies([]*policy.Compiled{first}, platformOf(promSource(server.URL)))
	pollOnce(t, p)
	second := *first
	edit := *first.Workload.Policy
	edit.MaxReplicas = 99
	second.Workload.Policy = &edit
	p.SetPolicies([]*policy.Compiled{&second}, platformOf(promSource(server.URL)))
	for _, c := range []*policy.Compiled{first, &second} {
		if r := read(p, c)[0]; !r.Known || r.Value != 30 {
			t.Errorf("reads %+v", r)
		}
	}
	p.SetPolicies(nil, nil) // the policy is deleted
	if r := read(p, &second)[0]; !r.Known {
		t.Errorf("a policy that is deleted under a tick reads %+v", r)
	}
	p.deleteReplaced()
	if r := read(p, &second)[0]; r.Known {
		t.Errorf("what was replaced is kept for ever: %+v", r)
	}
	if n := slices.Collect(maps.Keys(p.latest.entries.Load().byPolicy)); len(n) > 0 {
		t.Errorf("%d entries", len(n))
	}
}
