package pkg_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/annotations"
	"github.com/gpuscaler/gpuscaler/pkg/policy/store"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

const hostilePlatform = `apiVersion: gpuscaler.io/v1alpha1
kind: PlatformConfig
metadata: {name: prod}
spec:
  bounds: {maxReplicas: 100}
  dataSources:
  - {name: prom, type: prometheus, default: true, address: "https://prom:9090"}
  - {name: redis-chat, type: redis, address: "redis:6379", passwordFile: /etc/secret/redis, namespaces: [team-chat]}
  - {name: redis-code, type: redis, address: "redis:6379", namespaces: [team-code]}
  - {name: prom-code, type: prometheus, address: "https://prom-code:9090", namespaces: [team-code]}
  queries:
  - {name: gateway, source: prom, query: "sum by (namespace, pool) (queue_size)", workloadLabel: pool}
  - {name: code-only, source: prom-code, query: "sum by (namespace, pool) (queue_size)", workloadLabel: pool}
  teams:
  - {name: chat, namespaces: [team-chat], configMaps: true, capacityGroups: [chat], bounds: {maxReplicas: 24}}
  - {name: code, namespaces: [team-code], capacityGroups: [code]}
  capacityGroups:
  - {name: chat, resource: nvidia.com/gpu, nodePools: {spot: l40s}}
  - {name: code, resource: nvidia.com/gpu, nodePools: {spot: h100}}
`

const tenantPolicy = `apiVersion: gpuscaler.io/v1alpha1
kind: ScalingPolicy
metadata: {name: llama, namespace: team-chat}
spec:
  scaleTargetRef: {name: llama}
  minReplicas: 1
  maxReplicas: 12
  signals:
  - {name: queue, type: prometheus, metric: http_requests, matchLabels: {app: chat}, target: 10}
`

var llama = scaling.Key{Namespace: "team-chat", Name: "llama"}

// signal returns a copy of tenantPolicy with the signal in text.
func signal(text string) string {
	return strings.Replace(tenantPolicy, signalLine, "  - "+text+"\n", 1)
}

const signalLine = "  - {name: queue, type: prometheus, metric: http_requests, matchLabels: {app: chat}, target: 10}\n"

// loaded loads the platform's file and a tenant's file. It returns a description of the accepted policy or, if the policy is refused, of
// the first problem.
func loaded(t *testing.T, text string) string {
	t.Helper()
	return cheaply(t, func() string {
		s, r := bound(t, text)
		if c := s.Find(llama); c != nil {
			return inForce(t, c)
		}
		for _, p := range r.Problems {
			if !p.Warning {
				return "refused: " + firstLine(p)
			}
		}
		return "accepted without a problem"
	})
}

// bound loads the platform's file and a tenant's file. As in a release, the path of the tenant's file accepts only policies of the tenant's
// namespace.
func bound(t *testing.T, text string) (*store.Store, store.Report) {
	t.Helper()
	dir := t.TempDir()
	platform, tenant := filepath.Join(dir, "platform.yaml"), filepath.Join(dir, "tenant.yaml")
	for name, content := range map[string]string{platform: hostilePlatform, tenant: text} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	path, err := store.ParsePath("team-chat=" + tenant)
	if err != nil {
		t.Fatal(err)
	}
	s := store.New(store.Options{})
	return s, s.LoadPaths(append(store.Trusted(platform), path)...)
}

func firstLine(p policy.Problem) string {
	text := p.Message
	if p.Field != "" {
		text = p.Field + ": " + text
	}
	if p.Found != "" {
		text += "; found " + p.Found
	}
	return text
}

