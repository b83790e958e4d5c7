package migrate

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/gpuscaler/gpuscaler/pkg/golden"
	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/store"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// load compiles a policy as the controller does.
func load(t *testing.T, text string) *policy.Compiled {
	t.Helper()
	s := store.New(store.Options{})
	if r := s.LoadFS(fstest.MapFS{"p.yaml": {Data: []byte(text)}}); policy.Errors(r.Problems) > 0 {
		t.Fatalf("%s\n%s", policy.Render(r.Problems), text)
	}
	return s.Compiled()[0]
}

func TestImport(t *testing.T) {
	for file, lost := range map[string]int{"embed-scaledobject.yaml": 2, "queue-hpa.yaml": 3} {
		u := read(t, file)
		plan, err := Import(u, Options{})
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(file, ".yaml") + ".import."
		golden.Compare(t, "testdata/"+name+"policy.yaml", plan.Policy)
		golden.Compare(t, "testdata/"+name+"replacement.yaml", plan.Replacement)
		golden.Compare(t, "testdata/"+name+"rollback.yaml", plan.Rollback)
		golden.Compare(t, "testdata/"+name+"lost.txt", strings.Join(plan.Lost, "\n")+"\n")
		if len(plan.Lost) != lost {
			t.Errorf("%s: lost %q", file, plan.Lost)
		}
		c := load(t, plan.Policy)
		if c.Workload.Mode != scaling.Advisory || c.Workload.Key != plan.Key() {
			t.Errorf("%s: mode %v, key %v", file, c.Workload.Mode, c.Workload.Key)
		}
	}
}

