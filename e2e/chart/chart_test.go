package chart

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"

	"github.com/gpuscaler/gpuscaler/pkg/golden"
)

// modes contains the modes of the chart, each with the API versions of a cluster in which mode auto selects this mode.
var modes = []struct {
	name string
	apis []string
}{
	{"hpa", nil},
	{"keda", []string{"keda.sh/v1alpha1"}},
	{"karpenter", []string{"karpenter.sh/v1"}},
	{"all", []string{"keda.sh/v1alpha1", "karpenter.sh/v1"}},
}

func release(mode string, apis ...string) Release {
	return Release{Name: "gpuscaler", Namespace: "gpuscaler-system", APIs: apis, Values: map[string]any{"mode": mode}}
}

// whole returns the rendered text of all templates of a release. Generated certificates and keys are replaced by GENERATED.
func whole(t *testing.T, r Release) string {
	t.Helper()
	templates, err := Templates(r)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(templates)) {
		if text := strings.TrimSpace(templates[name]); text != "" {
			out.WriteString("# ---- " + name + "\n" + text + "\n")
		}
	}
	return generated.ReplaceAllString(out.String(), "  $1: GENERATED")
}

// generated matches the lines with certificates and keys. Without a cluster, Helm generates new certificates at each rendering.
var generated = regexp.MustCompile(`(?m)^  (ca\.crt|tls\.crt|tls\.key): LS0t.*$`)

func TestEachModeMatchesItsGoldenFile(t *testing.T) {
	for _, mode := range modes {
		t.Run(mode.name, func(t *testing.T) {
			r := release(mode.name)
			r.Values["dashboards"] = map[string]any{"enabled": false} // another test compares the dashboards with config/dashboards
			golden.Compare(t, "testdata/"+mode.name+".yaml", whole(t, r))
		})
	}
	t.Run("everything enabled", func(t *testing.T) {
		r := release("all", "monitoring.coreos.com/v1")
		for name, value := range everything() {
			r.Values[name] = value
		}
		golden.Compare(t, "testdata/everything.yaml", whole(t, r))
	})
}

// everything returns values that enable all optional features of the chart except for the dashboards and alerts, which other tests check.
func everything() map[string]any {
	return map[string]any{
		"dashboards":   map[string]any{"enabled": false},
		"alerts":       map[string]any{"enabled": false}, // another test compares the alerts with config/alerts
		"certificates": map[string]any{"source": "cert-manager"},
		"page":         map[string]any{"tenants": map[string]any{"enabled": true}},
		"hostNetwork":  true,
		"activator":    map[string]any{"namespaces": []any{"team-chat", "team-embed"}},
		"record":       map[string]any{"enabled": true},
		"scaleKinds": []any{
			map[string]any{"group": "argoproj.io", "version": "v1alpha1", "kind": "Rollout", "resource": "rollouts"},
			map[string]any{"group": "orchestration.aibrix.ai", "version": "v1alpha1", "kind": "StormService", "resource": "stormservices",
				"podsPerReplica": "self.spec.template.spec.roles.map(r, r.replicas).sum()", "replicaLabel": "roleset-name"},
			map[string]any{"group": "grove.io", "version": "v1alpha1", "kind": "PodClique", "resource": "podcliques",
				"nameLabel": "grove.io/podclique"},
		},
		"karpenter":  map[string]any{"capacityBuffers": true},
		"secrets":    []any{"redis-embed"},
		"configMaps": []any{map[string]any{"name": "team-chat", "namespaces": []any{"team-chat", "team-search"}}},
		"priceBook":  "kind: PriceBook\n",
		"guardrails": map[string]any{"enabled": true, "actions": []any{"Warn", "Audit"}},
		"keda":       map[string]any{"tls": map[string]any{"clientNames": []any{"keda-operator.keda.svc"}}},
		"metrics":    map[string]any{"authorization": map[string]any{"enabled": true}},
		"networkPolicy": map[string]any{
			"metricsFrom": []any{namespaced("monitoring")}, "pageFrom": []any{namespaced("ingress")},
		},
		"teamConfigMaps": map[string]any{
			"namespaces": []any{"team-chat", "team-search"},
		},
		"policyStatus": map[string]any{
			"namespaces": []any{"team-chat", "team-embed"},
		},
		"files": map[string]any{"chat.yaml": "kind: ScalingPolicy\nmetadata: {name: chat}\n"},
		"platform": map[string]any{"cluster": "prod", "dataSources": []any{
			map[string]any{"name": "prom", "type": "prometheus", "address": "https://prometheus.monitoring.svc:9090"},
			map[string]any{"name": "mimir", "type": "prometheus", "address": "https://mimir.example.org/prometheus"},
			map[string]any{"name": "redis", "type": "redis", "address": "redis.team.svc:6379"},
			map[string]any{"name": "engines", "type": "scrape", "profile": "sglang"},
		}},
	}
}

