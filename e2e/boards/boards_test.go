// Package boards runs every query of the chart's dashboards and alerts on a real Prometheus that scrapes gpuscaler, the DCGM exporter and
// vLLM. It fails for a dashboard panel without data.
package boards

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/karpenter/pkg/apis"
	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/gpuscaler/gpuscaler/e2e/controller"
	"github.com/gpuscaler/gpuscaler/e2e/exporter"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
	"github.com/gpuscaler/gpuscaler/e2e/workload"
)

const config = "../../config"

var suite controller.Suite

func TestMain(m *testing.M) {
	utilruntime.Must(apiextensionsv1.AddToScheme(stack.Scheme))
	os.Exit(suite.Run(m, controller.Setup{
		Nodes:      2,
		Controller: controller.Options{Values: map[string]any{"mode": "karpenter"}},
		Prepare:    nodePools,
		Platform: func(s *stack.Stack) string {
			return fmt.Sprintf("dataSources:\n- {name: prom, type: prometheus, default: true, address: %q, interval: 1s}\n"+
				"capacityGroups:\n- {name: chat, resource: nvidia.com/gpu, nodePools: {spot: l40s-spot, on-demand: l40s-ondemand}}\n", s.Prometheus.URL)
		},
	}))
}

// nodePools creates the NodePools to which the example PlatformConfig refers. Karpenter does not run.
func nodePools(ctx context.Context, s *stack.Stack) error {
	for _, crd := range apis.CRDs {
		if err := s.Client.Create(ctx, crd.DeepCopy()); err != nil {
			return err
		}
	}
	f, err := os.Open(config + "/examples/cluster/nodepools.yaml")
	if err != nil {
		return err
	}
	defer f.Close()
	documents := utilyaml.NewYAMLOrJSONDecoder(f, 4096)
	for range 2 {
		pool := &v1.NodePool{}
		if err := documents.Decode(pool); err != nil {
			return err
		}
		if err := stack.Poll(ctx, time.Minute, func(ctx context.Context) error { // waits until the API server serves the CRD
			return client.IgnoreAlreadyExists(s.Client.Create(ctx, pool.DeepCopy()))
		}); err != nil {
			return err
		}
	}
	return nil
}

// elsewhere matches the metrics of kube-state-metrics, Karpenter and the cloud provider, which do not run in this test.
var elsewhere = regexp.MustCompile(`kube_pod_|karpenter_`)

// quiet contains the titles of the panels that have no data in this test. They show only pending pods, overrides, idle GPUs or findings, or
// need a complete hour of data.
var quiet = map[string]bool{
	"Idle GPUs by namespace": true, "Spot share": true, "Active overrides": true, "Findings that need an operator": true,
	"Cost of 30 days, by team and namespace": true, "Cost of unallocated GPUs, per hour": true,
}

// optional matches queries that may return no data if another query of their panel returns data.
var optional = regexp.MustCompile(`_starting|gpuscaler_hpa_findings|gpuscaler_rejected_replicas`)

func TestEveryPanelHasData(t *testing.T) {
	ns, load := suite.Namespace(t, "team"), &exporter.Total{}
	load.Set(27)
	suite.Export(t, workload.Metrics(ns, "chat", load))
	sell(t)
	s := suite.Workload(t, workload.Deployment(ns, "chat", 3), `
maxReplicas: 6
capacityGroup: chat
signals:
- {name: queue, type: vllm, metric: requestsWaiting, target: 10}
- {name: gpu, type: dcgm, target: 90%}
`)
	stack.Eventually(t, time.Minute, "three replicas for 27 requests", s.HasTarget(3))
	scrapeOurselves(t)
	loadRules(t)
	variables := strings.NewReplacer("$namespace", ns, "$policy", "chat", "$group", ".*")
	panels := 0
	for _, p := range panelsOf(t) {
		for _, q := range p.queries {
			if elsewhere.MatchString(q) || quiet[p.title] || optional.MatchString(q) {
				continue
			}
			panels++
			stack.Eventually(t, 2*time.Minute, p.title+" has data: "+q, answered(variables.Replace(q)))
		}
	}
	if panels < 35 {
		t.Errorf("%d queries", panels)
	}
	quietRules(t)
}

