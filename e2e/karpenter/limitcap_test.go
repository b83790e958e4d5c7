package karpenter_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/gpuscaler/gpuscaler/e2e/controller"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
)

// An override must not cause drift, and a limit of 0 must not evict a pod. While the limit is 0, a user changes the template: Karpenter
// must report drift, and must replace the nodes only after the limit is removed.
func TestOverridesCauseNoDriftAndLimitsEvictNoPods(t *testing.T) {
	t.Parallel()
	spot := pool{name: "cap-spot", kind: "spot", weight: 80, nudge: allFields, by: updated, limit: int64(16), edit: atOnce}
	demand := pool{name: "cap-od", kind: "on-demand", weight: 20, nudge: allFields, by: clientSide}
	pools, contents, hashes := []pool{spot, demand}, map[string]string{}, map[string]string{}
	for _, p := range pools {
		p.create(t)
	}
	chat(t, "cap", map[string]string{"pool": spot.name})
	for _, p := range pools {
		contents[p.name], hashes[p.name] = p.content(t), p.hash(t.Context())
	}
	group := func(window string) string {
		if window != "" {
			window = ", schedules: [{name: always, timezone: UTC, from: \"2020-01-01\", until: \"2099-12-31\", " + window + "}]"
		}
		return controller.Platform("capacityGroups:\n- {name: gpu, resource: nvidia.com/gpu, nodePools: {spot: cap-spot, on-demand: " +
			"cap-od}" + window + "}\n")
	}
	g := start(t, "cap", map[string]string{"platform.yaml": group(""), "chat.yaml": chatPolicy("cap")})
	g.load(t, map[string]float64{"cap/chat": 1})
	g.group(t, time.Minute, "one spot node", on(1, 0))
	lonelyJob(t, "cap", map[string]string{"pool": demand.name})
	g.group(t, time.Minute, "one on-demand node", on(1, 1))
	claims := watchClaims(t, "cap")

	began := time.Now()
	for _, override := range []struct {
		window string
		path   []string
		want   string
	}{
		{"weight: 33", []string{"weight"}, "33"},
		{"limits: {nvidia.com/gpu: 7}", []string{"limits", "nvidia.com/gpu"}, "7"},
		{"disruption: {consolidateAfter: Never}", []string{"disruption", "consolidateAfter"}, "Never"},
		{"disruption: {consolidationPolicy: WhenEmptyOrUnderutilized}", []string{"disruption", "consolidationPolicy"},
			"WhenEmptyOrUnderutilized"},
	} {
		g.write(t, "platform.yaml", group(override.window))
		stack.Eventually(t, 20*time.Second, override.window, both(pools, override.want, override.path...))
	}
	g.write(t, "platform.yaml", group(""))
	opened := g.config.now().UTC().Truncate(time.Minute)
	g.write(t, "chat.yaml", chatPolicy("cap")+fmt.Sprintf("  schedules:\n  - {name: peak, timezone: UTC, from: %q, until: %q, "+
		"minReplicas: 1}\n",
		opened.Format("2006-01-02T15:04"), opened.Add(24*time.Hour).Format("2006-01-02T15:04")))
	stack.Eventually(t, 20*time.Second, "budgets that freeze consolidation", func(ctx context.Context) error {
		for _, p := range pools {
			if budgets, _, _ := unstructured.NestedSlice(p.get(ctx).Object, "spec", "disruption", "budgets"); !strings.Contains(fmt.Sprint(budgets),
				"schedule") {
				return fmt.Errorf("%s: budgets %v", p.name, budgets)
			}
		}
		return nil
	})
	stack.Always(t, max(30*time.Second-time.Since(began), 5*time.Second), "no hash changes", func(ctx context.Context) error {
		for _, p := range pools {
			if h := p.hash(ctx); h != hashes[p.name] {
				return fmt.Errorf("%s: %s -> %s", p.name, hashes[p.name], h)
			}
		}
		return nil
	})
	if drifted := claims.drifted(); len(drifted) > 0 {
		t.Errorf("an override caused drift: %v", drifted)
	}
	g.write(t, "chat.yaml", chatPolicy("cap"))
	stack.Eventually(t, time.Minute, "the NodePools are restored", func(context.Context) error {
		for _, p := range pools {
			if content := p.content(t); content != contents[p.name] {
				return fmt.Errorf("%s by %s differs:\n%s\nbefore:\n%s", p.name, p.by, content, contents[p.name])
			}
		}
		return nil
	})
	limited(t, g, pools, claims, group)
}

