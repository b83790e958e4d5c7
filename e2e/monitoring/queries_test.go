package monitoring

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/prometheus/prometheus/rules"

	"github.com/gpuscaler/gpuscaler/pkg/telemetry/exposition"
)

// served maps the names of metrics to the names of their labels; nil: the labels are not checked.
type served map[string][]string

var (
	// target contains the labels that Prometheus adds to every scraped series.
	target = []string{"instance", "job", "pod", "container", "endpoint", "service", model.MetricNameLabel}

	row = regexp.MustCompile("^\\| `(gpuscaler_[a-z_]+)` \\| (\\w+) \\| ([a-z_, ]*) \\|")

	// foreign contains the metrics of other components that queries use. The comment of an entry names the file that documents the metric.
	foreign = served{
		"DCGM_FI_DEV_GPU_TEMP":                           nil, // dcgm-exporter, etc/default-counters.csv
		"DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL":             nil,
		"DCGM_FI_PROF_NVLINK_TX_BYTES":                   nil, // etc/dcp-metrics-included.csv, where the metric is commented out
		"DCGM_FI_PROF_NVLINK_RX_BYTES":                   nil,
		"kube_pod_owner":                                 {"namespace", "pod", "owner_kind", "owner_name"},
		"kube_pod_created":                               {"namespace", "pod", "uid"}, // kube-state-metrics, docs/metrics/workload/pod-metrics.md
		"kube_pod_status_ready_time":                     {"namespace", "pod", "uid"},
		"karpenter_nodeclaims_disrupted_total":           {"reason", "nodepool", "capacity_type"}, // Karpenter, pkg/metrics/metrics.go
		"karpenter_interruption_received_messages_total": {"message_type"},                        // Karpenter's AWS provider
		"process_resident_memory_bytes":                  {},
	}
)

// everything returns all metrics that a query may use: gpuscaler's metrics, the results of recording rules, and the metrics of the
// exporters.
func everything(t *testing.T) served {
	t.Helper()
	all := served{}
	text, err := os.ReadFile(root + "/config/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(string(text), "\n") {
		m := row.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		labels := strings.FieldsFunc(m[3], func(r rune) bool { return r == ',' || r == ' ' })
		all[m[1]] = labels
		if m[2] == "histogram" {
			all[m[1]+"_bucket"], all[m[1]+"_sum"], all[m[1]+"_count"] = append(labels, "le"), labels, labels
		}
	}
	if len(all) < 30 {
		t.Fatalf("config/metrics.md lists %d metrics", len(all))
	}
	for _, g := range groups(t, &rules.ManagerOptions{}) {
		for _, r := range g.Rules() {
			if _, recorded := r.(*rules.RecordingRule); recorded {
				all[r.Name()] = []string{"namespace", "pod", "UUID", "GPU_I_ID", "modelName", "by"}
			}
		}
	}
	for _, name := range exposition.DCGMNames(exposition.Activity, exposition.Memory, exposition.TensorActivity, exposition.DRAMActivity) {
		all[name] = nil
	}
	for _, name := range engineNames(t) {
		all[name] = nil
	}
	for name, labels := range foreign {
		all[name] = labels
	}
	return all
}

// engineNames returns the names of the series that the profile of vLLM reads.
func engineNames(t *testing.T) (names []string) {
	t.Helper()
	profile, ok := exposition.Engine("vllm")
	if !ok {
		t.Fatal("no profile vllm")
	}
	for _, m := range profile.Metrics {
		for _, s := range m.From {
			names = append(names, s.Name)
		}
	}
	return names
}

// query is a PromQL expression, with the rule or the dashboard panel that contains it.
type query struct{ where, expr string }

func shippedQueries(t *testing.T) (all []query) {
	t.Helper()
	for _, g := range groups(t, &rules.ManagerOptions{}) {
		for _, r := range g.Rules() {
			all = append(all, query{"rule " + r.Name(), r.Query().String()})
		}
	}
	boards, _ := filepath.Glob(root + "/config/dashboards/*.json")
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
			Templating struct {
				List []struct {
					Name  string
					Type  string
					Query json.RawMessage
				}
			}
		}
		if err := json.Unmarshal(text, &board); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		for _, p := range board.Panels {
			for _, q := range p.Targets {
				all = append(all, query{filepath.Base(path) + ", " + p.Title, q.Expr})
			}
		}
		for _, v := range board.Templating.List {
			var q struct{ Query string }
			if v.Type != "query" {
				continue
			}
			if err := json.Unmarshal(v.Query, &q); err != nil {
				t.Fatal(err)
			}
			inner, _, found := strings.Cut(strings.TrimPrefix(q.Query, "label_values("), ", ")
			if !found {
				t.Errorf("%s: variable %s: %s", path, v.Name, q.Query)
			}
			all = append(all, query{filepath.Base(path) + ", variable " + v.Name, inner})
		}
	}
	return all
}

// variables replaces Grafana's variables by values, as Grafana does before Prometheus evaluates the query.
var variables = strings.NewReplacer("$namespace", "team", "$policy", "chat", "$group", ".*")