// namespaced returns a NetworkPolicy peer that selects all pods of a namespace.
func namespaced(name string) map[string]any {
	return map[string]any{"namespaceSelector": map[string]any{"matchLabels": map[string]any{"kubernetes.io/metadata.name": name}}}
}

func TestModeAutoSelectsTheModeByServedAPIs(t *testing.T) {
	for _, mode := range modes {
		t.Run(mode.name, func(t *testing.T) {
			said, found := release(mode.name, mode.apis...), release("auto", mode.apis...)
			a, b := whole(t, said), whole(t, found)
			if a = strings.ReplaceAll(a, "(mode "+mode.name+")", ""); a != withoutHint(b) {
				t.Errorf("mode auto with %v does not render like mode %s", mode.apis, mode.name)
			}
		})
	}
}

// withoutHint removes the text that NOTES.txt contains only in mode auto.
func withoutHint(text string) string {
	text = strings.ReplaceAll(text, "(mode auto)", "")
	return strings.ReplaceAll(text, "After you install another of these components, run `helm upgrade`.\n", "")
}

func TestHelmLintFindsNothing(t *testing.T) {
	root, err := Directory()
	if err != nil {
		t.Fatal(err)
	}
	all := everything()
	delete(all, "hostNetwork")
	for name, values := range map[string]map[string]any{"defaults": nil, "everything": all} {
		for _, m := range lint.AllWithKubeVersion(root, values, "gpuscaler-system", nil).Messages {
			if m.Severity > support.InfoSev { // a message of severity info, that the chart has no icon, is ignored
				t.Errorf("%s: %s", name, m)
			}
		}
	}
}

