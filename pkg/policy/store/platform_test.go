package store_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	promconfig "github.com/prometheus/common/config"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/spec"
	"github.com/gpuscaler/gpuscaler/pkg/policy/store"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

func platformOf(t *testing.T, written string) *policy.Platform {
	t.Helper()
	f := newFolder(t)
	f.write("p.yaml", platform(written))
	policies := store.New(store.Options{})
	if report := policies.Load(f.path); len(report.Problems) > 0 {
		t.Fatalf("%s", policy.Render(report.Problems))
	}
	return policies.Platform()
}

func TestTheShippedPlatformCompilesAsDocumented(t *testing.T) {
	policies := store.New(store.Options{})
	policies.Load(filepath.Join(examples, "platform.yaml"))
	p := policies.Platform()
	if p.Name != "prod-use1" || p.Cluster != "prod-use1" || p.Mode != scaling.Auto || !strings.HasPrefix(p.Origin, "platform.yaml@") {
		t.Errorf("platform %+v", p)
	}
	prom := p.DataSource("prom")
	if prom.Interval != 15*time.Second || prom.Timeout != 10*time.Second || prom.MaxBytes != 32<<20 || prom.MaxSeries != 50_000 ||
		prom.NamespaceLabel != "namespace" {
		t.Errorf("prom %+v", prom)
	}
	if redis := p.DataSource("redis-embed"); redis.PasswordFile != "/etc/gpuscaler/secrets/redis-embed/password" ||
		redis.Allows("team-chat") || !redis.Allows("team-embed") {
		t.Errorf("redis %+v", redis)
	}
	if q := p.Query("gateway-queue"); !q.ExistsAtZero || q.NamespaceLabel != "namespace" ||
		!strings.Contains(q.PromQL, `{cluster="prod-use1"}`) {
		t.Errorf("query %+v", q)
	}
	if team := p.Team("team-chat"); team.Name != "chat" || team.Limits["nvidia.com/gpu"] != 32 || team.Bounds.Max != 24 {
		t.Errorf("team %+v", team)
	}
	chat, batch := p.Group("chat"), p.Group("batch")
	if !slices.Equal(chat.NodePools["spot"], []string{"l40s-spot"}) || chat.OnDemandBaseCapacity != 1 ||
		time.Duration(chat.SpotWaitTimeout) != 2*time.Minute || chat.ReturnNodesPerHour != 4 ||
		batch.ReturnNodesPerHour != capacity.DefaultReturn {
		t.Errorf("groups %+v %+v", chat, batch)
	}
	monday := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	if open, _ := chat.Windows[0].Window.At(monday); !open || chat.Windows[0].Disruption.ConsolidateAfter != "Never" ||
		len(chat.Windows[0].NodePools) != 2 {
		t.Errorf("window %+v", chat.Windows[0])
	}
	if o := p.Prices.Overrides[0]; o.InstanceType != "p5.48xlarge" || *o.Hourly != 36.9 {
		t.Errorf("price %+v", o)
	}
	if p.Team("other") != nil || p.DataSource("x") != nil || p.Query("x") != nil || p.Group("x") != nil {
		t.Error("found an entry that does not exist")
	}
}

// The block http has the same fields as Prometheus' http_config. Prometheus' own parser must therefore accept every block that gpuscaler
// accepts.
func TestTheHTTPBlockIsAcceptedByPrometheus(t *testing.T) {
	for _, block := range []string{
		`{}`,
		`{basic_auth: {username: u, password_file: /p}}`,
		`{basic_auth: {username_file: /u, password_file: /p}, proxy_url: "http://proxy:3128", no_proxy: "10.0.0.0/8"}`,
		`{authorization: {credentials_file: /t}}`,
		`{authorization: {type: Token, credentials_file: /t}, follow_redirects: false, enable_http2: false}`,
		`{oauth2: {client_id: id, client_secret_file: /s, token_url: "https://idp/token", scopes: [a], endpoint_params: {resource: x}, ` +
			`tls_config: {ca_file: /ca}}}`,
		`{tls_config: {ca_file: /ca, cert_file: /c, key_file: /k, server_name: n, min_version: TLS13, insecure_skip_verify: true}}`,
	} {
		p := platformOf(t, `dataSources: [{name: prom, type: prometheus, address: "https://prom", http: `+block+`}]`)
		text, err := p.DataSource("prom").HTTP.YAML()
		if err != nil {
			t.Fatal(err)
		}
		got, err := promconfig.LoadHTTPConfig(text)
		if err != nil {
			t.Errorf("%s becomes\n%s%v", block, text, err)
			continue
		}
		if got.FollowRedirects || got.EnableHTTP2 == strings.Contains(block, "enable_http2: false") {
			t.Errorf("%s: follow %v, HTTP/2 %v", block, got.FollowRedirects, got.EnableHTTP2)
		}
	}
	var none *spec.HTTP
	if text, err := none.YAML(); err != nil || !strings.Contains(text, "follow_redirects: false") {
		t.Errorf("%q %v", text, err)
	}
}

