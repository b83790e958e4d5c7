package cluster

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/policy/annotations"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

var night = time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)

var workloadResource = schema.GroupResource{Group: "apps", Resource: "deployments"}

// scaleOf is the /scale of a Deployment on the server; writes counts what was written there.
type scaleOf struct {
	replicas int64
	writes   []int64
	fails    error
}

func (s *scaleOf) serve(c *Cluster) {
	objects := c.dynamic.(*dynamicfake.FakeDynamicClient)
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

func waker(number any, change func(w *scaling.Workload)) *Cluster {
	w := *workload("chat")
	w.Activate = true
	if change != nil {
		change(&w)
	}
	c := still(Options{Policies: fixed{w}, ActivateIn: []string{"team"}})
	c.Activate(served{"chat": number})
	return c
}

func TestWhoTakesAWorkloadBetweenZeroAndOne(t *testing.T) {
	paused := func(c *Cluster) {
		d := deployment("chat", 0, "1")
		d.Annotations = map[string]string{annotations.Paused: "true"}
		c.world.putTarget(must(trimDeployment(d)).(*targetFacts))
	}
	follows := func(least int32) func(c *Cluster) {
		return func(c *Cluster) {
			h := exactHPA("chat", "chat", "chat")
			h.Spec.MinReplicas = &least
			c.world.putHPA(nil, must(trimHPA(h)).(*hpaFacts))
		}
	}
	keda := func(c *Cluster) {
		c.world.putScaledObject(nil, must(trimScaledObject(scaledObject("so", "chat"))).(*scaledObjectFacts))
	}
	for name, c := range map[string]struct {
		stands, number any
		workload       func(w *scaling.Workload)
		around         func(c *Cluster)
		want           []int64
	}{
		"demand at zero: one, the HPA takes it on":        {0, 5, nil, follows(1), []int64{1}},
		"demand at zero, and nobody follows":              {0, 5, nil, nil, []int64{1}},
		"idle at one":                                     {1, 0, nil, follows(1), []int64{0}},
		"idle at one, and nobody follows":                 {1, 0, nil, nil, []int64{0}},
		"idle at three: the HPA comes down to one":        {3, 0, nil, follows(1), nil},
		"an HPA with minReplicas 0 goes there itself":     {1, 0, nil, follows(0), nil},
		"an HPA with minReplicas 0 is woken all the same": {0, 2, nil, follows(0), []int64{1}},
		"nothing to do at zero":                           {0, 0, nil, follows(1), nil},
		"nothing to do at work":                           {4, 5, nil, follows(1), nil},
		"not asked for":                                   {0, 5, func(w *scaling.Workload) { w.Activate = false }, follows(1), nil},
		"advisory":                                        {0, 5, func(w *scaling.Workload) { w.Mode = scaling.Advisory }, follows(1), nil},
		"held":                                            {0, engine.ErrHeld, nil, follows(1), nil},
		"the number is too old to take it down":           {1, engine.ErrStale, nil, follows(1), nil},
		"never decided":                                   {1, engine.ErrUndecided, nil, follows(1), nil},
		"paused by annotation":                            {0, 5, nil, paused, nil},
		"KEDA does it":                                    {0, 5, nil, keda, nil},
		"KEDA does it, downwards too":                     {1, 0, nil, keda, nil},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := waker(c.number, c.workload)
			scale := &scaleOf{replicas: int64(c.stands.(int))}
			scale.serve(cluster)
			cluster.world.putTarget(must(trimDeployment(deployment("chat", int32(scale.replicas), "1"))).(*targetFacts))
			if c.around != nil {
				c.around(cluster)
			}
			cluster.activator.round(t.Context(), night)
			cluster.activator.round(t.Context(), night.Add(time.Second)) // its own cache has not seen the write yet
			if !slices.Equal(scale.writes, c.want) {
				t.Errorf("wrote %v, want %v", scale.writes, c.want)
			}
		})
	}
}

