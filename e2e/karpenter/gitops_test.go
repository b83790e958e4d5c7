package karpenter_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"github.com/gpuscaler/gpuscaler/e2e/controller"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
)

// argo does for one NodePool what the source code of Argo CD does (v2.14: util/argo/managedfields, and normalizeTargetResources in
// controller/sync.go), on a real API server. The field git is the NodePool in Git. The field trusted is the list managedFieldsManagers in
// the rule that `gpuscaler manifests gitops` prints.
type argo struct {
	git     *unstructured.Unstructured
	trusted []string
}

const argoManager = "argocd-controller"

// normalize returns the live object and Git's object. From both it removes the fields that differ and that a trusted manager owns.
func (a argo) normalize(live *unstructured.Unstructured) (normLive, normGit map[string]any, err error) {
	was, err := typed.DeducedParseableType.FromUnstructured(live.Object)
	if err != nil {
		return nil, nil, err
	}
	desired, err := typed.DeducedParseableType.FromUnstructured(a.git.Object)
	if err != nil {
		return nil, nil, err
	}
	difference, err := was.Compare(desired)
	if err != nil {
		return nil, nil, err
	}
	for _, m := range live.GetManagedFields() {
		if !slices.Contains(a.trusted, m.Manager) {
			continue
		}
		var fields fieldpath.Set
		if err := fields.FromJSON(bytes.NewReader(m.FieldsV1.Raw)); err != nil {
			return nil, nil, err
		}
		if both := fields.Intersection(difference.Modified); !both.Empty() {
			was, desired = was.RemoveItems(both), desired.RemoveItems(both)
		}
	}
	return was.AsValue().Unstructured().(map[string]any), desired.AsValue().Unstructured().(map[string]any), nil
}

// outOfSync returns the fields of Git's spec whose values differ in the live object and are not ignored. If there is such a field, Argo
// CD syncs the object.
func (a argo) outOfSync(live *unstructured.Unstructured) (fields []string, err error) {
	normLive, normGit, err := a.normalize(live)
	if err != nil {
		return nil, err
	}
	var compare func(at string, git, live any)
	compare = func(at string, git, live any) {
		if g, ok := git.(map[string]any); ok {
			l, _ := live.(map[string]any)
			for key := range g {
				compare(at+"."+key, g[key], l[key])
			}
			return
		}
		x, _ := json.Marshal(git)
		if y, _ := json.Marshal(live); !bytes.Equal(x, y) {
			fields = append(fields, strings.TrimPrefix(at, "."))
		}
	}
	compare("", normGit["spec"], normLive["spec"])
	slices.Sort(fields)
	return fields, nil
}

// reconcile applies Git's object with forced server-side apply if it is out of sync, and returns the fields that differed. For ignored
// fields it applies the live values, as Argo CD does with RespectIgnoreDifferences.
func (a argo) reconcile(ctx context.Context, p pool) (synced []string, err error) {
	live := p.get(ctx)
	if synced, err = a.outOfSync(live); err != nil || len(synced) == 0 {
		return nil, err
	}
	normLive, normGit, err := a.normalize(live)
	if err != nil {
		return nil, err
	}
	target := &unstructured.Unstructured{Object: normGit}
	respect(target.Object, normLive, live.Object)
	return synced, suite.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(target), client.FieldOwner(argoManager),
		client.ForceOwnership)
}

// respect copies the ignored fields of live into target. The ignored fields are the fields that are missing in normalized, the result of
// normalize for live.
func respect(target, normalized, live map[string]any) {
	for key, value := range live {
		n, there := normalized[key]
		below, isMap := value.(map[string]any)
		switch {
		case !there:
			target[key] = value
		case isMap:
			t, ok := target[key].(map[string]any)
			nested, _ := n.(map[string]any)
			if ok {
				respect(t, nested, below)
			}
		}
	}
}

// hashed waits until Karpenter has written the hash by which it detects drift into the NodePool.
func hashed(t *testing.T, p pool) {
	t.Helper()
	stack.Eventually(t, 20*time.Second, p.name+" has its hash", func(ctx context.Context) error {
		if p.hash(ctx) == "" {
			return errors.New("none")
		}
		return nil
	})
}

func nudgingGroup(pool string) string {
	return controller.Platform(`capacityGroups:
- name: gpu
  resource: nvidia.com/gpu
  nodePools: {spot: ` + pool + `}
  schedules:
  - {name: always, timezone: UTC, from: "2020-01-01", until: "2099-12-31", weight: 33, limits: {nvidia.com/gpu: 4}}
`)
}

