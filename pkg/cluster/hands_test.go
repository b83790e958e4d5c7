package cluster

import (
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
)

// atVersion is the spot pool as the API server shows it at a version and a generation.
func atVersion(t *testing.T, version string, generation int64) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(spotPool), &u.Object); err != nil {
		t.Fatal(err)
	}
	u.SetResourceVersion(version)
	u.SetGeneration(generation)
	return u
}

// handed is a leader that has seen the spot pool at version 1; answer is the API server's to each patch, by the version that it is based on.
func handed(t *testing.T, leading func() bool, answer func(version string) error) (*Cluster, *capacity.Group, func() []string) {
	t.Helper()
	c, g := still(Options{Groups: noGroups{}, Leading: leading}), spotAndOnDemand(t)
	var mu sync.Mutex
	var sent []string
	c.dynamic.(*dynamicfake.FakeDynamicClient).PrependReactor("patch", "nodepools", func(a clienttesting.Action) (bool, runtime.Object, error) {
		u := &unstructured.Unstructured{}
		if err := json.Unmarshal(a.(clienttesting.PatchAction).GetPatch(), &u.Object); err != nil {
			return true, nil, err
		}
		mu.Lock()
		sent = append(sent, u.GetResourceVersion())
		mu.Unlock()
		return true, u, answer(u.GetResourceVersion())
	})
	c.nodes.putPool(atVersion(t, "1", 7))
	c.nodes.Observe(g, nil, &capacity.Observation{})
	return c, g, func() []string { mu.Lock(); defer mu.Unlock(); return sent }
}

func raise(loosens bool) []capacity.Action {
	return []capacity.Action{capacity.NodePoolPatch{Pool: "l40s-spot", Loosens: loosens, Changes: []capacity.Change{
		{Field: capacity.FieldLimit, Resource: "nvidia.com/gpu", From: "16", To: "32", Original: "16", Owner: "kubectl"}}}}
}

// Karpenter writes a NodePool's status all the time; a limit that keeps pods waiting must not wait for the next tick because of it.
func TestALooseningThatIsOutrunByAStatusIsTriedAgainAtOnce(t *testing.T) {
	for name, w := range map[string]struct {
		loosens    bool
		generation int64
		version    string // in the cache by then
		want       string
	}{
		"a status was written":              {true, 7, "2", "[1 2]"},
		"the spec was written":              {true, 8, "2", "[1]"},
		"the cache has not heard of it yet": {true, 7, "1", "[1]"},
		"it makes less possible":            {false, 7, "2", "[1]"},
	} {
		var c *Cluster
		c, g, sent := handed(t, nil, func(version string) error {
			if version != "1" {
				return nil
			}
			c.nodes.putPool(atVersion(t, w.version, w.generation))
			return apierrors.NewConflict(nodePoolResource.GroupResource(), "l40s-spot", fmt.Errorf("it is at %s", w.version))
		})
		<-c.nodes.Act(g, raise(w.loosens))
		if got := fmt.Sprint(sent()); got != w.want {
			t.Errorf("%s: patches from versions %s, want %s", name, got, w.want)
		}
	}
}

func TestAConflictIsTriedAgainOnce(t *testing.T) {
	var c *Cluster
	version := 1
	c, g, sent := handed(t, nil, func(string) error {
		version++
		c.nodes.putPool(atVersion(t, fmt.Sprint(version), 7))
		return apierrors.NewConflict(nodePoolResource.GroupResource(), "l40s-spot", fmt.Errorf("again"))
	})
	<-c.nodes.Act(g, raise(true))
	if got := fmt.Sprint(sent()); got != "[1 2]" {
		t.Errorf("patches from versions %s", got)
	}
}

// A patch may wait behind another of the same NodePool for longer than we lead.
func TestWhoLeadsNoMoreWhenItsTurnComesWritesNothing(t *testing.T) {
	var leading atomic.Bool
	leading.Store(true)
	c, g, sent := handed(t, leading.Load, func(string) error { return nil })
	one := &sync.Mutex{}
	c.nodes.hands.busy["l40s-spot"] = one
	one.Lock()
	done := c.nodes.Act(g, raise(true))
	leading.Store(false)
	one.Unlock()
	<-done
	if got := sent(); len(got) != 0 {
		t.Errorf("patches from versions %s", got)
	}
}