func TestWhatSomebodyElseWroteMeanwhileStands(t *testing.T) {
	c := waker(0, nil)
	c.world.putTarget(must(trimDeployment(deployment("chat", 1, "1"))).(*targetFacts))
	scale := &scaleOf{replicas: 6} // the HPA was quicker than our cache
	scale.serve(c)
	c.activator.round(t.Context(), night)
	if scale.replicas != 6 || len(notes(c)) != 0 {
		t.Errorf("replicas %d", scale.replicas)
	}
	scale.replicas, scale.fails = 1, apierrors.NewConflict(workloadResource, "chat", errors.New("changed"))
	c.activator.round(t.Context(), night)
	if told := notes(c); len(told) != 0 {
		t.Errorf("a lost race is no failure: %v", told)
	}
}

func TestARefusedWriteIsToldOnceTriedAgainEverLessOftenAndSucceedsWhenAllowed(t *testing.T) {
	c := waker(5, nil)
	c.world.putTarget(must(trimDeployment(deployment("chat", 0, "1"))).(*targetFacts))
	scale := &scaleOf{fails: apierrors.NewForbidden(workloadResource, "chat", errors.New("no"))}
	scale.serve(c)
	for i := range 300 {
		c.activator.round(t.Context(), night.Add(time.Duration(i)*time.Second))
	}
	if told := notes(c); len(told) != 1 {
		t.Errorf("told %d times: %v", len(told), told)
	}
	if tries := c.activator.failed[scaling.Key{Namespace: "team", Name: "chat"}].times; tries < 5 || tries > 12 {
		t.Errorf("%d tries in five minutes", tries)
	}
	scale.fails = nil
	for i := range 61 {
		c.activator.round(t.Context(), night.Add(5*time.Minute+time.Duration(i)*time.Second))
	}
	if !slices.Equal(scale.writes, []int64{1}) || !slices.Equal(notes(c), []string{"ActivatedFromZero: 0 -> 1 (policy team/chat)"}) {
		t.Errorf("wrote %v", scale.writes)
	}
}

// withdrawing is a policy list that loses its policies after some reads.
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

// A policy that is removed between the decision and the write no longer authorizes the write.
func TestAStepIsNotWrittenWithoutAnActivatingPolicyInForce(t *testing.T) {
	c := waker(5, nil)
	w := *workload("chat")
	w.Activate = true
	c.options.Policies = &withdrawing{[]scaling.Workload{w}, 1}
	c.world.putTarget(must(trimDeployment(deployment("chat", 0, "1"))).(*targetFacts))
	scale := &scaleOf{}
	scale.serve(c)
	c.activator.round(t.Context(), night)
	if len(scale.writes) > 0 {
		t.Errorf("wrote %v", scale.writes)
	}
	if told := notes(c); len(told) != 1 || !strings.Contains(told[0], "no policy in force activates it") {
		t.Errorf("Events %v", told)
	}
}

func TestAnActivatingPolicyOutsideTheListedNamespacesWritesNothingAndIsReported(t *testing.T) {
	c := waker(5, nil)
	c.options.ActivateIn = []string{"another"}
	c.world.putTarget(must(trimDeployment(deployment("chat", 0, "1"))).(*targetFacts))
	scale := &scaleOf{}
	scale.serve(c)
	c.activator.round(t.Context(), night)
	if len(scale.writes) > 0 {
		t.Errorf("wrote %v", scale.writes)
	}
	(&linter{cluster: c, told: map[complaint]time.Time{}}).round(night)
	if told := notes(c); len(told) != 1 || !strings.Contains(told[0], "gpuscaler may not write /scale in namespace team: add it to activator.namespaces") {
		t.Errorf("Events %v", told)
	}
	c.options.ActivateIn = append(c.options.ActivateIn, "team")
	c.activator.round(t.Context(), night)
	if !slices.Equal(scale.writes, []int64{1}) {
		t.Errorf("wrote %v after the namespace was listed", scale.writes)
	}
}
