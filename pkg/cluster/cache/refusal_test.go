package cache

import (
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/fixture"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// A tenant chooses the values of fields of its objects. A long value must not fill logs, Events and API responses.
func TestRefusalContainsNoLongValueOfTheObject(t *testing.T) {
	const prefix = "StormService.v1alpha1.orchestration.aibrix.ai replicaLabel=roleset-name podsPerReplica="
	long := strings.Repeat("7x\u202e", 1<<18)
	for expression, want := range map[string]string{
		"self.spec.size":       "returns a string for the object, want a number from 1 to",
		"int(self.spec.size)":  "cannot be computed for the object: ",
		"self[self.spec.size]": "cannot be computed for the object: ",
	} {
		kind, err := ParseScaleKind(prefix + expression)
		if err != nil {
			t.Fatal(err)
		}
		s, u := story{New(0), kind}, stormService(int64(1))
		u.Object["spec"].(map[string]any)["size"] = long
		s.put(t, u)
		if why := s.Refusal(stormWorkload()); len(why) > 1000 || !strings.Contains(why, want) || strings.Contains(why, "\u202e") {
			t.Errorf("%s: %d bytes: %.300q, want %q", expression, len(why), why, want)
		}
	}
	target := fixture.Must[*Target](ScaleKind{}.Trim(fixture.Rollout(3)))
	for _, scale := range []map[string]any{
		{"spec": map[string]any{"replicas": long}},
		{"spec": map[string]any{"replicas": int64(1)}, "status": map[string]any{"selector": "a in (" + long}},
	} {
		if _, err := target.WithScale(&unstructured.Unstructured{Object: scale}); err == nil || len(err.Error()) > 2000 {
			t.Errorf("%.300v", err)
		}
	}
}

// After a restore or an upgrade of its controller, an object can have an empty status.selector, and a new version of a kind can lack
// /scale. The pods must still belong to the workload. Otherwise they would count as pods without a policy, and gpuscaler would remove the
// annotations that it set on them for a move to another NodePool.
func TestRefusedTargetKeepsItsPods(t *testing.T) {
	w := fixture.RolloutWorkload()
	gpusWithoutPolicy := func(c *Cache) int64 {
		return c.Unmanaged(&scaling.Team{Namespaces: []string{fixture.Namespace}}, []*scaling.Workload{w}, "nvidia.com/gpu")
	}
	object := func(uid types.UID) *Target {
		u := fixture.Rollout(1)
		u.SetUID(uid)
		return fixture.Must[*Target](ScaleKind{}.Trim(u))
	}
	answer := func(selector string) (*Target, error) {
		return object("first").WithScale(&unstructured.Unstructured{Object: map[string]any{
			"spec": map[string]any{"replicas": int64(2)}, "status": map[string]any{"selector": selector}}})
	}
	_, noSelector := answer("")
	for cause, refused := range map[string]*Target{
		"no selector": object("first").WithoutScale(false, noSelector),
		"no /scale":   object("first").WithoutScale(true, errors.New("not found")),
	} {
		c := New(0)
		for i := range 2 {
			c.PutPod(fixture.Must[*Pod](TrimPod(fixture.GPUPod("chat", i, "ready", "4"))))
		}
		c.PutTarget(refused)
		if n := gpusWithoutPolicy(c); n != 8 {
			t.Errorf("%s, never read: %d GPUs without a policy; want 8, because no selector is known", cause, n)
		}
		full, err := answer("app=chat")
		if err != nil {
			t.Fatal(err)
		}
		c.PutTarget(full)
		for range 2 { // /scale is read again after each change of the object
			c.PutTarget(refused)
			if _, ok := c.View(w); ok || c.Refusal(w) == "" {
				t.Errorf("%s: a view, or no refusal: %q", cause, c.Refusal(w))
			}
			if n := gpusWithoutPolicy(c); n != 0 || len(c.PodsOf(w)) != 2 || c.TargetOf(w).Replicas != 2 {
				t.Errorf("%s: %d GPUs without a policy, %d pods, %+v; want all pods and replicas as before", cause, n, len(c.PodsOf(w)),
					c.TargetOf(w))
			}
		}
		c.PutTarget(full)
		if v, ok := c.View(w); !ok || v.Ready != 2 {
			t.Errorf("%s, readable again: %+v, %t", cause, v, ok)
		}
		c.PutTarget(object("second").WithoutScale(false, noSelector))
		if n := gpusWithoutPolicy(c); n != 8 {
			t.Errorf("%s: a new object with the same name keeps the pods of the previous one", cause)
		}
	}
}