func TestEveryQueryUsesServedMetrics(t *testing.T) {
	known, asked := everything(t), map[string]bool{}
	queries := shippedQueries(t)
	if len(queries) < 60 {
		t.Fatalf("%d queries", len(queries))
	}
	for _, q := range queries {
		expr, err := parser.NewParser(parser.Options{}).ParseExpr(variables.Replace(q.expr))
		if err != nil {
			t.Errorf("%s: %v\n%s", q.where, err, q.expr)
			continue
		}
		parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
			selector, ok := node.(*parser.VectorSelector)
			if !ok {
				return nil
			}
			labels, ok := known[selector.Name]
			if !ok {
				t.Errorf("%s: no component serves %s", q.where, selector.Name)
			}
			asked[selector.Name] = true
			for _, m := range selector.LabelMatchers {
				if labels != nil && !slices.Contains(labels, m.Name) && !slices.Contains(target, m.Name) {
					t.Errorf("%s: %s has no label %s", q.where, selector.Name, m.Name)
				}
			}
			return nil
		})
	}
	for name := range foreign { // an entry that no query uses is an error, because its name may be misspelled
		if !asked[name] {
			t.Errorf("no query uses %s", name)
		}
	}
}

// The labels in a by clause must exist on a metric in the aggregated expression.
func TestGroupedLabelsExist(t *testing.T) {
	known := everything(t)
	for _, q := range shippedQueries(t) {
		expr, err := parser.NewParser(parser.Options{}).ParseExpr(variables.Replace(q.expr))
		if err != nil {
			continue // another test reports unknown metrics
		}
		parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
			a, ok := node.(*parser.AggregateExpr)
			if !ok || a.Without {
				return nil
			}
			for _, label := range a.Grouping {
				if !anyHas(known, a.Expr, label) {
					t.Errorf("%s: no metric in %s has the label %s", q.where, a.Expr, label)
				}
			}
			return nil
		})
	}
}

func anyHas(known served, expr parser.Expr, label string) (has bool) {
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		if s, ok := node.(*parser.VectorSelector); ok {
			labels := known[s.Name]
			has = has || labels == nil || slices.Contains(labels, label) || slices.Contains(target, label)
		}
		return nil
	})
	return has
}

func TestDashboardsAreComplete(t *testing.T) {
	boards, _ := filepath.Glob(root + "/config/dashboards/*.json")
	uids, linked := map[string]string{}, map[string][]string{}
	for _, path := range boards {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var board struct {
			UID, Title string
			Links      []struct{ URL string }
			Panels     []struct {
				ID                       int
				Title, Type, Description string
				Targets                  []struct{ Datasource struct{ UID string } }
				GridPos                  struct{ X, Y, W, H int }
				Datasource               struct{ UID string }
			}
		}
		if err := json.Unmarshal(text, &board); err != nil {
			t.Fatal(err)
		}
		if uids[board.UID] != "" || board.UID == "" || board.Title == "" {
			t.Errorf("%s: uid %q, title %q", path, board.UID, board.Title)
		}
		uids[board.UID] = path
		runbooks := repository(t) + "/blob/main/config/runbooks/README.md"
		for _, address := range address.FindAllString(string(text), -1) {
			if address != runbooks && address != "http://127.0.0.1:8081" {
				t.Errorf("%s contains the address %s, but only the runbooks and `gpuscaler page` may be linked", path, address)
			}
		}
		var links []string
		for _, l := range board.Links {
			links = append(links, l.URL)
		}
		linked[board.UID] = links
		if page := slices.ContainsFunc(links, func(l string) bool { return strings.HasPrefix(l, "${page}/") }); !page ||
			!slices.Contains(links, runbooks) {
			t.Errorf("%s links to %q, want the page and the runbooks among them", path, links)
		}
		ids := map[int]bool{}
		for i, p := range board.Panels {
			if p.Type != "row" && p.Description == "" {
				t.Errorf("%s: the panel %q has no description", path, p.Title)
			}
			if ids[p.ID] || p.Title == "" || p.GridPos.X+p.GridPos.W > 24 {
				t.Errorf("%s: panel %d %q at %+v", path, p.ID, p.Title, p.GridPos)
			}
			ids[p.ID] = true
			for _, q := range board.Panels[:i] {
				if p.GridPos.X < q.GridPos.X+q.GridPos.W && q.GridPos.X < p.GridPos.X+p.GridPos.W &&
					p.GridPos.Y < q.GridPos.Y+q.GridPos.H && q.GridPos.Y < p.GridPos.Y+p.GridPos.H {
					t.Errorf("%s: %q lies over %q", path, p.Title, q.Title)
				}
			}
			if p.Type != "row" && p.Datasource.UID != "${datasource}" {
				t.Errorf("%s: %q asks %q", path, p.Title, p.Datasource.UID)
			}
		}
	}
	for from, links := range linked {
		for to := range uids {
			if from != to && !slices.Contains(links, "/d/"+to) {
				t.Errorf("the dashboard %s has no link to %s", from, to)
			}
		}
	}
}

var address = regexp.MustCompile(`https?://[^"]+`)