func TestBoundsNarrowAndNeverWiden(t *testing.T) {
	for _, c := range []struct {
		bounds                       policy.Bounds
		low, high, wantLow, wantHigh int32
	}{
		{policy.Bounds{}, 1, 5, 1, 5},
		{policy.Bounds{Max: 3}, 1, 5, 1, 3},
		{policy.Bounds{Max: 3}, 4, 5, 3, 3},
		{policy.Bounds{Min: 2}, 0, 5, 2, 5},
		{policy.Bounds{Min: 7}, 0, 5, 7, 7},
		{policy.Bounds{Min: 2, Max: 9}, 3, 8, 3, 8},
	} {
		if low, high := c.bounds.Narrow(c.low, c.high); low != c.wantLow || high != c.wantHigh {
			t.Errorf("%+v of %d..%d is %d..%d", c.bounds, c.low, c.high, low, high)
		}
	}
}

// A policy with minReplicas 0 must be accepted only if a signal has a value at zero replicas, or if a schedule has minReplicas above 0. If
// a query does not set existsAtZero, the names of its metrics determine whether it has a value at zero replicas.
func TestAPolicyWithMinReplicasZeroNeedsASignalAtZero(t *testing.T) {
	for _, c := range []struct {
		name, query, signals, schedules string
		wakes                           bool
	}{
		{"a gateway's queue", "gateway_queue", `[{name: a, type: prometheus, queryRef: q, target: 1}]`, "", true},
		{"a query of pods", "sum by (namespace, pool) (vllm:num_requests_waiting)", `[{name: a, type: prometheus, queryRef: q, target: 1}]`,
			"", false},
		{"a query of pods and of a gateway", "vllm:num_requests_waiting or gateway_queue",
			`[{name: a, type: prometheus, queryRef: q, target: 1}]`, "", true},
		{"a query without a name", `{__name__=~"vllm.*"}`, `[{name: a, type: prometheus, queryRef: q, target: 1}]`, "", true},
		{"a query with existsAtZero: false", `gateway_queue", existsAtZero: false, namespaceLabel: "namespace`,
			`[{name: a, type: prometheus, queryRef: q, target: 1}]`, "", false},
		{"a query of pods with existsAtZero: true", `DCGM_X", existsAtZero: true, namespaceLabel: "namespace`,
			`[{name: a, type: prometheus, queryRef: q, target: 1}]`, "", true},
		{"a metric of the tenant", "q", `[{name: a, type: prometheus, metric: backlog, target: 1}]`, "", true},
		{"a metric of the pods", "q", `[{name: a, type: prometheus, metric: "vllm:num_requests_waiting", target: 1}]`, "", false},
		{"vLLM and DCGM", "q", `[{name: a, type: vllm, target: 1}, {name: b, type: dcgm, target: 70}]`, "", false},
		{"vLLM and a list", "q", `[{name: a, type: vllm, target: 1}, {name: b, type: redis, listName: l, target: 70}]`, "", true},
		{"KEDA", "q", `[{name: a, type: keda, trigger: t, target: 1}]`, "", true},
		{"vLLM and minReplicas in office hours", "q", `[{name: a, type: vllm, target: 1}]`,
			`[{name: o, timezone: Etc/UTC, start: "0 8 * * *", end: "0 18 * * *", minReplicas: 1}]`, true},
		{"vLLM and minReplicas 0 in office hours", "q", `[{name: a, type: vllm, target: 1}]`,
			`[{name: o, timezone: Etc/UTC, start: "0 8 * * *", end: "0 18 * * *", minReplicas: 0}]`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFolder(t)
			f.write("p.yaml", platform(`dataSources: [{name: prom, type: prometheus, address: "http://prom"}, {name: r, type: redis, address: `+
				`"r:1"}], queries: [{name: q, workloadLabel: pool, query: "`+strings.ReplaceAll(c.query, `{__name__=~"vllm.*"}`,
				`{__name__=~'vllm.*'}`)+`"}]`))
			text := simple("a", 3)
			text = text[:strings.Index(text, "  signals:")] + "  minReplicas: 0\n  signals: " + c.signals + "\n"
			if c.schedules != "" {
				text += "  schedules: " + c.schedules + "\n"
			}
			f.write("a.yaml", text)
			policies := store.New(store.Options{})
			report := policies.Load(f.path)
			refused := strings.Contains(policy.Render(report.Problems), "nothing would scale the workload up from zero")
			if refused == c.wakes || (policies.Find(key("a")) != nil) != c.wakes {
				t.Errorf("accepted %v, want %v\n%s", !refused, c.wakes, policy.Render(report.Problems))
			}
		})
	}
}

