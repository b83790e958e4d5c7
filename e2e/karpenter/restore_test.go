package karpenter_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscaler/gpuscaler/e2e/controller"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
)

// `gpuscaler restore` must restore the overrides of a schedule, both while a controller runs and while no controller runs. This test uses
// the gpuscaler binary and real time.
func TestRestoreWithARunningControllerAndWithoutOne(t *testing.T) {
	pools := []pool{
		{name: "restore-spot", kind: "spot", weight: 80, nudge: allFields, by: updated, limit: int64(16)},
		{name: "restore-od", kind: "on-demand", weight: 20, nudge: allFields, by: serverSide},
		{name: "restore-theirs", kind: "reserved", weight: 5, nudge: "limits", by: clientSide},
	}
	contents, hashes := map[string]string{}, map[string]string{}
	for _, p := range pools {
		p.create(t)
	}
	for _, p := range pools {
		contents[p.name], hashes[p.name] = p.content(t), p.hash(t.Context())
	}
	if err := suite.Nodes(t.Context(), "static", 1, 0); err != nil {
		t.Fatal(err)
	}
	c, err := controller.Up(t.Context(), suite.Stack, controller.Options{Values: release.Values})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = suite.Client.Delete(context.Background(), c.Deployment()) })
	groups := controller.Platform(`capacityGroups:
- name: gpu
  resource: nvidia.com/gpu
  nodePools: {spot: restore-spot, on-demand: restore-od, reserved: restore-theirs}
  schedules:
  - {name: always, timezone: UTC, from: "2020-01-01", until: "2099-12-31", weight: 33, limits: {nvidia.com/gpu: 4}, disruption: ` +
		`{consolidateAfter: Never}}
`)
	put := func(platform string) {
		t.Helper()
		if err := c.Policies.Put("platform", platform); err != nil {
			t.Fatal(err)
		}
	}
	put(groups)
	overridden := func(ctx context.Context) error {
		for _, p := range pools {
			u := p.get(ctx)
			if h := p.hash(ctx); h == "" || h != hashes[p.name] {
				return fmt.Errorf("%s drifted: %s -> %s", p.name, hashes[p.name], h)
			}
			weight, _, _ := unstructured.NestedInt64(u.Object, "spec", "weight")
			after, _, _ := unstructured.NestedString(u.Object, "spec", "disruption", "consolidateAfter")
			if want := p.weight; p.name == "restore-theirs" {
				if weight != want || after != "1s" || p.limitNow(ctx) != "4" {
					return fmt.Errorf("%s allows only its limits, and has weight %d, consolidateAfter %s, limit %s", p.name, weight, after,
						p.limitNow(ctx))
				}
				continue
			}
			if weight != 33 || after != "Never" || p.limitNow(ctx) != "4" {
				return fmt.Errorf("%s: weight %d, consolidateAfter %s, limit %s", p.name, weight, after, p.limitNow(ctx))
			}
		}
		return nil
	}
	stack.Eventually(t, time.Minute, "the schedule overrides only the allowed fields", overridden)
	restored := func(context.Context) error {
		for _, p := range pools {
			if content := p.content(t); content != contents[p.name] {
				return fmt.Errorf("%s differs:\n%s\nbefore:\n%s", p.name, content, contents[p.name])
			}
		}
		return nil
	}

	put(controller.Platform("mode: auto\n"))
	stack.Eventually(t, 30*time.Second, "without groups the NodePools are restored", restored)
	put(groups)
	stack.Eventually(t, 30*time.Second, "with groups the overrides are set again", overridden)

	// A user edits an overridden field. The user's value must remain, also after the restore.
	edit := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"weight":50}}`))
	if err := suite.Client.Patch(t.Context(), pools[0].object(), edit, client.FieldOwner("kubectl-edit")); err != nil {
		t.Fatal(err)
	}
	stack.Eventually(t, 20*time.Second, "an Event on the NodePool reports the edit", func(ctx context.Context) error {
		return event(ctx, "restore-spot", "OverrideYielded")
	})
	if weight, _, _ := unstructured.NestedInt64(pools[0].get(t.Context()).Object, "spec", "weight"); weight != 50 {
		t.Errorf("the edit was reverted: weight %d", weight)
	}
	contents["restore-spot"] = strings.Replace(contents["restore-spot"], `"weight":80`, `"weight":50`, 1)

	var seen atomic.Bool
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		for ctx.Err() == nil {
			if restored(ctx) == nil {
				seen.Store(true)
			}
			time.Sleep(50 * time.Millisecond)
		}
	}()
	restore(t, c.Binary, 3)
	err = restored(t.Context())
	stop()
	if err != nil && !seen.Load() {
		t.Errorf("with a running controller the NodePools were never restored: %v", err)
	}
	stack.Eventually(t, 40*time.Second, "the controller leads again and overrides the fields", func(ctx context.Context) error {
		if limit := pools[1].limitNow(ctx); limit != "4" {
			return errors.New("limit " + limit)
		}
		return nil
	})

	if err := suite.Client.Delete(t.Context(), c.Deployment()); err != nil {
		t.Fatal(err)
	}
	stack.Eventually(t, 40*time.Second, "the controller ends and removes its limits", func(ctx context.Context) error {
		pods, err := c.Pods(ctx)
		if err != nil || len(pods) > 0 {
			return fmt.Errorf("%d pods: %w", len(pods), err)
		}
		for _, p := range pools {
			if limit := p.limitNow(ctx); limit == "4" {
				return errors.New("a limit of gpuscaler is left on " + p.name)
			}
		}
		return nil
	})
	restore(t, c.Binary, 2)
	if err := restored(t.Context()); err != nil {
		t.Error(err)
	}
	restore(t, c.Binary, 0) // nothing is left to restore for the second run
}

// restore runs `gpuscaler restore` with gpuscaler's account and requires that it restores at least the given number of NodePools.
func restore(t *testing.T, binary string, least int) {
	t.Helper()
	out, err := restoreAs(t, binary, suite.account)
	if err != nil {
		t.Fatalf("restore: %v\n%s", err, out)
	}
	var said struct {
		Restored []struct{ Object, Error string }
		Failed   int
	}
	if err := json.Unmarshal(out, &said); err != nil {
		t.Fatal(err)
	}
	if len(said.Restored) < least || said.Failed > 0 || least == 0 && len(said.Restored) > 0 {
		t.Errorf("restore printed %s", out)
	}
}

// restoreAs runs `gpuscaler restore` with an account and returns its output.
func restoreAs(t *testing.T, binary, account string) ([]byte, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary, "restore", "--kubeconfig="+account, "--namespace="+controller.Namespace, "-o", "json")
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("%w: %s", err, exit.Stderr)
	}
	return out, err
}

// event returns an error unless the NodePool has an Event with the given reason.
func event(ctx context.Context, pool, reason string) error {
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion("events.k8s.io/v1")
	list.SetKind("EventList")
	if err := suite.Client.List(ctx, list, client.InNamespace("default")); err != nil {
		return err
	}
	for _, e := range list.Items {
		name, _, _ := unstructured.NestedString(e.Object, "regarding", "name")
		got, _, _ := unstructured.NestedString(e.Object, "reason")
		if name == pool && got == reason {
			return nil
		}
	}
	return fmt.Errorf("no Event %s about NodePool %s", reason, pool)
}