// The rollback must contain the original spec, and none of the fields that the API server sets.
func TestRollbackIsTheOriginal(t *testing.T) {
	u := read(t, "embed-scaledobject.yaml")
	plan, err := Import(u, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var back unstructured.Unstructured
	if err := yaml.Unmarshal([]byte(plan.Rollback), &back.Object); err != nil {
		t.Fatal(err)
	}
	want, _ := yaml.Marshal(u.Object["spec"])
	got, _ := yaml.Marshal(back.Object["spec"])
	if string(got) != string(want) {
		t.Errorf("the spec is\n%s\nwant\n%s", got, want)
	}
	m := back.Object["metadata"].(map[string]any)
	if m["uid"] != nil || m["resourceVersion"] != nil || back.Object["status"] != nil || back.GetAnnotations()["owner"] == "" {
		t.Errorf("metadata %v", m)
	}
}

func scaledObjectOf(triggers, rest string) string {
	return "apiVersion: keda.sh/v1alpha1\nkind: ScaledObject\nmetadata: {name: a, namespace: b}\nspec:\n  scaleTargetRef: {name: a}\n" +
		rest + "  triggers:\n" + triggers
}

const redisTrigger = "  - {type: redis, metadata: {address: 'r:6379', listName: jobs, listLength: '10'}}\n"

func TestOneCooldownDelaysScaleToZero(t *testing.T) {
	for rest, want := range map[string]struct{ policy, keda string }{
		"":                        {"5m", "cooldownPeriod: 60\n"},
		"  cooldownPeriod: 0\n":   {"0s", "cooldownPeriod: 0\n"},
		"  cooldownPeriod: 120\n": {"0s", "cooldownPeriod: 120\n"},
	} {
		plan, err := Import(parse(t, scaledObjectOf(redisTrigger, rest)), Options{})
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(plan.Policy, "cooldownPeriod: "+want.policy+"\n") || !strings.Contains(plan.Replacement, want.keda) {
			t.Errorf("%q: want %+v\n%s\n%s", rest, want, plan.Policy, plan.Replacement)
		}
	}
}

func TestTriggerWithoutNameGetsOne(t *testing.T) {
	plan, err := Import(parse(t, scaledObjectOf(redisTrigger, "")), Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := load(t, plan.Policy)
	if c.Sources[0].Trigger != "redis-0" || !strings.Contains(plan.Replacement, "name: redis-0") ||
		!strings.Contains(plan.Replacement, `listLength: "40"`) {
		t.Errorf("%+v\n%s", c.Sources[0], plan.Replacement)
	}
}

// The replacement is applied to the cluster, so it must also contain trigger fields that only a newer KEDA has. KEDA's Go type would drop
// these fields. This type would also refuse a number in the metadata. Users write such numbers in files.
func TestUnknownFieldsOfATriggerAreKept(t *testing.T) {
	plan, err := Import(parse(t, scaledObjectOf("  - {type: prometheus, name: a, newField: {deep: [1]}, metadata: {serverAddress: x, "+
		"query: up, threshold: 5, newKey: kept}}\n", "")), Options{})
	if err != nil {
		t.Fatal(err)
	}
	var back unstructured.Unstructured
	if err := yaml.Unmarshal([]byte(plan.Replacement), &back.Object); err != nil {
		t.Fatal(err)
	}
	triggers, _, err := unstructured.NestedSlice(back.Object, "spec", "triggers")
	if err != nil || len(triggers) != 2 {
		t.Fatalf("%v %v", triggers, err)
	}
	first := triggers[0].(map[string]any)
	deep, _, _ := unstructured.NestedSlice(first, "newField", "deep")
	key, _, _ := unstructured.NestedString(first, "metadata", "newKey")
	if len(deep) != 1 || key != "kept" || !strings.Contains(plan.Policy, "target: 5") {
		t.Errorf("newField %v, newKey %q in\n%s\n%s", deep, key, plan.Replacement, plan.Policy)
	}
}

func TestDefaultTargetOfKEDAIsTheSignalsTarget(t *testing.T) {
	plan, err := Import(parse(t, scaledObjectOf("  - {type: kafka, name: k, metadata: {topic: t}}\n", "")), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if c := load(t, plan.Policy); c.Workload.Policy.Signals[0].Target != 10 {
		t.Errorf("%+v", c.Workload.Policy.Signals[0])
	}
}

func TestFormulaOfKEDAIsReportedAndRemoved(t *testing.T) {
	plan := imported(t, scaledObjectOf(redisTrigger,
		"  idleReplicaCount: 0\n  advanced: {scalingModifiers: {formula: 'a + b', target: '2'}}\n"))
	if lost := strings.Join(plan.Lost, "\n"); !strings.Contains(lost, "a + b") || !strings.Contains(lost, "idleReplicaCount") {
		t.Errorf("lost %s", lost)
	}
	if strings.Contains(plan.Replacement, "scalingModifiers") || strings.Contains(plan.Replacement, "idleReplicaCount") {
		t.Errorf("not removed:\n%s", plan.Replacement)
	}
}

func TestImportErrors(t *testing.T) {
	managed := scaledObjectOf("  - {type: external-push, name: gpuscaler, metadata: {scalerAddress: x}}\n", "")
	const owned = ", ownerReferences: [{apiVersion: keda.sh/v1alpha1, kind: ScaledObject, name: so, uid: u}]"
	const ourMetric = "{type: External, external: {metric: {name: gpuscaler-desired-replicas}, target: {type: " +
		"AverageValue, averageValue: '1'}}}"
	cpu := "{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 60}}}"
	for name, c := range map[string]struct{ text, want string }{
		"a Deployment": {"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a, namespace: b}\n",
			"want a HorizontalPodAutoscaler or a ScaledObject"},
		"an old HPA": {"apiVersion: autoscaling/v1\nkind: HorizontalPodAutoscaler\nmetadata: {name: a, namespace: b}\n",
			"autoscaling/v2"},
		"an HPA of KEDA":         {hpaOf(owned, cpu), "import ScaledObject b/so"},
		"a managed HPA":          {hpaOf("", ourMetric), ErrManaged.Error()},
		"a managed ScaledObject": {managed, ErrManaged.Error()},
	} {
		if _, err := Import(parse(t, c.text), Options{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if _, err := Import(parse(t, managed), Options{}); !errors.Is(err, ErrManaged) {
		t.Error(err)
	}
}

// For every type of trigger in targetFields, targetOf must read the target and setTarget must set it.
func TestTargetFieldsOfTriggers(t *testing.T) {
	for kind, fields := range targetFields {
		for _, f := range fields {
			tr := map[string]any{"type": kind, "metadata": map[string]any{f.name: "7", activationField(f.name): "3"}}
			if name, v, known := targetOf(tr); name != f.name || v != 7 || !known || activationOf(tr) != 3 {
				t.Errorf("%s: %s %v %v", kind, name, v, known)
			}
			setTarget(tr, 28, 0)
			if m := tr["metadata"].(map[string]any); m[f.name] != "28" || len(m) != 1 {
				t.Errorf("%s: %v", kind, m)
			}
		}
	}
	if got := fold("one two three four", 9); !slices.Equal(got, []string{"one two", "three", "four"}) {
		t.Errorf("fold returns %q", got)
	}
}

// FuzzImport checks that Import either converts an object or returns an error, for any object.
func FuzzImport(f *testing.F) {
	f.Add(scaledObjectOf(redisTrigger, ""))
	const cron = "  - {type: cron, metadata: {start: '* * * * *', end: x, timezone: UTC, desiredReplicas: '1'}}\n"
	f.Add(scaledObjectOf(cron, "  fallback: {replicas: 1, failureThreshold: 2}\n"))
	f.Add("apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: a, namespace: b}\nspec: {maxReplicas: 3, metrics: " +
		"[{type: External}]}\n")
	f.Fuzz(func(t *testing.T, text string) {
		u := &unstructured.Unstructured{}
		if yaml.Unmarshal([]byte(text), &u.Object) != nil || u.Object == nil {
			return
		}
		plan, err := Import(u, Options{})
		if (plan == nil) == (err == nil) {
			t.Fatalf("plan %v, error %v", plan, err)
		}
	})
}