// GPU memory remains allocated while a model is loaded. As a signal without activationTarget, it would keep a workload with minReplicas 0
// active forever. Such a policy must be refused.
func TestGPUMemoryAloneDoesNotPreventZero(t *testing.T) {
	for _, c := range []struct {
		name, signal, rest string
		refused            bool
	}{
		{"no activationTarget", `{name: m, type: dcgm, metric: memory, target: 80%}`, "  minReplicas: 0\n", true},
		{"an activationTarget of 0", `{name: m, type: dcgm, metric: memory, target: 80%, activationTarget: 0}`, "  minReplicas: 0\n", true},
		{"an activationTarget", `{name: m, type: dcgm, metric: memory, target: 80%, activationTarget: 60%}`, "  minReplicas: 0\n", false},
		{"all signals must be active", `{name: m, type: dcgm, metric: memory, target: 80%}`, "  minReplicas: 0\n  activation: all\n", false},
		{"minReplicas is above zero", `{name: m, type: dcgm, metric: memory, target: 80%}`, "  minReplicas: 1\n", false},
		{"activity is 0 without demand", `{name: m, type: dcgm, target: 80%}`, "  minReplicas: 0\n", false},
	} {
		f := newFolder(t)
		f.write("p.yaml", platform(`dataSources: [{name: prom, type: prometheus, address: "http://prom"}, {name: r, type: `+
			`redis, address: "r:1"}]`))
		text := simple("a", 3)
		f.write("a.yaml", text[:strings.Index(text, "  signals:")]+c.rest+"  signals: ["+c.signal+
			", {name: q, type: redis, listName: l, target: 5}]\n")
		policies := store.New(store.Options{})
		report := policies.Load(f.path)
		refused := strings.Contains(policy.Render(report.Problems), "spec.signals[0].activationTarget")
		if refused != c.refused || (policies.Find(key("a")) != nil) == c.refused {
			t.Errorf("%s: refused %t, want %t\n%s", c.name, refused, c.refused, policy.Render(report.Problems))
		}
	}
}

func TestAMetricOfATenantSelectsOnlyItsNamespace(t *testing.T) {
	for _, c := range []struct{ signal, want string }{
		{`metric: backlog, target: 10`, `sum by (namespace) (backlog{cluster="c",namespace="team-chat"})`},
		{`metric: backlog, target: 10, metricType: Value`, `avg by (namespace) (backlog{cluster="c",namespace="team-chat"})`},
		{`metric: backlog, target: 10, aggregate: max, matchLabels: {b: "2", a: "1\"} or up{x=\""}`,
			`max by (namespace) (backlog{a="1\"} or up{x=\"",b="2",cluster="c",namespace="team-chat"})`},
		{`metric: requests_total, rate: 90s, target: 10`, `sum by (namespace) (rate(requests_total{cluster="c",namespace="team-chat"}[1m30s]))`},
		{`metric: ttft_seconds, quantile: 0.95, target: 1s`,
			`histogram_quantile(0.95, sum by (le, namespace) (rate(ttft_seconds_bucket{cluster="c",namespace="team-chat"}[2m])))`},
		{`metric: ttft_seconds, window: 5m, target: 1s`,
			`sum by (namespace) (rate(ttft_seconds_sum{cluster="c",namespace="team-chat"}[5m])) / sum by (namespace) ` +
				`(rate(ttft_seconds_count{cluster="c",namespace="team-chat"}[5m]))`},
	} {
		f := newFolder(t)
		f.write("p.yaml", platform(`dataSources: [{name: prom, type: prometheus, address: "http://prom", matchers: {cluster: c}}]`))
		f.write("a.yaml", strings.Replace(simple("a", 3), "type: vllm, target: 10", "type: prometheus, "+c.signal, 1))
		policies := store.New(store.Options{})
		report := policies.Load(f.path)
		got := policies.Find(key("a"))
		if got == nil || got.Sources[0].Query != c.want || got.Sources[0].NamespaceLabel != "namespace" || got.Sources[0].WorkloadLabel != "" {
			t.Errorf("%s\n got %+v\nwant %s\n%s", c.signal, got, c.want, policy.Render(report.Problems))
		}
	}
}