// weights returns a check of a NodePool's weight and GPU limit. If ours is true, gpuscaler must own a field of the NodePool. If ours is
// false, gpuscaler must own no field.
func weights(p pool, weight int64, limit string, ours bool) func(context.Context) error {
	return func(ctx context.Context) error {
		u := p.get(ctx)
		w, _, _ := unstructured.NestedInt64(u.Object, "spec", "weight")
		holds := false
		for _, m := range u.GetManagedFields() {
			holds = holds || m.Manager == "gpuscaler"
		}
		if w != weight || p.limitNow(ctx) != limit || holds != ours {
			return fmt.Errorf("weight %d, limit %s, ours %t; want %d, %s, %t", w, p.limitNow(ctx), holds, weight, limit, ours)
		}
		return nil
	}
}

func TestArgoCDIgnoresOverridesAndAppliesGitAfterThem(t *testing.T) {
	t.Parallel()
	p := pool{name: "argo-spot", kind: "spot", weight: 80, limit: int64(16), nudge: allFields, by: serverSide}
	p.create(t)
	hashed(t, p)
	content := p.content(t)
	a := argo{git: p.object(), trusted: []string{"gpuscaler"}}
	git := func(value any, fields ...string) {
		t.Helper()
		if err := unstructured.SetNestedField(a.git.Object, value, append([]string{"spec"}, fields...)...); err != nil {
			t.Fatal(err)
		}
	}
	synced := func(want ...string) {
		t.Helper()
		if got, err := a.reconcile(t.Context(), p); err != nil || !slices.Equal(got, want) {
			t.Errorf("Argo CD synced for %q (%v), want %q", got, err, want)
		}
	}
	synced()
	g := start(t, "argo", map[string]string{"platform.yaml": nudgingGroup("argo-spot")})
	stack.Eventually(t, 40*time.Second, "the NodePool has overrides", weights(p, 33, "4", true))
	synced()
	if without, err := (argo{git: a.git}).outOfSync(p.get(t.Context())); err != nil || !slices.Equal(without,
		[]string{"limits.nvidia.com/gpu", "weight"}) {
		t.Errorf("without the rule %q must be out of sync (%v)", without, err)
	}

	git(int64(70), "weight") // gpuscaler overrides this field, so the new value applies only when the override ends
	synced()
	git("30s", "disruption", "consolidateAfter") // gpuscaler does not override this field, so the new value applies at once
	synced("disruption.consolidateAfter")
	stack.Always(t, 5*time.Second, "the overrides stay, because an equal value is not an edit", weights(p, 33, "4", true))
	if after, _, _ := unstructured.NestedString(p.get(t.Context()).Object, "spec", "disruption", "consolidateAfter"); after != "30s" {
		t.Errorf("consolidateAfter is %s", after)
	}

	g.write(t, "platform.yaml", controller.Platform("mode: auto\n"))
	stack.Eventually(t, 40*time.Second, "the overrides are removed", weights(p, 80, "16", false))
	synced("weight")
	if err := weights(p, 70, "16", false)(t.Context()); err != nil {
		t.Errorf("the change in Git was not applied: %v", err)
	}
	synced()
	git(int64(80), "weight")
	git("1s", "disruption", "consolidateAfter")
	synced("disruption.consolidateAfter", "weight")
	if now := p.content(t); now != content {
		t.Errorf("the NodePool differs:\n%s\nbefore:\n%s", now, content)
	}
}

// At each sync, Flux applies the fields that are in Git with forced server-side apply. gpuscaler must keep its overrides of fields that are
// not in Git (`ssa: Merge`), and must yield the other fields to Flux.
func TestFluxKeepsWhatIsNotInGitAndWinsWhatIs(t *testing.T) {
	t.Parallel()
	p := pool{name: "flux-spot", kind: "spot", weight: 80, nudge: allFields, by: serverSide} // no limit in Git
	p.create(t)
	flux := func(ctx context.Context) error {
		return suite.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(p.object()), client.FieldOwner("kustomize-controller"),
			client.ForceOwnership)
	}
	if err := flux(t.Context()); err != nil {
		t.Fatal(err)
	}
	g := start(t, "flux", map[string]string{"platform.yaml": nudgingGroup("flux-spot")})
	stack.Eventually(t, 40*time.Second, "the NodePool has overrides", weights(p, 33, "4", true))
	if err := flux(t.Context()); err != nil {
		t.Fatal(err)
	}
	stack.Always(t, 5*time.Second, "the weight is Git's, the limit gpuscaler's", weights(p, 80, "4", true))
	g.explained(t, "foreign edit: another field manager changed weight of NodePool flux-spot")
	g.write(t, "platform.yaml", controller.Platform("mode: auto\n"))
	stack.Eventually(t, 40*time.Second, "only the fields of Git are left", weights(p, 80, "absent", false))
}
