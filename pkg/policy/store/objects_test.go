package store_test

import (
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/store"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

const objectsPlatform = `dataSources: [{name: prom, type: prometheus, address: "http://prom"}, {name: r, type: redis, address: "r:6379"}],
  queries: [{name: gateway-queue, query: q, workloadLabel: pool}],
  teams: [{name: chat, namespaces: [team-chat], capacityGroups: [chat], bounds: {maxReplicas: 24}}],
  capacityGroups: [{name: chat, resource: nvidia.com/gpu, nodePools: {spot: s}}]`

// setObject sets an object and publishes the change, as the control loop does before a tick.
func setObject(s *store.Store, o store.Object) []policy.Problem {
	problems := s.SetObject(o)
	s.Publish()
	return problems
}

func deleteObject(s *store.Store, kind, namespace, name string) {
	s.DeleteObject(kind, namespace, name)
	s.Publish()
}

func scaledObject(values map[string]string) store.Object {
	return store.Object{
		Kind: "ScaledObject", Namespace: "team-chat", Name: "llama",
		Target:      scaling.Target{APIVersion: "apps/v1", Kind: "Deployment", Name: "llama"},
		Annotations: values, MinReplicas: 0, MaxReplicas: 10, Triggers: []string{"sqs"},
	}
}

func storeWith(t *testing.T, files ...string) (*store.Store, folder) {
	t.Helper()
	f := newFolder(t)
	f.write("platform.yaml", platform(objectsPlatform))
	for i, text := range files {
		f.write(string(rune('a'+i))+".yaml", text)
	}
	policies := store.New(store.Options{})
	if report := policies.Load(f.path); policy.Errors(report.Problems) > 0 {
		t.Fatalf("%s", policy.Render(report.Problems))
	}
	return policies, f
}

var pageAnnotations = map[string]string{
	"gpuscaler.io/capacity-group":          "chat",
	"gpuscaler.io/gpu-utilization-target":  "70",
	"gpuscaler.io/queue-source":            "gateway-queue",
	"gpuscaler.io/queue-depth-per-replica": "10",
	"gpuscaler.io/schedule": `office Europe/Berlin "0 8 * * 1-5" "0 20 * * 1-5" min=2
night Europe/Berlin "0 23 * * *" "0 6 * * *" max=0
`,
	"keda.sh/managed-by": "team",
}

func TestTheShortAnnotationsMakeAPolicy(t *testing.T) {
	policies, _ := storeWith(t)
	if problems := setObject(policies, scaledObject(pageAnnotations)); len(problems) > 0 {
		t.Fatalf("%s", policy.Render(problems))
	}
	c := policies.Find(key("llama"))
	if c == nil {
		t.Fatal("not in force")
	}
	p := c.Workload.Policy
	if p.MinReplicas != 0 || p.MaxReplicas != 10 || c.Workload.Group != "chat" || c.Workload.Origin != "ScaledObject llama" ||
		len(p.Schedules) != 2 || p.Schedules[0].Min != 2 || p.Schedules[1].Max != 0 {
		t.Errorf("workload %+v policy %+v", c.Workload, p)
	}
	if len(p.Signals) != 2 || p.Signals[0].Target != 0.7 || p.Signals[1].Target != 10 || c.Sources[1].QueryName != "gateway-queue" {
		t.Errorf("signals %+v from %+v", p.Signals, c.Sources)
	}
}

func TestTheSpecAnnotationIsTheSpecOfAFile(t *testing.T) {
	written := `
signals: [{name: backlog, type: keda, trigger: sqs, target: 200}]
behavior: {scaleDown: {stabilizationWindowSeconds: 30}}
`
	policies, _ := storeWith(t, head+"ScalingPolicy\nmetadata: {name: file, namespace: team-chat}\nspec:\n  scaleTargetRef: {name: "+
		"file}\n  minReplicas: 0\n  maxReplicas: 10\n"+strings.ReplaceAll(written, "\n", "\n  "))
	if problems := setObject(policies, scaledObject(map[string]string{"gpuscaler.io/spec": written})); len(problems) > 0 {
		t.Fatalf("%s", policy.Render(problems))
	}
	file, object := policies.Find(key("file")), policies.Find(key("llama"))
	if file == nil || object == nil {
		t.Fatal("one of the two policies is not in force")
	}
	if a, b := file.Workload.Policy.Signals[0], object.Workload.Policy.Signals[0]; a != b || file.Sources[0] != object.Sources[0] {
		t.Errorf("the file compiles to %+v, the annotation to %+v", a, b)
	}
	if a, b := file.Workload.Policy.ScaleDown.StabilizationWindow, object.Workload.Policy.ScaleDown.StabilizationWindow; a != b ||
		a != 30*time.Second {
		t.Errorf("windows %s and %s", a, b)
	}
}

func TestPrecedenceOfMetadataAnnotationsFileAndDefaults(t *testing.T) {
	base := head + `ScalingPolicy
metadata: {name: base, namespace: team-chat}
spec:
  scaleTargetRef: {name: llama}
  minReplicas: 1
  maxReplicas: 5
  cooldownPeriod: 7m
  signals: [{name: gpu, type: dcgm, target: 60%}, {name: queue, type: prometheus, queryRef: gateway-queue, target: 5}]
`
	policies, _ := storeWith(t, base)
	object := scaledObject(map[string]string{"gpuscaler.io/policy": "base", "gpuscaler.io/queue-depth-per-replica": "8",
		"gpuscaler.io/gpu-utilization-target": "65%"})
	object.Metadata = map[string]string{"scalerAddress": "dns:///x:1", "gpuUtilizationTarget": "75"}
	if problems := setObject(policies, object); len(problems) > 0 {
		t.Fatalf("%s", policy.Render(problems))
	}
	all := policies.Current()
	if len(all) != 1 || all[0].Key.Name != "base" {
		t.Fatalf("in force: %+v", all)
	}
	p := all[0].Policy
	if p.Signals[0].Target != 0.75 || p.Signals[1].Target != 8 || p.CooldownPeriod != 7*time.Minute || p.MaxReplicas != 10 ||
		p.MinReplicas != 0 {
		t.Errorf("policy %+v", p)
	}
	if p.ScaleUp.Tolerance != 0.1 {
		t.Errorf("default tolerance %v", p.ScaleUp.Tolerance)
	}
	if !strings.HasPrefix(all[0].Origin, "ScaledObject llama over a.yaml@") {
		t.Errorf("origin %s", all[0].Origin)
	}
	deleteObject(policies, "ScaledObject", "team-chat", "llama")
	if p := policies.Find(key("base")).Workload.Policy; p.Signals[0].Target != 0.6 || p.MaxReplicas != 5 {
		t.Errorf("after the object was deleted: %+v", p)
	}
}

func TestAnEditOfAFileAppliesToThePolicyThatExtendsIt(t *testing.T) {
	policies, f := storeWith(t, simple("llama", 5))
	if problems := setObject(policies, scaledObject(map[string]string{"gpuscaler.io/mode": "advisory",
		"gpuscaler.io/gpu-utilization-target": "70"})); policy.Errors(problems) != 1 {
		t.Fatalf("want the problem that nothing scales it up from zero, got\n%s", policy.Render(problems))
	}
	object := scaledObject(map[string]string{"gpuscaler.io/mode": "advisory", "gpuscaler.io/gpu-utilization-target": "70"})
	object.MinReplicas = 1
	if problems := setObject(policies, object); len(problems) > 0 {
		t.Fatalf("%s", policy.Render(problems))
	}
	if c := policies.Find(key("llama")); len(c.Sources) != 2 || c.Workload.Mode != scaling.Advisory ||
		c.Workload.Policy.Signals[0].Target != 10 {
		t.Errorf("workload %+v", c.Workload)
	}
	f.write("a.yaml", strings.Replace(simple("llama", 5), "target: 10", "target: 20", 1))
	policies.Load(f.path)
	if c := policies.Find(key("llama")); c.Workload.Policy.Signals[0].Target != 20 || len(c.Sources) != 2 {
		t.Errorf("after the edit: %+v", c.Workload.Policy.Signals)
	}
}

// Each case sets an annotation to a valid value, then to an invalid value, and then removes it. The invalid value must cause a problem.
func TestEachAnnotationValidInvalidAndRemoved(t *testing.T) {
	base := map[string]string{"gpuscaler.io/queue-source": "keda/sqs", "gpuscaler.io/queue-depth-per-replica": "10"}
	for _, c := range []struct {
		key, good, bad, says string
		shows                func(c *policy.Compiled) bool
	}{
		{"policy", "other", "Bad_Name", `metadata.annotations[gpuscaler.io/policy]: is not a valid name; found "Bad_Name"`,
			func(c *policy.Compiled) bool { return c.Workload.Key.Name == "other" }},
		{"spec", "formula: 2 * queue.replicas", "formual: 1",
			`metadata.annotations[gpuscaler.io/spec].formual: there is no such field, did you mean "formula"?`,
			func(c *policy.Compiled) bool { return c.Workload.Policy.Formula != nil }},
		{"spec", "{activation: all}", "signals: [{name: q, type: redis, source: nope, listName: l, target: 1}]",
			`metadata.annotations[gpuscaler.io/spec].signals[0].source: the PlatformConfig has no such data source; found "nope"; ` +
				`allowed: a data source: r`,
			func(c *policy.Compiled) bool { return c.Workload.Policy.Activation == scaling.ActiveByAll }},
		{"spec", "activation: all", "{", `metadata.annotations[gpuscaler.io/spec]: is not YAML`,
			func(c *policy.Compiled) bool { return c.Workload.Policy.Activation == scaling.ActiveByAll }},
		{"spec", "activation: all", "activation: any\n---\nactivation: all",
			`metadata.annotations[gpuscaler.io/spec]: has more text after its first YAML document`,
			func(c *policy.Compiled) bool { return c.Workload.Policy.Activation == scaling.ActiveByAll }},
		{"spec", "activation: all", "maxReplicas: 5",
			`metadata.annotations[gpuscaler.io/spec].maxReplicas: is set by the object; found 5; allowed: in spec of the ScaledObject itself`,
			func(c *policy.Compiled) bool { return c.Workload.Policy.Activation == scaling.ActiveByAll }},
		{"mode", "advisory", "advisry", `metadata.annotations[gpuscaler.io/mode]: is not a mode, did you mean "advisory"?; found "advisry"; ` +
			`allowed: auto, advisory or hold`,
			func(c *policy.Compiled) bool { return c.Workload.Mode == scaling.Advisory }},
		{"capacity-group", "chat", "chta", `metadata.annotations[gpuscaler.io/capacity-group]: ` +
			`the PlatformConfig has no such capacity group, did you mean "chat"?; found "chta"; allowed: a capacity group: chat`,
			func(c *policy.Compiled) bool { return c.Workload.Group == "chat" }},
		{"gpu-utilization-target", "70", "0.7",
			`metadata.annotations[gpuscaler.io/gpu-utilization-target]: is a fraction: write 70%; found "0.7"; allowed: 70 or 70%`,
			func(c *policy.Compiled) bool { return c.Workload.Policy.Signals[0].Target == 0.7 }},
		{"gpu-utilization-target", "70%", "high",
			`metadata.annotations[gpuscaler.io/gpu-utilization-target]: is not a number, a percentage or a time; found "high"`,
			func(c *policy.Compiled) bool { return c.Workload.Policy.Signals[0].Target == 0.7 }},
		{"schedule", `office Europe/Berlin "0 8 * * 1-5" "0 20 * * 1-5" min=2 lead=5m`, `office Berlin "0 8 * * 1-5" "0 20 * * 1-5" min=2`,
			`metadata.annotations[gpuscaler.io/schedule] line 1: is not a time zone; found "office Berlin`,
			func(c *policy.Compiled) bool { return c.Workload.Policy.Schedules[0].Lead == 5*time.Minute }},
		{"schedule", `office Europe/Berlin "0 8 * * 1-5" "0 20 * * 1-5" max=9`, "\noffice Europe/Berlin \"0 8 * * 1-5\" \"0 20 * * 1-5\" mn=2",
			`metadata.annotations[gpuscaler.io/schedule] line 2: there is no such key "mn", did you mean "min"?`,
			func(c *policy.Compiled) bool { return c.Workload.Policy.Schedules[0].Max == 9 }},
		{"schedule", `office Europe/Berlin "0 8 * * 1-5" "0 20 * * 1-5" max=9`, `office Europe/Berlin "0 8 * * 1-5 min=2`,
			`has a quote that is not closed`,
			func(c *policy.Compiled) bool { return c.Workload.Policy.Schedules[0].Max == 9 }},
	} {
		t.Run(c.key+"="+c.bad, func(t *testing.T) {
			policies, _ := storeWith(t)
			set := func(value string) (*policy.Compiled, []policy.Problem) {
				values := map[string]string{}
				for k, v := range base {
					values[k] = v
				}
				if value != "" {
					values["gpuscaler.io/"+c.key] = value
				}
				problems := setObject(policies, scaledObject(values))
				all := policies.Compiled()
				if len(all) != 1 {
					t.Fatalf("%d policies in force after\n%s", len(all), policy.Render(problems))
				}
				return all[0], problems
			}
			if got, problems := set(c.good); len(problems) > 0 || !c.shows(got) {
				t.Errorf("good: %+v %+v\n%s", got.Workload, got.Workload.Policy, policy.Render(problems))
			}
			got, problems := set(c.bad)
			if !strings.Contains(policy.Render(problems), c.says) {
				t.Errorf("bad: want %q, got\n%s", c.says, policy.Render(problems))
			}
			if !c.shows(got) {
				t.Errorf("bad: the last valid version is not in force: %+v", got.Workload.Policy)
			}
			if got, problems = set(""); len(problems) > 0 || len(got.Sources) != 1 || len(got.Workload.Policy.Schedules) > 0 ||
				got.Workload.Key.Name != "llama" {
				t.Errorf("removed: %+v\n%s", got.Workload.Policy, policy.Render(problems))
			}
		})
	}
}

func TestQueueSourcesOfEachKind(t *testing.T) {
	for _, c := range []struct {
		source, depth string
		want          policy.Source
		says          string
	}{
		{"gateway-queue", "10", policy.Source{Type: policy.SourcePrometheus, DataSource: "prom", QueryName: "gateway-queue", Query: "q",
			WorkloadLabel: "pool", NamespaceLabel: "namespace"}, ""},
		{"keda/sqs", "10", policy.Source{Type: policy.SourceKEDA, Trigger: "sqs"}, ""},
		{"r/jobs:high", "10", policy.Source{Type: policy.SourceRedis, DataSource: "r", ListName: "jobs:high"}, ""},
		{"external/sqs-depth", "10", policy.Source{Type: policy.SourceExternal, Metric: "sqs-depth"}, ""},
		{"keda/kafka", "10", policy.Source{}, `the ScaledObject has no trigger of this name; found "keda/kafka"; allowed: sqs`},
		{"keda/", "10", policy.Source{}, "is not a queue source"},
		{"http://evil/x", "10", policy.Source{}, "has no such data source"},
		{"gateway-queue", "", policy.Source{}, "needs the target of the queue"},
		{"", "10", policy.Source{}, "needs the source of the queue"},
		{"gateway-queue", "0", policy.Source{}, `metadata.annotations[gpuscaler.io/queue-depth-per-replica]: must be above 0; found "0"`},
		{"gateway-queue", "80%", policy.Source{Type: policy.SourcePrometheus, DataSource: "prom", QueryName: "gateway-queue", Query: "q",
			WorkloadLabel: "pool", NamespaceLabel: "namespace"}, ""},
	} {
		t.Run(c.source+"="+c.depth, func(t *testing.T) {
			policies, _ := storeWith(t)
			values := map[string]string{"gpuscaler.io/mode": "auto"}
			if c.source != "" {
				values["gpuscaler.io/queue-source"] = c.source
			}
			if c.depth != "" {
				values["gpuscaler.io/queue-depth-per-replica"] = c.depth
			}
			problems := setObject(policies, scaledObject(values))
			if c.says != "" {
				if !strings.Contains(policy.Render(problems), c.says) || policies.Find(key("llama")) != nil {
					t.Errorf("want %q, got\n%s", c.says, policy.Render(problems))
				}
				return
			}
			if got := policies.Find(key("llama")); got == nil || got.Sources[0] != c.want {
				t.Errorf("got %+v\n%s", got, policy.Render(problems))
			}
		})
	}
}

func TestAMisspelledAnnotationIsReported(t *testing.T) {
	policies, _ := storeWith(t)
	values := map[string]string{"gpuscaler.io/queue-source": "keda/sqs", "gpuscaler.io/queue-depth-per-replica": "10",
		"gpuscaler.io/capacitygroup": "chat", "gpuscaler.io/paused": "true"}
	problems := setObject(policies, scaledObject(values))
	if len(problems) != 1 || !strings.Contains(problems[0].String(),
		`metadata.annotations[gpuscaler.io/capacitygroup]: there is no such annotation, did you mean "gpuscaler.io/capacity-group"?; `+
			`found "chat"`) {
		t.Errorf("%s", policy.Render(problems))
	}
}

func TestTheCooldownAppliesOnce(t *testing.T) {
	policies, _ := storeWith(t)
	values := map[string]string{"gpuscaler.io/queue-source": "keda/sqs", "gpuscaler.io/queue-depth-per-replica": "10"}
	for _, c := range []struct {
		name string
		keda *time.Duration
		want time.Duration
	}{{"KEDA without a cooldown", nil, 5 * time.Minute}, {"KEDA waits", duration(10 * time.Minute), 0},
		{"KEDA with a cooldown of 0", duration(0), 5 * time.Minute}} {
		object := scaledObject(values)
		object.CooldownPeriod = c.keda
		setObject(policies, object)
		if got := policies.Find(key("llama")).Workload.Policy.CooldownPeriod; got != c.want {
			t.Errorf("%s: cooldownPeriod %s, want %s", c.name, got, c.want)
		}
	}
	object := scaledObject(map[string]string{"gpuscaler.io/spec": "cooldownPeriod: 5m\nsignals: [{name: q, type: keda, " +
		"trigger: sqs, target: 1}]"})
	object.CooldownPeriod = duration(10 * time.Minute)
	if problems := setObject(policies, object); !strings.Contains(policy.Render(problems), "spec].cooldownPeriod: would apply twice") {
		t.Errorf("both: %s", policy.Render(problems))
	}
}

func duration(d time.Duration) *time.Duration { return &d }

func TestTwoObjectsForOneTargetOrPolicyAreRefused(t *testing.T) {
	values := map[string]string{"gpuscaler.io/queue-source": "keda/sqs", "gpuscaler.io/queue-depth-per-replica": "10"}
	policies, _ := storeWith(t, simple("filed", 3))
	setObject(policies, scaledObject(values))
	second := scaledObject(values)
	second.Name = "second"
	if problems := setObject(policies, second); !strings.Contains(policy.Render(problems), "are decided by policy llama already") {
		t.Errorf("second owner: %s", policy.Render(problems))
	}
	third := scaledObject(map[string]string{"gpuscaler.io/policy": "llama"})
	third.Name, third.Target.Name = "third", "third"
	if problems := setObject(policies, third); !strings.Contains(policy.Render(problems),
		"the ScaledObject llama carries this policy already") {
		t.Errorf("second carrier: %s", policy.Render(problems))
	}
	over := scaledObject(values)
	over.Name, over.Target.Name = "over", "filed"
	if problems := setObject(policies, over); !strings.Contains(policy.Render(problems), "gpuscaler.io/policy: filed to extend it") {
		t.Errorf("over a file's target: %s", policy.Render(problems))
	}
	expect(t, policies, "all objects", "filed 3, llama 10")
	// The problem of a refused object must contain the policy that scales its target.
	for name, want := range map[string]store.State{"llama": store.InForce, "second": store.Refused, "over": store.Refused} {
		if st := state(policies, "ScaledObject team-chat/"+name); st.State != want || (st.InForce != "") != (want == store.InForce) {
			t.Errorf("%s: %+v, want the state %v", name, st, want)
		}
	}
	// After the first object is deleted, the policy of the object "second" scales the target.
	deleteObject(policies, "ScaledObject", "team-chat", "llama")
	expect(t, policies, "the first was deleted", "filed 3, second 10")
	if problems := policies.ObjectProblems("ScaledObject", "team-chat", "second"); len(problems) > 0 {
		t.Errorf("%s", policy.Render(problems))
	}
}

func TestTheNameOfAPolicyThatDoesNotExistIsRefused(t *testing.T) {
	policies, f := storeWith(t)
	object := scaledObject(nil)
	object.Metadata = map[string]string{"scalerAddress": "x", "policy": "base"}
	if problems := setObject(policies, object); !strings.Contains(policy.Render(problems),
		`trigger metadata policy: no file has a policy of this name in namespace team-chat; found "base"`) {
		t.Errorf("%s", policy.Render(problems))
	}
	f.write("z.yaml", strings.Replace(simple("base", 3), "type: vllm", "type: prometheus, queryRef: gateway-queue", 1))
	policies.Load(f.path)
	if problems := policies.ObjectProblems("ScaledObject", "team-chat", "llama"); len(problems) > 0 {
		t.Errorf("the file was added: %s", policy.Render(problems))
	}
	expect(t, policies, "the file was added", "base 10")
}

func TestAnObjectWithoutAnnotationsCarriesNoPolicy(t *testing.T) {
	policies, _ := storeWith(t)
	setObject(policies, scaledObject(pageAnnotations))
	expect(t, policies, "carries one", "llama 10")
	if problems := setObject(policies, scaledObject(map[string]string{"gpuscaler.io/paused": "true"})); len(problems) > 0 {
		t.Errorf("%s", policy.Render(problems))
	}
	expect(t, policies, "carries none", "")
}

func TestTheBoundsOfThePlatformApplyToAnnotations(t *testing.T) {
	policies, _ := storeWith(t)
	object := scaledObject(pageAnnotations)
	object.MaxReplicas = 100
	problems := setObject(policies, object)
	if policy.Errors(problems) > 0 || len(problems) != 1 {
		t.Errorf("want one warning:\n%s", policy.Render(problems))
	}
	expect(t, policies, "KEDA's default of 100", "llama 24")
}

func TestTheStatusOfAnObjectFollowsItsChanges(t *testing.T) {
	clock := time.Unix(1000, 0)
	policies := store.New(store.Options{Clock: func() time.Time { return clock }})
	good := map[string]string{"gpuscaler.io/queue-source": "keda/sqs", "gpuscaler.io/queue-depth-per-replica": "10"}
	bad := map[string]string{"gpuscaler.io/queue-source": "keda/sqs", "gpuscaler.io/queue-depth-per-replica": "ten"}
	for _, step := range []struct {
		annotations map[string]string
		state       store.State
		since       time.Duration
	}{{bad, store.Refused, 0}, {good, store.InForce, time.Minute}, {good, store.InForce, time.Minute},
		{bad, store.LastValid, 3 * time.Minute}} {
		setObject(policies, scaledObject(step.annotations))
		if st := state(policies, "ScaledObject team-chat/llama"); st.State != step.state || st.Since.Sub(time.Unix(1000, 0)) != step.since {
			t.Errorf("%+v, want %s since %s", st, step.state, step.since)
		}
		clock = clock.Add(time.Minute)
	}
	if deleteObject(policies, "ScaledObject", "team-chat", "llama"); len(policies.Statuses()) > 0 {
		t.Errorf("%+v", policies.Statuses())
	}
}

// A target that is not a number leaves the signal without a target. The missing target must not be reported as a second mistake.
func TestMistakeInAnAnnotatedSpecIsReportedOnce(t *testing.T) {
	policies, _ := storeWith(t)
	problems := setObject(policies, scaledObject(map[string]string{"gpuscaler.io/spec": "signals:\n- {name: queue, type: vllm, target: ten}"}))
	if len(problems) != 1 || !strings.Contains(problems[0].Message, "is not a number") {
		t.Errorf("%s", policy.Render(problems))
	}
}