// sell sets labels on the nodes with an instance type that the built-in price book contains, so that the price of the nodes is known.
func sell(t *testing.T) {
	t.Helper()
	var nodes corev1.NodeList
	if err := suite.Stack.Client.List(t.Context(), &nodes); err != nil {
		t.Fatal(err)
	}
	for i := range nodes.Items {
		labelled := client.MergeFrom(nodes.Items[i].DeepCopy())
		nodes.Items[i].Labels[corev1.LabelInstanceTypeStable], nodes.Items[i].Labels[corev1.LabelTopologyRegion] = "g6e.xlarge", "us-east-1"
		if err := suite.Stack.Client.Patch(t.Context(), &nodes.Items[i], labelled); err != nil {
			t.Fatal(err)
		}
	}
}

// scrapeOurselves makes Prometheus scrape gpuscaler's pods.
func scrapeOurselves(t *testing.T) {
	t.Helper()
	pods, err := suite.Pods(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var targets []stack.ScrapeTarget
	for i := range pods {
		targets = append(targets, stack.ScrapeTarget{Address: pods[i].Status.PodIP + ":8080",
			Labels: map[string]string{"job": "gpuscaler", "pod": pods[i].Name}})
	}
	if err := suite.Stack.Prometheus.Targets("gpuscaler", targets...); err != nil {
		t.Fatal(err)
	}
}

// loadRules restarts Prometheus with the chart's recording rules and alerts, which it evaluates every second.
func loadRules(t *testing.T) {
	t.Helper()
	text, err := os.ReadFile(config + "/alerts/gpuscaler.yaml")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(suite.Stack.Dir, "prometheus")
	main, err := os.ReadFile(filepath.Join(dir, "prometheus.yml"))
	if err != nil {
		t.Fatal(err)
	}
	fast := strings.Replace(string(main), "global:\n", "rule_files: [rules.yml]\nglobal:\n  evaluation_interval: 1s\n", 1)
	for name, text := range map[string]string{"rules.yml": strings.ReplaceAll(string(text), "interval: 30s", "interval: 1s"),
		"prometheus.yml": fast} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := suite.Stack.Prometheus.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := suite.Stack.Prometheus.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
}

type panel struct {
	title   string
	queries []string
}

func panelsOf(t *testing.T) (all []panel) {
	t.Helper()
	boards, err := filepath.Glob(config + "/dashboards/*.json")
	if err != nil || len(boards) < 2 {
		t.Fatalf("%d dashboards (%v)", len(boards), err)
	}
	for _, path := range boards {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var board struct {
			Panels []struct {
				Title   string
				Targets []struct{ Expr string }
			}
		}
		if err := json.Unmarshal(text, &board); err != nil {
			t.Fatal(err)
		}
		for _, p := range board.Panels {
			one := panel{title: p.Title}
			for _, q := range p.Targets {
				one.queries = append(one.queries, q.Expr)
			}
			all = append(all, one)
		}
	}
	return all
}

// ask sends a GET request to the API of Prometheus and decodes the response into `into`.
func ask(ctx context.Context, path string, query url.Values, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, suite.Stack.Prometheus.URL+path+"?"+query.Encode(), nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	return json.NewDecoder(response.Body).Decode(into)
}

func answered(query string) func(context.Context) error {
	return func(ctx context.Context) error {
		var answer struct {
			Status, Error string
			Data          struct{ Result []json.RawMessage }
		}
		switch err := ask(ctx, "/api/v1/query", url.Values{"query": {query}}, &answer); {
		case err != nil:
			return err
		case answer.Status != "success":
			return fmt.Errorf("%s: %s", answer.Status, answer.Error)
		case len(answer.Data.Result) == 0:
			return fmt.Errorf("no series")
		}
		return nil
	}
}

// quietRules fails the test if a rule was not evaluated or had an error, or if an alert fires. No alert may fire, because the cluster has
// no fault.
func quietRules(t *testing.T) {
	t.Helper()
	var answer struct {
		Data struct {
			Groups []struct {
				Rules []struct{ Name, Type, Health, State, LastError string }
			}
		}
	}
	if err := ask(t.Context(), "/api/v1/rules", nil, &answer); err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, g := range answer.Data.Groups {
		for _, r := range g.Rules {
			seen++
			if r.Health != "ok" || r.State == "firing" {
				t.Errorf("%s: %s %s %s", r.Name, r.Health, r.State, r.LastError)
			}
		}
	}
	if seen < 20 {
		t.Errorf("%d rules", seen)
	}
}
