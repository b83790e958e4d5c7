package cluster

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/cache"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/fixture"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/ownership"
	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/annotations"
	"github.com/gpuscaler/gpuscaler/pkg/policy/store"
)

// team is a namespace with an HPA and a ScaledObject whose annotations contain policies. Its fake API server applies the annotation
// policy-status as server-side apply does, and the caches receive the changed object.
type team struct {
	*Cluster
	t        *testing.T
	policies *store.Store
	path     string
	now      time.Time
	hpa      *autoscalingv2.HorizontalPodAutoscaler
	scaled   *unstructured.Unstructured
	writes   []string
}

func newTeam(t *testing.T) *team {
	c := &team{t: t, policies: store.New(store.Options{}), path: filepath.Join(t.TempDir(), "platform.yaml"),
		now: time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)}
	c.platform("policyStatus: true")
	c.Cluster = still(Options{Annotated: c.policies, PolicyStatuses: c.policies, PolicyStatusIn: []string{fixture.Namespace}})
	c.dynamic.(*dynamicfake.FakeDynamicClient).PrependReactor("patch", "*", c.apply)
	return c
}

func (c *team) platform(setting string) {
	c.t.Helper()
	text := "apiVersion: gpuscaler.io/v1alpha1\nkind: PlatformConfig\nmetadata: {name: p}\nspec:\n" +
		"  dataSources: [{name: prom, type: prometheus, default: true, address: 'http://prom'}]\n" +
		"  teams: [{name: team, namespaces: [team], " + setting + "}]\n"
	if err := os.WriteFile(c.path, []byte(text), 0o600); err != nil {
		c.t.Fatal(err)
	}
	if r := c.policies.Load(c.path); policy.Errors(r.Problems) > 0 {
		c.t.Fatal(policy.Render(r.Problems))
	}
}

// set changes the policies in the annotations of the HPA and the ScaledObject.
func (c *team) set(hpa, scaledObject string) {
	o, s := fixture.HPA("front", "front", "front"), fixture.ScaledObject("embed", "embed")
	o.Annotations = map[string]string{annotations.Spec: hpa}
	s.SetAnnotations(map[string]string{annotations.Spec: scaledObject})
	c.hpaRead(o)
	c.scaledRead(s)
	c.policies.Publish()
}

func (c *team) hpaRead(o *autoscalingv2.HorizontalPodAutoscaler) {
	trimmed := fixture.Must[*cache.HPA](cache.TrimHPA(o))
	if c.hpa == nil {
		c.hpaHandler().OnAdd(trimmed, false)
	} else {
		c.hpaHandler().OnUpdate(fixture.Must[*cache.HPA](cache.TrimHPA(c.hpa)), trimmed)
	}
	c.hpa = o
}

func (c *team) scaledRead(s *unstructured.Unstructured) {
	trimmed := fixture.Must[*cache.ScaledObject](cache.TrimScaledObject(s))
	if c.scaled == nil {
		c.scaledObjectHandler().OnAdd(trimmed, false)
	} else {
		c.scaledObjectHandler().OnUpdate(fixture.Must[*cache.ScaledObject](cache.TrimScaledObject(c.scaled)), trimmed)
	}
	c.scaled = s
}

// apply simulates the API server's server-side apply of the annotation policy-status.
func (c *team) apply(action clienttesting.Action) (bool, runtime.Object, error) {
	var u unstructured.Unstructured
	if err := json.Unmarshal(action.(clienttesting.PatchAction).GetPatch(), &u.Object); err != nil {
		return true, nil, err
	}
	value := u.GetAnnotations()[annotations.PolicyStatus]
	c.writes = append(c.writes, strings.TrimSpace(u.GetKind()+" "+value))
	set := func(o metav1.Object) {
		all := o.GetAnnotations()
		all[annotations.PolicyStatus] = value
		o.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: ownership.PolicyStatusManager, Operation: metav1.ManagedFieldsOperationApply}})
		if value == "" {
			delete(all, annotations.PolicyStatus)
			o.SetManagedFields(nil)
		}
		o.SetAnnotations(all)
	}
	if u.GetKind() == cache.HPAKind {
		o := c.hpa.DeepCopy()
		set(o)
		c.hpaRead(o)
	} else {
		s := c.scaled.DeepCopy()
		set(s)
		c.scaledRead(s)
	}
	return true, &u, nil
}

