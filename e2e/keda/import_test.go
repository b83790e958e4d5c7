package keda

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscaler/gpuscaler/e2e/stack"
	"github.com/gpuscaler/gpuscaler/e2e/workload"
	"github.com/gpuscaler/gpuscaler/pkg/dashboard/explain"
	"github.com/gpuscaler/gpuscaler/pkg/migrate"
)

// The number of replicas must not change during the migration with `gpuscaler import`, the switch to gpuscaler, and the rollback.
func TestImportSwitchAndRollbackChangeNoReplicas(t *testing.T) {
	t.Parallel()
	s := place(t, "import", 1)
	apply(t, s.kedasOwn(10, `  advanced: {horizontalPodAutoscalerConfig: {behavior: {scaleDown: {stabilizationWindowSeconds: 5}}}}`))
	s.backlog(t, 37)
	stack.Eventually(t, time.Minute, "KEDA alone: four replicas for 37 jobs", s.has(4))
	settled := time.Now()

	text, err := suite.CLI(t.Context(), "import", s.ns+"/"+name, "-o", "json", "--kubeconfig", suite.Stack.Kubeconfig,
		"--scaler-address", scaler.Address, "--authentication", "gpuscaler")
	if err != nil {
		t.Fatal(err)
	}
	var plans []migrate.Plan
	if err := json.Unmarshal([]byte(text), &plans); err != nil || len(plans) != 1 || len(plans[0].Lost) > 0 {
		t.Fatalf("%v\n%s", err, text)
	}
	plan := plans[0]
	put := func(policy string) {
		if err := suite.Policies.Put(s.ns, policy); err != nil {
			t.Fatal(err)
		}
	}
	put(plan.Policy)
	t.Cleanup(func() { _ = suite.Policies.Remove(s.ns) })
	stack.Eventually(t, time.Minute, "the advisory policy has a target", s.explained(func(e explain.Explanation) error {
		if e.Mode != "advisory" || e.Target != 4 || e.Current != 4 || e.Degraded || !strings.Contains(e.Served, "advisory") {
			return fmt.Errorf("%+v", e)
		}
		return nil
	}))

	put(strings.Replace(plan.Policy, "  mode: advisory\n", "", 1))
	stack.Eventually(t, time.Minute, "served", s.explained(func(e explain.Explanation) error {
		if e.Served != "served" || e.Target != 4 {
			return fmt.Errorf("%s, %d", e.Served, e.Target)
		}
		return nil
	}))
	s.replace(t, plan.Replacement)
	stack.Eventually(t, time.Minute, "KEDA reads gpuscaler's target", s.explained(func(e explain.Explanation) error {
		if e.ScaledBy == nil || !e.ScaledBy.Exact || e.Target != 4 || e.Degraded {
			return fmt.Errorf("%d, degraded %t, scaled by %+v", e.Target, e.Degraded, e.ScaledBy)
		}
		return nil
	}))
	stack.Always(t, 6*time.Second, "four replicas", s.spec(4))
	if moved := s.course(t).Since(settled); len(moved) > 1 {
		t.Errorf("the switch changed the replicas: %v", moved)
	}
	s.backlog(t, 61)
	stack.Eventually(t, time.Minute, "it follows", s.has(7))

	settled = time.Now()
	s.replace(t, plan.Rollback)
	put(plan.Policy)
	stack.Eventually(t, time.Minute, "the old metric is read again", s.explained(func(e explain.Explanation) error {
		if e.ScaledBy != nil {
			return fmt.Errorf("scaled by %+v", e.ScaledBy)
		}
		return nil
	}))
	stack.Always(t, 8*time.Second, "seven replicas", s.spec(7))
	if moved := s.course(t).Since(settled); len(moved) > 1 {
		t.Errorf("the rollback changed the replicas: %v", moved)
	}
}

// replace does what `kubectl replace -f` does.
func (s *scaledWorkload) replace(t *testing.T, text string) {
	t.Helper()
	objects, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	stack.Eventually(t, time.Minute, "replaced", func(ctx context.Context) error { // retried, because KEDA may write the object concurrently
		objects[0].SetResourceVersion(s.scaledObject(t).GetResourceVersion())
		return suite.Stack.Client.Update(ctx, objects[0])
	})
}