// limited is the second half of TestOverridesCauseNoDriftAndLimitsEvictNoPods. It sets a limit of 0 and checks which actions of Karpenter
// this prevents.
func limited(t *testing.T, g *fastProcess, pools []pool, claims *claimWatch, group func(string) string) {
	t.Helper()
	spot, demand := pools[0], pools[1]
	run := claims.alive()
	g.write(t, "platform.yaml", group("limits: {nvidia.com/gpu: 0}"))
	stack.Eventually(t, 20*time.Second, "the limits are 0", both(pools, "0", "limits", "nvidia.com/gpu"))
	g.load(t, map[string]float64{"cap/chat": 2})
	stack.Eventually(t, 30*time.Second, "Karpenter reports why the second pod is pending", func(ctx context.Context) error {
		var events corev1.EventList
		if err := suite.Client.List(ctx, &events, client.InNamespace("cap")); err != nil {
			return err
		}
		for _, e := range events.Items {
			if e.Reason == "FailedScheduling" && strings.Contains(e.Message, "exceed limits") {
				return nil
			}
		}
		return errors.New("no such message")
	})

	// A user changes the templates of both NodePools. Without the limit Karpenter would replace their drifted nodes.
	touch(t, demand, `{"spec":{"template":{"metadata":{"labels":{"touched":"yes"}}}}}`)
	touch(t, spot, `{"spec":{"template":{"spec":{"requirements":[{"key":"karpenter.sh/capacity-type","operator":"In",`+
		`"values":["on-demand"]},{"key":"node.kubernetes.io/instance-type","operator":"In","values":["`+spot.instance()+`"]}]}}}}`)
	stack.Eventually(t, 30*time.Second, "both drift", func(context.Context) error {
		if reasons := fmt.Sprint(claims.drifted()); !strings.Contains(reasons, "NodePoolDrifted") || !strings.Contains(reasons,
			"RequirementsDrifted") {
			return errors.New(reasons)
		}
		return nil
	})
	stack.Always(t, 20*time.Second, "no node is launched or replaced with the limit", func(context.Context) error {
		if now := claims.alive(); !maps.Equal(now, run) {
			return fmt.Errorf("%v, of %v: %v", now, run, claims.ended())
		}
		if s, err := g.status(); err != nil || s.Groups["gpu"].Pending != 1 {
			return fmt.Errorf("%d pending: %w", s.Groups["gpu"].Pending, err)
		}
		return nil
	})

	g.write(t, "platform.yaml", group(""))
	stack.Eventually(t, 20*time.Second, "the limits are restored", func(ctx context.Context) error {
		if a, b := spot.limitNow(ctx), demand.limitNow(ctx); a != "16" || b != "absent" {
			return fmt.Errorf("%s and %s", a, b)
		}
		return nil
	})
	lifted := time.Now()
	stack.Eventually(t, 20*time.Second, "the pending pod has a NodeClaim", func(context.Context) error {
		if len(claims.alive()) <= len(run) {
			return errors.New("no NodeClaim")
		}
		return nil
	})
	t.Logf("a NodeClaim %s after the limit was removed", time.Since(lifted).Round(100*time.Millisecond))
	stack.Eventually(t, 5*time.Minute, "drifted nodes are replaced", func(ctx context.Context) error {
		if ended := claims.ended(); !slices.Contains(slices.Collect(maps.Values(ended)), "Drifted") {
			return fmt.Errorf("ended: %v; Karpenter: %q", ended, reported(ctx, "cap-"))
		}
		return nil
	})
	g.group(t, 10*time.Second, "the phase does not change", phase("prefer spot"))
	g.load(t, map[string]float64{"cap/chat": 0})
	stack.Eventually(t, time.Minute, "Karpenter removes empty nodes", func(context.Context) error {
		if ended := claims.ended(); !slices.Contains(slices.Collect(maps.Values(ended)), "Empty") {
			return fmt.Errorf("ended: %v", ended)
		}
		return nil
	})
}

// reported returns the Events in the namespace default about objects whose names begin with the prefix, as sorted lines without
// duplicates.
func reported(ctx context.Context, prefix string) (said []string) {
	var events corev1.EventList
	if err := suite.Client.List(ctx, &events, client.InNamespace("default")); err != nil {
		return []string{err.Error()}
	}
	for _, e := range events.Items {
		if strings.HasPrefix(e.InvolvedObject.Name, prefix) {
			said = append(said, e.Reason+": "+e.Message)
		}
	}
	slices.Sort(said)
	return slices.Compact(said)
}

// both returns a check that a field of the spec has the value want in every given NodePool.
func both(pools []pool, want string, path ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		for _, p := range pools {
			if have, _, _ := unstructured.NestedFieldNoCopy(p.get(ctx).Object, append([]string{"spec"}, path...)...); fmt.Sprint(have) != want {
				return fmt.Errorf("%s has %v", p.name, have)
			}
		}
		return nil
	}
}

// touch edits a NodePool in the way in which a user edits it.
func touch(t *testing.T, p pool, patch string) {
	t.Helper()
	if err := suite.Client.Patch(t.Context(), p.object(), client.RawPatch(types.MergePatchType, []byte(patch)),
		client.FieldOwner("kubectl-edit")); err != nil {
		t.Fatal(err)
	}
}

// claimWatch records the NodeClaims of a test and the reasons why they were deleted.
type claimWatch struct {
	mu    sync.Mutex
	live  map[string]bool
	drift map[string]string // reason why a NodeClaim drifted, by name
	end   map[string]string // reason why Karpenter terminated a NodeClaim, by name
}

func watchClaims(t *testing.T, of string) *claimWatch {
	t.Helper()
	w := &claimWatch{drift: map[string]string{}, end: map[string]string{}}
	look := func(ctx context.Context) error {
		var claims v1.NodeClaimList
		if err := suite.Client.List(ctx, &claims, client.MatchingLabels{"suite": of}); err != nil {
			return err
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.live = map[string]bool{}
		for _, c := range claims.Items {
			w.live[c.Name] = true
			if drifted := c.StatusConditions().Get(v1.ConditionTypeDrifted); drifted != nil && drifted.IsTrue() {
				w.drift[c.Name] = drifted.Reason
			}
			if ends := c.StatusConditions().Get(v1.ConditionTypeDisruptionReason); ends != nil && ends.IsTrue() {
				w.end[c.Name] = ends.Reason
			}
		}
		return nil
	}
	if err := look(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	go func() {
		for ctx.Err() == nil {
			_ = look(ctx) // start the watch again at once
			time.Sleep(100 * time.Millisecond)
		}
	}()
	return w
}

func (w *claimWatch) drifted() map[string]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.drift)
}

func (w *claimWatch) ended() map[string]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.end)
}

func (w *claimWatch) alive() map[string]bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.live)
}