// inForce returns a description of an accepted policy. The test fails if a query of the policy selects series outside of the tenant's
// namespace.
func inForce(t *testing.T, c *policy.Compiled) string {
	t.Helper()
	for _, s := range c.Sources {
		if s.QueryName != "" || s.Query == "" {
			continue
		}
		expr, err := parser.NewParser(parser.Options{}).ParseExpr(s.Query)
		if err != nil {
			t.Fatalf("%s: %v", s.Query, err)
		}
		selectors := 0
		parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
			if v, ok := n.(*parser.VectorSelector); ok {
				selectors++
				own := 0
				for _, m := range v.LabelMatchers {
					if m.Name == "namespace" && m.Type == labels.MatchEqual && m.Value == c.Workload.Key.Namespace {
						own++
					}
				}
				if own == 0 {
					t.Errorf("%s leaves the namespace", s.Query)
				}
			}
			return nil
		})
		return fmt.Sprintf("in force, at most %d replicas, %d selector of its own namespace: %s",
			c.Workload.Policy.MaxReplicas, selectors, s.Query)
	}
	return fmt.Sprintf("in force, at most %d replicas", c.Workload.Policy.MaxReplicas)
}

// bomb returns ten lines of YAML whose aliases expand to more than 10^10 strings.
func bomb() string {
	var b strings.Builder
	b.WriteString("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n")
	for i := 1; i < 10; i++ {
		fmt.Fprintf(&b, "a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 10), ", "))
	}
	return b.String()
}

func policyFiles(t *testing.T) entrance {
	file := func(text string) func(*testing.T) string {
		return func(t *testing.T) string { return loaded(t, text) }
	}
	edit := func(old, wrong string) func(*testing.T) string {
		if !strings.Contains(tenantPolicy, old) {
			t.Fatalf("the policy does not contain %q", old)
		}
		return file(strings.Replace(tenantPolicy, old, wrong, 1))
	}
	labelled := func(value string) func(*testing.T) string {
		return file(signal("{name: queue, type: prometheus, metric: http_requests, matchLabels: {app: " + value + "}, target: 10}"))
	}
	return entrance{"Policy files", "A tenant whose pull request changes a policy file.", []attempt{
		{"a URL in the place of a data source's name", "KEDA #7697 (SSRF by a trigger's url)", "no such data source",
			file(signal(`{name: queue, type: prometheus, source: "http://169.254.169.254/latest/meta-data", metric: up, target: 1}`))},
		{"an address of one's own, by KEDA's field", "KEDA serverAddress", "no such field",
			file(signal(`{name: queue, type: prometheus, serverAddress: "http://10.0.0.1", metric: up, target: 1}`))},
		{"a file as a data source", "CVE-2025-68476 (KEDA reads any file)", "no such data source",
			file(signal(`{name: queue, type: redis, source: "file:///var/run/secrets/kubernetes.io/serviceaccount/token", ` +
				`listName: jobs, target: 5}`))},
		{"a password file of one's own", "CVE-2025-68476", "no such field",
			file(signal(`{name: queue, type: redis, source: redis-chat, listName: jobs, target: 5, passwordFile: /etc/shadow}`))},
		{"another's credentials, by KEDA's field", "KEDA #7782 (ClusterTriggerAuthentication sent to a tenant's URL)", "no such field",
			file(signal(`{name: queue, type: redis, source: redis-chat, listName: jobs, target: 5, authenticationRef: {kind: ` +
				`ClusterTriggerAuthentication, name: prod}}`))},
		{"another namespace's data source", "KEDA #7782", "does not let namespace team-chat use",
			file(signal(`{name: queue, type: redis, source: redis-code, listName: jobs, target: 5}`))},
		{"a query of the platform over another namespace's data source", "", "does not let namespace team-chat use",
			file(signal(`{name: queue, type: prometheus, queryRef: code-only, target: 10}`))},
		{"further words behind a data source's name", "CVE-2026-53572 (KEDA: a blank in a connection string)", "no such data source",
			file(signal(`{name: queue, type: redis, source: "redis-chat host=evil", listName: jobs, target: 5}`))},
		{"PromQL in the place of a metric", "no tenant label in KEDA's queries", "not a metric name",
			file(signal(`{name: queue, type: prometheus, metric: "up{namespace=\"team-code\"} or vector(0)", target: 10}`))},
		{"a metric whose name ends the selector", "", "not a metric name",
			file(signal(`{name: queue, type: prometheus, metric: "up}) or (up", target: 10}`))},
		{"a metric in letters that look alike", "", "not a metric name",
			file(signal(`{name: queue, type: prometheus, metric: "һttp_requests", target: 10}`))},
		{"a label's value that ends the selector", "no tenant label in KEDA's queries",
			`{app="x\"} or vector(1000) or up{a=\"",namespace="team-chat"}`,
			labelled(`"x\"} or vector(1000) or up{a=\""`)},
		{"a label's value that comments out the rest", "", ", 1 selector of its own", labelled(`"x\"}) #"`)},
		{"a label's value with a new line", "", ", 1 selector of its own", labelled(`"x\n\"} or up"`)},
		{"a label's value that is a regular expression", "", `app=".*"`, labelled(`".*"`)},
		{"further parameters of the request in a label's value", "KEDA appends &namespace= unescaped", `app="x&namespace=team-code"`,
			labelled(`"x&namespace=team-code"`)},
		{"another namespace by label", "", "is set by gpuscaler",
			file(signal(`{name: queue, type: prometheus, metric: up, matchLabels: {namespace: team-code}, target: 10}`))},
		{"another metric by label", "", "refused",
			file(signal(`{name: queue, type: prometheus, metric: up, matchLabels: {__name__: secret_metric}, target: 10}`))},
		{"PromQL in a label's name", "", "is not a label name",
			file(signal(`{name: queue, type: prometheus, metric: up, matchLabels: {"a=\"\"} or up{b": c}, target: 10}`))},
		{"another team's capacity group", "pods make Karpenter buy nodes", "capacityGroup",
			edit("  minReplicas: 1", "  capacityGroup: code\n  minReplicas: 1")},
		{"the backlog of a ClusterQueue that the team does not list", "", "does not let namespace team-chat read this ClusterQueue",
			file(signal(`{name: queue, type: kueue, clusterQueue: gpus, target: 5}`))},
		{"a ClusterQueue whose name ends the selector", "", "is not the name of a queue",
			file(signal(`{name: queue, type: kueue, clusterQueue: "gpus\"} or vector(1)", target: 5}`))},
		{"a target in another namespace", "", "no such field", edit("{name: llama}", "{name: llama, namespace: kube-system}")},
		{"a path as a target's name", "", "scaleTargetRef", edit("{name: llama}\n  min", `{name: "../../../api/v1/secrets/x"}`+"\n  min")},
		{"more replicas than the platform allows", "Komodor: 30 to 4,000 pods", "at most 24 replicas",
			edit("maxReplicas: 12", "maxReplicas: 25")},
		{"more replicas than a number holds", "", "maxReplicas", edit("maxReplicas: 12", "maxReplicas: 99999999999999999999")},
		{"replicas in hexadecimal", "", "maxReplicas", edit("maxReplicas: 12", "maxReplicas: 0x7fffffff")},
		{"a target that is almost zero", "", "at most 12 replicas", edit("target: 10", "target: 1e-308")},
		{"a target that is no number", "", "target", edit("target: 10", "target: .nan")},
		{"an endless target", "", "target", edit("target: 10", "target: .inf")},
		{"a negative target", "", "target", edit("target: 10", "target: -1")},
		{"a zone that is a path", "", "timezone", edit("  signals:",
			`  schedules: [{name: n, timezone: "../../../etc/passwd", start: "0 8 * * *", end: "0 9 * * *", minReplicas: 2}]`+"\n  signals:")},
		{"a schedule that fires without end", "KEDA #2031", "schedules",
			edit("  signals:", `  schedules: [{name: n, timezone: UTC, start: "*/0 * * * *", end: "0 9 * * *", minReplicas: 2}]`+"\n  signals:")},
		{"a formula that loops", "", "formula",
			edit("  signals:", `  formula: "[1,2,3,4,5,6,7,8,9].map(a, [1,2,3,4,5,6,7,8,9].map(b, a*b)).size()"`+"\n  signals:")},
		{"a formula of a megabyte", "", "formula", edit("  signals:", `  formula: "`+strings.Repeat("1.0+", 250_000)+`1.0"`+"\n  signals:")},
		{"a formula that divides by zero", "", "in force", edit("  signals:", `  formula: "queue.value / 0.0"`+"\n  signals:")},
		{"a formula that reads the environment", "", "formula", edit("  signals:", `  formula: "env('HOME').size()"`+"\n  signals:")},
		{"one signal thirty thousand times, by aliases", "CVE-2019-11253 (Kubernetes)", "refused",
			file(strings.Replace(tenantPolicy, signalLine, strings.Replace(signalLine, "- {", "- &s {", 1)+strings.Repeat("  - *s\n", 30_000), 1))},
		{"aliases of aliases: a thousand million values in ten lines", "CVE-2019-11253", "refused",
			file(bomb() + "apiVersion: gpuscaler.io/v1alpha1\nkind: ScalingPolicy\nmetadata: {name: llama, namespace: team-chat}\nspec: " +
				"{maxReplicas: 2, signals: *a9}\n")},
		{"an alias that holds itself", "", "refused", edit("  signals:\n"+signalLine, "  signals: &a [*a]\n")},
		{"a hundred thousand brackets", "", "refused", file(tenantPolicy + "  formula: " + strings.Repeat("[", 100_000) + "\n")},
		{"ten thousand signals", "", "refused", file(strings.Replace(tenantPolicy, signalLine, strings.Repeat(signalLine, 10_000), 1))},
		{"a merge key", "", "refused", edit("{name: llama}\n  min", "{<<: {name: llama}}\n  min")},
		{"a field twice, of which the first is shown in a review", "", "written twice",
			edit("  maxReplicas: 12", "  maxReplicas: 12\n  maxReplicas: 24")},
		{"a type of another language", "PyYAML's !!python/object", "refused",
			edit("target: 10}", "target: !!python/object/apply:os.system [id]}")},
		{"bytes that are no text", "", "refused", edit("app: chat", "app: \xff\xfe")},
		{"a name with a turned-round end", "Trojan Source, CVE-2021-42574", "refused",
			edit("{name: llama, namespace", "{name: \"llama\u202e\", namespace")},
		{"a name that is a path", "", "refused", edit("{name: llama, namespace", `{name: "../team-code/llama", namespace`)},
		{"a name of a thousand letters", "", "refused", edit("{name: llama, namespace", "{name: "+strings.Repeat("a", 1000)+", namespace")},
		{"a schedule's name that clears the terminal", "CVE-2021-25743 (kubectl prints escapes raw)", "characters that cannot be displayed",
			edit("  signals:", `  schedules: [{name: "n\e[2J", timezone: UTC, start: "0 8 * * *", end: "0 9 * * *", minReplicas: 2}]`+
				"\n  signals:")},
		{"a schedule's name of several lines", "", "is not a valid schedule name", edit("  signals:",
			`  schedules: [{name: "n\nINFO all is well", timezone: UTC, start: "0 8 * * *", end: "0 9 * * *", minReplicas: 2}]`+"\n  signals:")},
		{"a schedule's name with a turned-round end", "Trojan Source, CVE-2021-42574", "characters that cannot be displayed", edit("  signals:",
			"  schedules: [{name: \"n\u202elive\", timezone: UTC, start: \"0 8 * * *\", end: \"0 9 * * *\", minReplicas: 2}]\n  signals:")},
		{"a schedule's name of 200,000 letters", "", "is not a valid schedule name", edit("  signals:", `  schedules: [{name: `+
			strings.Repeat("n", 200_000)+`, timezone: UTC, start: "0 8 * * *", end: "0 9 * * *", minReplicas: 2}]`+"\n  signals:")},
		{"Redis commands in a list's name, with carriage returns", "CVE-2026-53572 (KEDA: a blank in a connection string)",
			"characters that cannot be displayed",
			file(signal(`{name: queue, type: redis, source: redis-chat, listName: "jobs\r\nFLUSHALL\r\n", target: 5}`))},
		{"a Redis list with an escape sequence in its name", "", "characters that cannot be displayed",
			file(signal(`{name: queue, type: redis, source: redis-chat, listName: "jobs\e]0;owned\a", target: 5}`))},
		{"a second PlatformConfig in a tenant's file", "", "PlatformConfig", func(t *testing.T) string {
			return reaches(t, ownPlatform("bounds: {maxReplicas: 9999}")+"---\n"+tenantPolicy)
		}},
		{"a PlatformConfig that holds the whole cluster", "", "the platform is in mode auto", func(t *testing.T) string {
			return reaches(t, ownPlatform("mode: hold")+"---\n"+tenantPolicy)
		}},
		{"half a PlatformConfig, so that the platform's counts as unreadable", "", "the platform is in mode auto", func(t *testing.T) string {
			return reaches(t, tenantPolicy+"---\nkind: PlatformConfig\n  mode: [\n")
		}},
		{"a policy of another namespace", "", "policies of this namespace are not accepted from this path",
			edit("namespace: team-chat", "namespace: kube-system")},
		{"another tenant's policy by its name", "", "policies of this namespace are not accepted from this path",
			edit("{name: llama, namespace: team-chat}", "{name: codestral, namespace: team-code}")},
	}}
}

func ownPlatform(spec string) string {
	return "apiVersion: gpuscaler.io/v1alpha1\nkind: PlatformConfig\nmetadata: {name: mine}\nspec: {" + spec + "}\n"
}

// reaches loads a tenant's file and returns the settings of the platform and the problems of the file. The test fails if the file changed
// the platform's settings or removed the tenant's policy.
func reaches(t *testing.T, text string) string {
	t.Helper()
	s, r := bound(t, text)
	p, c := s.Platform(), s.Find(llama)
	if p.Bounds.Max != 100 || p.Mode != scaling.Auto || c == nil {
		t.Errorf("the platform: mode %v, at most %d replicas; the policy %+v", p.Mode, p.Bounds.Max, c)
		return "nothing"
	}
	var problems []string
	for _, p := range r.Problems {
		problems = append(problems, firstLine(p))
	}
	return fmt.Sprintf("the platform is in mode auto with at most %d replicas; refused: %s", p.Bounds.Max, strings.Join(problems, "; "))
}

func annotationEntrance(t *testing.T) entrance {
	object := func(kind string, edit func(o *store.Object)) func(*testing.T) string {
		return func(t *testing.T) string {
			return cheaply(t, func() string {
				s := store.New(store.Options{})
				s.LoadFS(fstest.MapFS{"platform.yaml": {Data: []byte(hostilePlatform)},
					"other.yaml": {Data: []byte(strings.NewReplacer("team-chat", "team-code", "llama", "codestral").Replace(tenantPolicy))}})
				o := store.Object{Kind: kind, Namespace: "team-chat", Name: "llama", Target: scaling.Target{APIVersion: "apps/v1", Kind: "Deployment",
					Name: "llama"}, MinReplicas: 1, MaxReplicas: 12, Annotations: map[string]string{}}
				edit(&o)
				problems := s.SetObject(o)
				s.Publish()
				if c := s.Find(llama); c != nil {
					return inForce(t, c)
				}
				for _, p := range problems {
					if !p.Warning {
						return "refused: " + firstLine(p)
					}
				}
				return "accepted without a problem"
			})
		}
	}
	hpa := func(pairs ...string) func(*testing.T) string {
		return object("HorizontalPodAutoscaler", func(o *store.Object) {
			for i := 0; i < len(pairs); i += 2 {
				o.Annotations["gpuscaler.io/"+pairs[i]] = pairs[i+1]
			}
		})
	}
	// many returns an attempt with an annotation that contains the lines in first, followed by n copies of line.
	many := func(n int, annotation, line string, first ...string) func(*testing.T) string {
		text := strings.Join(first, "")
		for i := range n {
			text += fmt.Sprintf(line, i)
		}
		return func(t *testing.T) string {
			return cheaply(t, func() string {
				s := store.New(store.Options{})
				problems := s.SetObject(store.Object{Kind: "HorizontalPodAutoscaler", Namespace: "team-chat", Name: "llama", MinReplicas: 1,
					MaxReplicas: 12, Target: scaling.Target{APIVersion: "apps/v1", Kind: "Deployment", Name: "llama"},
					Annotations: map[string]string{"gpuscaler.io/" + annotation: text}})
				return fmt.Sprintf("%d problems, the first: %s", len(problems), firstLine(problems[0]))
			})
		}
	}
	good := "signals: [{name: queue, type: prometheus, metric: http_requests, target: 10}]"
	return entrance{"Annotations", "A tenant who may edit an HPA or a ScaledObject of their own namespace.", []attempt{
		{"a URL as the queue's source", "KEDA #7697", "refused", hpa("queue-source", "http://169.254.169.254/", "queue-depth-per-replica", "5")},
		{"another namespace's Redis as the queue's source", "KEDA #7782", "refused",
			hpa("queue-source", "redis-code/jobs", "queue-depth-per-replica", "5")},
		{"PromQL as the queue's source", "", "refused", hpa("queue-source", `sum(up{namespace="team-code"})`, "queue-depth-per-replica", "5")},
		{"another namespace's policy by name", "", "refused", hpa("policy", "team-code/codestral")},
		{"another namespace's policy by a name that it has", "", "refused", hpa("policy", "codestral")},
		{"a spec that reaches for another namespace", "", "is set by gpuscaler",
			hpa("spec", "signals: [{name: queue, type: prometheus, metric: up, matchLabels: {namespace: team-code}, target: 10}]")},
		{"a spec with another target", "", "is set by the object", hpa("spec", good+"\nscaleTargetRef: {name: others}")},
		{"a spec with bounds of its own", "", "is set by the object", hpa("spec", good+"\nmaxReplicas: 9999")},
		{"a spec that is a bomb", "CVE-2019-11253", "refused", hpa("spec", bomb()+"signals: *a9")},
		{"a spec that is a list of lists", "", "refused", hpa("spec", strings.Repeat("[", 20_000))},
		{"a spec that is no YAML", "", "refused", hpa("spec", "signals: [}")},
		{"bounds beyond the platform's, by the HPA's own maxReplicas", "Komodor: 30 to 4,000 pods", "at most 24 replicas",
			object("HorizontalPodAutoscaler", func(o *store.Object) {
				o.MaxReplicas, o.Annotations["gpuscaler.io/spec"] = 9999, good
			})},
		{"an HPA with two thousand million replicas", "", "out of range", object("HorizontalPodAutoscaler", func(o *store.Object) {
			o.MaxReplicas, o.Annotations["gpuscaler.io/spec"] = 1<<31-1, good
		})},
		{"a spec of ten thousand fields that do not exist", "", "101 problems", many(10_000, "spec", "a%d: x\n")},
		{"a spec of three thousand signals", "", "has 3000 entries", many(3000, "spec", "- {name: a%d, type: dcgm, target: 70}\n", "signals:\n")},
		{"ten thousand schedules, one a line", "", "has more than", many(10_000, "schedule", "a%d UTC \"0 8 * * *\" \"0 9 * * *\" min=1\n")},
		{"a GPU target of zero", "", "refused", hpa("gpu-utilization-target", "0%")},
		{"a GPU target of a million", "", "refused", hpa("gpu-utilization-target", "1000000%")},
		{"a GPU target that is an expression", "", "refused", hpa("gpu-utilization-target", "80% or true")},
		{"a mode that there is not", "", "refused", hpa("mode", "admin", "spec", good)},
		{"another team's capacity group", "", "refused", hpa("capacity-group", "code", "spec", good)},
		{"a schedule that is a path", "", "refused", hpa("schedule", "../../etc/passwd", "spec", good)},
		{"an annotation with a similar name", "", "no such annotation", hpa("gpu-utilisation-target", "80%", "spec", good)},
		{"a second writer of the first replica beside KEDA", "", "refused", object("ScaledObject", func(o *store.Object) {
			o.Annotations["gpuscaler.io/spec"] = good + "\nactivate: true"
		})},
		{"a trigger's metadata that names another's source", "KEDA #7782", "refused", object("ScaledObject", func(o *store.Object) {
			o.Metadata = map[string]string{"scalerAddress": "evil:1", "queueSource": "redis-code/jobs", "queueDepthPerReplica": "5"}
		})},
		{"a trigger of a ScaledObject that there is not", "", "refused", object("ScaledObject", func(o *store.Object) {
			o.Triggers, o.Annotations["gpuscaler.io/spec"] = []string{"own"}, "signals: [{name: queue, type: keda, trigger: others, target: 10}]"
		})},
		{"a policy name that is a label selector", "", "refused", hpa("policy", "llama,gpuscaler.io/policy=codestral", "spec", good)},
		{"a second HPA that claims the same policy", "", "carries this policy already", func(t *testing.T) string {
			s := store.New(store.Options{})
			s.LoadFS(fstest.MapFS{"platform.yaml": {Data: []byte(hostilePlatform)}})
			claim := func(name, target string) []policy.Problem {
				return s.SetObject(store.Object{Kind: "HorizontalPodAutoscaler", Namespace: "team-chat", Name: name,
					Target:      scaling.Target{APIVersion: "apps/v1", Kind: "Deployment", Name: target},
					MinReplicas: 1, MaxReplicas: 12, Annotations: map[string]string{"gpuscaler.io/policy": "llama", "gpuscaler.io/spec": good}})
			}
			claim("first", "llama")
			return "refused: " + policy.Render(claim("second", "other"))
		}},
		{"a second policy for the same workload", "", "decided by policy llama already", func(t *testing.T) string {
			s := store.New(store.Options{})
			s.LoadFS(fstest.MapFS{"platform.yaml": {Data: []byte(hostilePlatform)}, "tenant.yaml": {Data: []byte(tenantPolicy)}})
			return "refused: " + policy.Render(s.SetObject(store.Object{Kind: "HorizontalPodAutoscaler", Namespace: "team-chat", Name: "second",
				MinReplicas: 1, MaxReplicas: 12,
				Target:      scaling.Target{APIVersion: "apps/v1", Kind: "Deployment", Name: "llama"},
				Annotations: map[string]string{"gpuscaler.io/spec": good}}))
		}},
	}}
}

func operators() entrance {
	say := func(pairs ...string) func(*testing.T) string {
		return func(*testing.T) string {
			values := map[string]string{}
			for i := 0; i < len(pairs); i += 2 {
				values["gpuscaler.io/"+pairs[i]] = pairs[i+1]
			}
			o, problems := annotations.ParseOperator(values)
			text := fmt.Sprintf("paused %t, min %d, max %d", o.Paused, o.Min, o.Max)
			for _, p := range problems {
				text += "; " + p.Message
			}
			return text
		}
	}
	return entrance{"The operator's annotations", "A user who may annotate the workload.", []attempt{
		{"an override without an end", "", "has no effect", say("override", "min=12")},
		{"an override that ends never", "", "has no effect", say("override", "min=12 until=never")},
		{"an override of more replicas than a number holds", "", "has no effect", say("override", "min=99999999999 until=2026-11-22T06:00Z")},
		{"an override of fewer than none", "", "has no effect", say("override", "max=-1 until=2026-11-22T06:00Z")},
		{"an override with a repeated key", "", "has no effect", say("override", "min=1 min=9 until=2026-11-22T06:00Z")},
		{"an override upside down", "", "has no effect", say("override", "min=9 max=2 until=2026-11-22T06:00Z")},
		{"an override in digits of another script", "", "has no effect", say("override", "min=١٢ until=2026-11-22T06:00Z")},
		{"a pause that is a sentence", "", "so it counts as true", say("paused", "true; drop table")},
	}}
}