// `import --all` reads a whole cluster: every ScaledObject and every HPA that KEDA did not create, each with a policy and valid manifests.
func TestImportAllOfACluster(t *testing.T) {
	t.Parallel()
	s := place(t, "import-all", 1)
	apply(t, s.kedasOwn(10, ""))
	bare := workload.Deployment(s.ns, "bare", 1)
	hpa := workload.HPA(s.ns, "bare", 5)
	hpa.Spec.Metrics[0].External.Metric.Name = "orders_waiting" // an adapter other than gpuscaler serves this metric
	workload.Create(t, suite.Stack.Client, bare, hpa)
	stack.Eventually(t, time.Minute, "KEDA has created its HPA", func(ctx context.Context) error {
		return suite.Stack.Client.Get(ctx, client.ObjectKey{Namespace: s.ns, Name: "keda-hpa-" + name}, &autoscalingv2.HorizontalPodAutoscaler{})
	})
	all := func(flags ...string) (plans []migrate.Plan) {
		text, err := suite.CLI(t.Context(), append([]string{"import", "--all", "-o", "json", "--kubeconfig", suite.Stack.Kubeconfig,
			"--scaler-address", scaler.Address}, flags...)...)
		if err != nil {
			t.Fatal(err)
		}
		// the text that follows the JSON lists the objects that already read a target of gpuscaler
		if err := json.NewDecoder(strings.NewReader(text)).Decode(&plans); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		return plans
	}
	sources := func(plans []migrate.Plan) (found []string) {
		for _, p := range plans {
			if strings.Contains(p.Source, s.ns+"/") {
				found = append(found, p.Source)
			}
			if strings.Contains(p.Source, "keda-hpa-") {
				t.Errorf("%s was created by KEDA", p.Source)
			}
		}
		slices.Sort(found)
		return found
	}
	want := []string{"HorizontalPodAutoscaler " + s.ns + "/bare", "ScaledObject " + s.ns + "/" + name}
	if got := sources(all()); !slices.Equal(got, want) {
		t.Errorf("in the cluster: %q, want %q", got, want)
	}
	folder := t.TempDir()
	plans := all("-n", s.ns, "--dir", folder)
	if got := sources(plans); !slices.Equal(got, want) || len(plans) != len(want) {
		t.Errorf("in the namespace: %q, want %q", got, want)
	}
	for _, p := range plans {
		of := p.Source[strings.LastIndexByte(p.Source, '/')+1:]
		for part, text := range map[string]string{"policy": p.Policy, "replacement": p.Replacement, "rollback": p.Rollback} {
			file := filepath.Join(folder, s.ns, of+"."+part+".yaml")
			if written, err := os.ReadFile(file); err != nil || string(written) != text {
				t.Errorf("%s: %v, %d bytes of %d", file, err, len(written), len(text))
			}
		}
		if err := Apply(t.Context(), suite.Stack.Client, p.Replacement, client.DryRunAll); err != nil {
			t.Errorf("%s: the API server rejects the replacement: %v\n%s", p.Source, err, p.Replacement)
		}
	}
	if out, err := suite.CLI(t.Context(), "validate", filepath.Join(folder, s.ns, name+".policy.yaml"),
		filepath.Join(suite.Policies.Dir, "platform.yaml")); err != nil {
		t.Errorf("its policy: %v\n%s", err, out)
	}
}

// The API server and KEDA's webhooks must accept each printed manifest.
func TestPrintedManifestsAreAccepted(t *testing.T) {
	t.Parallel()
	examples, err := filepath.Glob("../../config/examples/*.yaml")
	if err != nil || len(examples) < 4 {
		t.Fatalf("%q, %v", examples, err)
	}
	for _, ns := range []string{"team-chat", "team-embed", "team-office"} {
		suite.Namespace(t, ns)
	}
	so := write(t, "so.yaml", strings.Replace((&scaledWorkload{ns: "team-embed"}).kedasOwn(10, ""), "name: list", "name: sqs", 1))
	for _, file := range examples {
		if filepath.Base(file) == "platform.yaml" {
			continue
		}
		for _, flags := range [][]string{{"hpa"}, {"scaledobject", "--from", so},
			{"scaledobject", "--from", so, "--mirror=false", "--authentication", "gpuscaler"}} {
			if filepath.Base(file) == "formula.yaml" && flags[0] == "scaledobject" {
				continue // skipped: KEDA's webhook reads the kind of the target, and LeaderWorkerSet is not installed
			}
			args := append([]string{"manifests", flags[0], file, "--config", "../../config/examples/platform.yaml"}, flags[1:]...)
			text, err := suite.CLI(t.Context(), args...)
			if err != nil {
				t.Errorf("%v: %v", flags, err)
				continue
			}
			if err := Apply(t.Context(), suite.Stack.Client, text, client.DryRunAll); err != nil {
				t.Errorf("%s %s: %v\n%s", filepath.Base(file), flags[0], err, text)
			}
		}
	}
}