func TestInvalidValuesAreRefused(t *testing.T) {
	for name, values := range map[string]map[string]any{
		"a misspelt value":            {"replica": 3},
		"a misspelled nested value":   {"externalMetrics": map[string]any{"modus": "auto"}},
		"an unknown mode":             {"mode": "kEda"},
		"a kind without its resource": {"scaleKinds": []any{map[string]any{"group": "argoproj.io", "version": "v1alpha1", "kind": "Rollout"}}},
		"pods without their replica": {"scaleKinds": []any{map[string]any{"group": "argoproj.io", "version": "v1alpha1", "kind": "Rollout",
			"resource": "rollouts", "podsPerReplica": 2}}},
		"a label that is no key": {"scaleKinds": []any{map[string]any{"group": "argoproj.io", "version": "v1alpha1", "kind": "Rollout",
			"resource": "rollouts", "nameLabel": "app in (a)"}}},
		"a wildcard":                     {"readExternalMetrics": []any{"*"}},
		"a wildcard kind":                {"scaleKinds": []any{map[string]any{"group": "*", "version": "v1", "kind": "X", "resource": "x"}}},
		"a file of the platform's name":  {"files": map[string]any{"platform.yaml": ""}},
		"no certificate":                 {"certificates": map[string]any{"source": "secret"}},
		"a ConfigMap without namespaces": {"configMaps": []any{map[string]any{"name": "team-chat"}}},
		"platform and platformConfigMap": {"platform": map[string]any{"cluster": "a"}, "platformConfigMap": "b"},
		"a page in plain text":           {"page": map[string]any{"tenants": map[string]any{"enabled": true}}},
		"a wildcard namespace":           {"activator": map[string]any{"namespaces": []any{"*"}}},
		"an invalid port":                {"page": map[string]any{"port": 99999}},
		"a memory limit without a unit that Helm can multiply": {"resources": map[string]any{"limits": map[string]any{"memory": "1e9"}}},
		"tokens that a PodMonitor cannot send": {"metrics": map[string]any{"monitor": "PodMonitor",
			"authorization": map[string]any{"enabled": true}}},
		"an expression as a namespace": {"alerts": map[string]any{"dcgmNamespaces": `".*`}},
		"no streams":                   {"keda": map[string]any{"maxStreams": 0}},
		"ConfigMaps of any namespace":  {"teamConfigMaps": map[string]any{"namespaces": []any{"*"}}},
		"the status of any namespace":  {"policyStatus": map[string]any{"namespaces": []any{"*"}}},
		"ConfigMaps of all namespaces": {"teamConfigMaps": map[string]any{"namespaces": []any{""}}},
	} {
		r := release("hpa")
		maps.Copy(r.Values, values)
		if _, err := Templates(r); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

// The alerts use a series about another pod only if a DCGM exporter in a configured namespace reports it. The chart value
// alerts.dcgmNamespaces must set these namespaces in every rule.
func TestAlertsTrustTheConfiguredNamespacesOfTheExporter(t *testing.T) {
	r := release("hpa", "monitoring.coreos.com/v1")
	r.Values["alerts"] = map[string]any{"enabled": true, "dcgmNamespaces": "dcgm|gpu-tools"}
	templates, err := Templates(r)
	if err != nil {
		t.Fatal(err)
	}
	text := ""
	for name, rendered := range templates {
		if strings.HasSuffix(name, "alerts.yaml") {
			text = rendered
		}
	}
	trusted := strings.Count(text, `namespace=~"dcgm|gpu-tools"`)
	if trusted < 9 || strings.Count(text, `namespace!~"dcgm|gpu-tools"`) != 1 || strings.Contains(text, `"gpu-operator"`) {
		t.Errorf("%d expressions name the configured namespaces:\n%s", trusted, text)
	}
}

// Every value of the schema must have a default in values.yaml, in which users look for values. The fields of the PlatformConfig (the value
// platform) are excluded, because they have a separate reference.
func TestEveryValueOfTheSchemaHasADefault(t *testing.T) {
	root, err := Directory()
	if err != nil {
		t.Fatal(err)
	}
	type schema struct{ Properties map[string]json.RawMessage }
	var compare func(at string, raw json.RawMessage, defaults map[string]any)
	compare = func(at string, raw json.RawMessage, defaults map[string]any) {
		var s schema
		if err := json.Unmarshal(raw, &s); err != nil {
			t.Fatal(err)
		}
		for name, inner := range s.Properties {
			value, ok := defaults[name]
			if !ok && at+name != "global" { // Helm adds the value global
				t.Errorf("values.yaml has no %s", at+name)
			}
			if below, is := value.(map[string]any); is && at+name != "platform" {
				compare(at+name+".", inner, below)
			}
		}
	}
	text, err := os.ReadFile(filepath.Join(root, "values.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	values, err := chartutil.ReadValuesFile(filepath.Join(root, "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	compare("", text, values)
}

// With hostNetwork, the pod's loopback address is the loopback address of the node. Every process of the node could then read the web page,
// which trusts clients on loopback. The chart must therefore not set the page's address.
func TestPageIsNotServedOnTheNodesLoopback(t *testing.T) {
	for hostNetwork, want := range map[bool]string{false: "- --page-address=127.0.0.1:8081\n", true: "- --page-address=\n"} {
		r := release("hpa")
		r.Values["hostNetwork"] = hostNetwork
		templates, err := Templates(r)
		if err != nil {
			t.Fatal(err)
		}
		deployment := templates["deployment.yaml"]
		if !strings.Contains(deployment, want) || strings.Contains(deployment, "containerPort: 8081") == hostNetwork {
			t.Errorf("hostNetwork %t: want %s", hostNetwork, want)
		}
	}
}
