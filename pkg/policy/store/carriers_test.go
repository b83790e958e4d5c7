package store_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/store"
)

// reporting is a PlatformConfig with policyStatus for the team chat and without policyStatus for the team batch.
const reporting = `teams: [{name: chat, namespaces: [team-chat], configMaps: true, policyStatus: true},
  {name: batch, namespaces: [team-batch], configMaps: true}]`

// carriers returns the statuses as text, or nil if they are not known.
func (a applied) carriers() []string {
	all, known := a.CarrierStatuses()
	if !known {
		return nil
	}
	out := []string{}
	for _, st := range all {
		text := fmt.Sprintf("%s %s %s", st.Kind, st.Name, st.State)
		if policy.Errors(st.Problems) > 0 {
			text += ", errors"
		}
		if len(st.InForce) > 0 {
			text += ", some in force"
		}
		if st.Workload != nil {
			text += fmt.Sprintf(", %d to %d", st.Workload.Policy.MinReplicas, st.Workload.Policy.MaxReplicas)
		}
		out = append(out, text)
	}
	return out
}

func (a applied) expectCarriers(why string, want ...string) {
	a.t.Helper()
	if got := a.carriers(); !slices.Equal(got, want) {
		a.t.Errorf("%s: %q, want %q", why, got, want)
	}
}

// A team applies a ConfigMap and annotates an HPA, with a mistake in each object. Then the platform team removes policyStatus from the
// PlatformConfig.
func TestCarrierStatusesOfATeam(t *testing.T) {
	a := newApplied(t, reporting)
	a.expectCarriers("no policies")
	a.applyAll("team-batch", "batch", map[string]string{"a.yaml": simple("a", 3)})
	spec := func(target string) store.Object {
		o := scaledObject(map[string]string{"gpuscaler.io/spec": "signals: [{name: q, type: vllm, target: " + target + "}]"})
		o.Kind, o.MinReplicas = "HorizontalPodAutoscaler", 1
		return o
	}
	a.SetObject(spec("3"))
	a.SetConfigMap(store.ConfigMap{Namespace: "team-chat", Name: "chat", Data: map[string]string{"a.yaml": simple("a", 3)}})
	if got := a.carriers(); got != nil {
		t.Errorf("before Publish: %q", got)
	}
	a.Publish()
	accepted := []string{"ConfigMap chat InForce, some in force", "HorizontalPodAutoscaler llama InForce, 1 to 10"}
	a.expectCarriers("both are accepted", accepted...)

	revision := a.StatusRevision()
	a.SetObject(spec("3"))
	a.Publish()
	if now := a.StatusRevision(); now != revision {
		t.Errorf("revision %d after %d, although nothing changed", now, revision)
	}
	setObject(a.Store, spec("ten"))
	a.apply("chat", simple("a", 0)+"---\n"+simple("b", 4))
	a.expectCarriers("both have an error", "ConfigMap chat Refused, errors, some in force",
		"HorizontalPodAutoscaler llama LastValid, errors, 1 to 10")
	if now := a.StatusRevision(); now <= revision {
		t.Errorf("revision %d after %d, although both changed", now, revision)
	}

	revision = a.StatusRevision()
	a.write("platform.yaml", "kind: PlatformConfig\nspec: [")
	a.load()
	a.expectCarriers("the last valid PlatformConfig stays in force", a.carriers()...)
	a.write("platform.yaml", platform(allowing))
	a.load()
	a.expectCarriers("policyStatus is no longer set")
	if now := a.StatusRevision(); now <= revision {
		t.Errorf("revision %d after %d, although policyStatus ended", now, revision)
	}
}

func TestCarrierStatusesAreUnknownWithoutAReadablePlatformConfig(t *testing.T) {
	f := newFolder(t)
	f.write("platform.yaml", "kind: PlatformConfig\nspec: [")
	a := applied{t, f, store.New(store.Options{})}
	if got := a.carriers(); got != nil {
		t.Errorf("before the first load: %q", got)
	}
	a.load()
	a.applyAll("team-chat", "chat", map[string]string{"a.yaml": simple("a", 3)})
	if got := a.carriers(); got != nil {
		t.Errorf("the PlatformConfig cannot be read: %q", got)
	}
}