// expect runs the writer of the annotation for ten simulated minutes and compares its writes with want. Each element of want is the
// beginning of a write.
func (c *team) expect(why string, want ...string) {
	c.t.Helper()
	c.writes = nil
	for range 600 {
		c.now = c.now.Add(time.Second)
		c.policies.Publish() // the controller does the same before each tick
		c.statuses.Round(c.t.Context(), c.now)
	}
	if !slices.EqualFunc(c.writes, want, strings.HasPrefix) {
		c.t.Errorf("%s: writes\n%s\nwant\n%s", why, strings.Join(c.writes, "\n"), strings.Join(want, "\n"))
	}
}

// A team makes a mistake in the policy on an HPA, corrects it, and removes the policy. The annotation policy-status must follow each
// change. Writing the annotation must not compile a policy again, although the object changes.
func TestPolicyStatusIsWrittenToTheObjectsThatCarryPolicies(t *testing.T) {
	const (
		good = "signals:\n- {name: q, type: dcgm, target: 70}"
		bad  = "signals:\n- {name: q, type: dcgm, target: seventy}"
	)
	c := newTeam(t)
	c.set(bad, good)
	revision := c.policies.StatusRevision()
	c.expect("a mistake", "HorizontalPodAutoscaler refused: line 2: metadata.annotations[gpuscaler.io/spec].signals[0].target: ",
		"ScaledObject ")
	if now := c.policies.StatusRevision(); now != revision {
		t.Errorf("revision %d after %d: the annotation was read as an edit of a policy", now, revision)
	}
	c.set(good, good)
	c.expect("corrected, and both manifests without the annotation replace the objects",
		"HorizontalPodAutoscaler accepted: 1 signal, 1 to 40 replicas", "ScaledObject ")
	c.platform("policyStatus: false")
	c.expect("policyStatus ended", "HorizontalPodAutoscaler", "ScaledObject")
	c.platform("policyStatus: true")
	c.expect("policyStatus again", "HorizontalPodAutoscaler accepted: ", "ScaledObject ")
	without := c.hpa.DeepCopy()
	delete(without.Annotations, annotations.Spec)
	c.hpaRead(without)
	c.expect("the policy was removed from the HPA", "HorizontalPodAutoscaler")
	c.scaledObjectHandler().OnDelete(fixture.Must[*cache.ScaledObject](cache.TrimScaledObject(c.scaled)))
	c.expect("the ScaledObject was deleted")
}

// KEDA copies the annotations of a ScaledObject to the HPA that it creates. This HPA must not get a status, because its policy is the
// policy of the ScaledObject.
func TestPolicyStatusIsNotWrittenToTheHPAOfAScaledObject(t *testing.T) {
	c := newTeam(t)
	o := fixture.KEDAHPA("keda-hpa-embed", "embed", "embed")
	o.Annotations[annotations.Spec], o.Annotations[annotations.PolicyStatus] = "mode: hold", "accepted: 1 signal, 0 to 100 replicas"
	c.hpaRead(o)
	c.expect("an HPA of KEDA")
}

func TestNoPolicyStatusIsWrittenWithoutAListedNamespace(t *testing.T) {
	o := Options{PolicyStatuses: store.New(store.Options{})}
	if c := newCluster(fake.NewClientset(), dynamicfake.NewSimpleDynamicClient(runtime.NewScheme()), o); c.statuses != nil {
		t.Error("a writer exists although no namespace is listed")
	}
}