// The platform team changes fields of the PlatformConfig on which no policy depends. The policies must not be compiled again, because
// decisions recognize an edited policy by its new compiled form. After a change of a bound, they must be compiled.
func TestFieldsWithoutInfluenceOnPoliciesDoNotCompileThem(t *testing.T) {
	f := newFolder(t)
	f.write("a.yaml", simple("a", 3))
	policies := store.New(store.Options{})
	load := func(team, other string) *scaling.Policy {
		t.Helper()
		f.write("p.yaml", platform("teams: [{name: chat, namespaces: [team-chat], limits: {nvidia.com/gpu: 32}"+team+"}]"+other))
		if report := policies.Load(f.path); policy.Errors(report.Problems) > 0 {
			t.Fatal(policy.Render(report.Problems))
		}
		return policies.Current()[0].Policy
	}
	first := load("", "")
	for _, c := range []struct{ team, other string }{
		{", policyStatus: true", ""}, {", policyStatus: true, configMaps: true", ""}, {"", ", cluster: prod"},
		{"", ", prices: {region: eu-west-1}"}, {"", ""},
	} {
		if got := load(c.team, c.other); got != first {
			t.Errorf("%s%s: the policy was compiled again", c.team, c.other)
		}
	}
	if statuses, known := policies.CarrierStatuses(); !known || len(statuses) > 0 {
		t.Errorf("carriers %v, known %v", statuses, known)
	}
	if got := load(", bounds: {maxReplicas: 2}", ""); got == first || got.MaxReplicas != 2 {
		t.Errorf("maxReplicas %d with a bound of 2", got.MaxReplicas)
	}
}

// A document that is not valid YAML must not affect other documents, with one exception: if it may be the PlatformConfig, all policies must
// have mode hold.
func TestAnUnreadableDocumentCausesAHoldOnlyIfItMayBeThePlatform(t *testing.T) {
	for text, want := range map[string]scaling.Mode{"{not yaml": scaling.Auto, "kind: PlatformConfig\nspec: {": scaling.Hold} {
		f := newFolder(t)
		f.write("a.yaml", simple("a", 3))
		f.write("b.yaml", text)
		policies := store.New(store.Options{})
		policies.Load(f.path)
		if w := policies.Current(); len(w) != 1 || w[0].Mode != want {
			t.Errorf("%q: in force %+v", text, w)
		}
	}
	f := newFolder(t)
	f.write("a.yaml", simple("a", 3))
	policies := store.New(store.Options{})
	report := policies.Load(f.path, filepath.Join(f.path, "platform-that-is-missing.yaml"))
	if w := policies.Current(); len(w) != 1 || w[0].Mode != scaling.Hold || policy.Errors(report.Problems) != 1 {
		t.Errorf("a missing file: in force %+v\n%s", w, policy.Render(report.Problems))
	}
	if err := os.WriteFile(filepath.Join(f.path, "platform-that-is-missing.yaml"), []byte(platform("")), 0o600); err != nil {
		t.Fatal(err)
	}
	policies.Load(f.path, filepath.Join(f.path, "platform-that-is-missing.yaml"))
	if w := policies.Current(); len(w) != 1 || w[0].Mode != scaling.Auto {
		t.Errorf("after it was added: in force %+v", w)
	}
}

func TestADirectoryWithoutDocumentsIsAProblem(t *testing.T) {
	f := newFolder(t)
	f.write("README.md", "nothing")
	f.write("empty.yaml", "# nothing\n---\n")
	for _, p := range []string{f.path, filepath.Join(f.path, "empty.yaml")} {
		if problems := store.Validate(p); policy.Errors(problems) != 1 || problems[0].Message != "contains no documents" {
			t.Errorf("%s:\n%s", p, policy.Render(problems))
		}
	}
	if problems := store.Validate(filepath.Join(f.path, "missing")); policy.Errors(problems) != 1 ||
		!strings.Contains(problems[0].Message, "no such file") {
		t.Errorf("missing:\n%s", policy.Render(problems))
	}
}

// For each type of model server, a policy with each of its metrics must be accepted.
func TestEveryMetricOfEveryTypeIsAccepted(t *testing.T) {
	for _, engine := range policy.ModelServers() {
		metrics := policy.Metrics(engine)
		if len(metrics) == 0 {
			t.Errorf("%s has no metric", engine)
		}
		for _, m := range metrics {
			target := map[scaling.Unit]string{scaling.Count: "10", scaling.Percent: "80%", scaling.Seconds: "500ms"}[m.Unit]
			text := fmt.Sprintf("apiVersion: gpuscaler.io/v1alpha1\nkind: ScalingPolicy\nmetadata: {name: a, namespace: b}\nspec:\n"+
				"  scaleTargetRef: {name: a}\n  maxReplicas: 4\n  signals:\n  - {name: s, type: %s, metric: %s, target: %s}\n", engine, m.Name, target)
			if problems := validateTexts(t, map[string]string{"policy.yaml": text}); len(problems) > 0 {
				t.Errorf("%s %s:\n%s", engine, m.Name, policy.Render(problems))
			}
		}
	}
}
