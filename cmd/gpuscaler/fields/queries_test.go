package fields_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"go.yaml.in/yaml/v3"
	"k8s.io/client-go/rest"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/promtest"
)

// metricSeries are the series of the probes' Prometheus servers, with one sample a minute.
const metricSeries = `queue_size{namespace="team-chat",pool="llama",app="a",tenant="x"} 30x30
queue_size{namespace="team-chat",pool="llama",app="b",tenant="y"} 70x30
queue_size{namespace="team-chat",pool="other",app="a",tenant="x"} 50x30
other_size{namespace="team-chat",pool="llama"} 90x30
other_size{team="team-chat",pool="llama"} 11x30
other_size{namespace="team-chat",deployment="llama"} 12x30
requests_total{namespace="team-chat"} 0+60x30
seconds_bucket{namespace="team-chat",le="1"} 0+50x30
seconds_bucket{namespace="team-chat",le="10"} 0+90x30
seconds_bucket{namespace="team-chat",le="+Inf"} 0+100x30
seconds_sum{namespace="team-chat"} 0+200x30
seconds_count{namespace="team-chat"} 0+100x30
vllm:num_requests_waiting{namespace="team-chat",pod="llama-0"} 40x30
vllm:num_requests_waiting{kubernetes_namespace="team-chat",pod="llama-0"} 41x30
vllm:num_requests_waiting{namespace="team-chat",kubernetes_pod="llama-0"} 42x30
kueue_local_queue_pending_workloads{namespace="kueue-system",pod="kueue-0",exported_namespace="team-chat",` +
	`name="batch",status="active"} 30x30
kueue_local_queue_pending_workloads{namespace="kueue-system",pod="kueue-0",exported_namespace="team-chat",` +
	`name="night",status="active"} 31x30
kueue_pending_workloads{namespace="kueue-system",pod="kueue-0",cluster_queue="gpu",status="active"} 20x30
kueue_pending_workloads{namespace="kueue-system",pod="kueue-0",cluster_queue="all",status="active"} 21x30
kueue_pending_workloads{namespace="elsewhere",pod="kueue-0",cluster_queue="gpu",status="active"} 22x30
DCGM_FI_PROF_GR_ENGINE_ACTIVE{UUID="GPU-0",gpu="0",namespace="gpu-operator",pod="exporter-0",exported_namespace="team-chat",` +
	`exported_pod="llama-0"} 0.5x30
`

// podPage is the content of the pods' /metrics.
const podPage = `# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{model_name="m"} 12
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{model_name="m"} 5
# TYPE sglang:num_queue_reqs gauge
sglang:num_queue_reqs{model_name="m"} 9
# TYPE vllm:time_to_first_token_seconds histogram
vllm:time_to_first_token_seconds_bucket{model_name="m",le="1"} 50
vllm:time_to_first_token_seconds_bucket{model_name="m",le="+Inf"} 100
vllm:time_to_first_token_seconds_sum{model_name="m"} 150
vllm:time_to_first_token_seconds_count{model_name="m"} 100
# TYPE DCGM_FI_PROF_GR_ENGINE_ACTIVE gauge
DCGM_FI_PROF_GR_ENGINE_ACTIVE{UUID="GPU-0",gpu="0",exported_namespace="team-chat",exported_pod="llama-0",` +
	`namespace="team-chat",pod="llama-0"} 0.6
`

// journal records the requests to the test's servers. It contains each distinct line with the number of its occurrences.
type journal struct {
	mu    sync.Mutex
	lines map[string]int
}

func (j *journal) write(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.lines == nil {
		j.lines = map[string]int{}
	}
	j.lines[fmt.Sprintf(format, args...)]++
}

func (j *journal) all() (out []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for line := range j.lines {
		out = append(out, line)
	}
	slices.Sort(out)
	return out
}

// times returns the number of recorded requests whose line contains the given word.
func (j *journal) times(word string) (n int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for line, count := range j.lines {
		if strings.Contains(line, word) {
			n += count
		}
	}
	return n
}

// sources are the servers that the documents refer to by placeholders.
type sources struct {
	*journal
	wait     time.Duration // delay of a Prometheus server's responses
	replaces []string      // placeholders, each followed by the address that replaces it
	redis    *miniredis.Miniredis
	kube     *rest.Config
	twice    bool // wait for a second poll
}

// openSources starts the servers for all data sources of the probes.
func openSources(t *testing.T) *sources {
	t.Helper()
	s := &sources{journal: &journal{}}
	data := promtest.Serve(t, time.Now().Add(-15*time.Minute).Truncate(time.Minute), metricSeries)
	for _, name := range []string{"prom", "prom2"} {
		s.replaces = append(s.replaces, "http://"+name+":9090", s.serve(t, httptest.NewServer(s.prometheus(t, name, data.URL))))
	}
	for _, name := range []string{"8000", "8001"} {
		at, _ := url.Parse(s.serve(t, httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			s.write("pod:%s %s", name, r.URL.Path)
			if r.URL.Path == "/metrics" || r.URL.Path == "/other" {
				_, _ = io.WriteString(w, podPage)
			}
		}))))
		s.replaces = append(s.replaces, "port: "+name, "port: "+at.Port())
	}
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.write("kubernetes %s?%s", r.URL.Path, r.URL.Query().Get("labelSelector"))
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"kind":"ExternalMetricValueList","apiVersion":"external.metrics.k8s.io/v1beta1","metadata":{},`+
			`"items":[{"metricName":"m","metricLabels":{},"timestamp":%q,"value":"7"}]}`,
			time.Now().UTC().Format(time.RFC3339))
	}))
	s.kube = &rest.Config{Host: s.serve(t, api)}
	s.openRedis(t)
	return s
}

func (s *sources) serve(t *testing.T, server *httptest.Server) string {
	t.Cleanup(server.Close)
	return server.URL
}

// prometheus returns a handler that records the queries and evaluates them with the query engine of Prometheus.
func (s *sources) prometheus(t *testing.T, name, data string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		s.write("%s%s %s %s", name, r.URL.Path, r.Form.Get("query"), strings.Join(strings.Fields(r.Header.Get("Authorization")), " "))
		time.Sleep(s.wait)
		answer, err := http.PostForm(data+r.URL.Path, r.Form)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer answer.Body.Close()
		w.Header().Set("Content-Type", answer.Header.Get("Content-Type"))
		w.WriteHeader(answer.StatusCode)
		_, _ = io.Copy(w, answer.Body)
	})
}

func (s *sources) openRedis(t *testing.T) {
	s.redis = miniredis.RunT(t)
	for _, entry := range []struct {
		db     int
		name   string
		length int
	}{{0, "jobs", 3}, {0, "others", 5}, {1, "jobs", 7}} {
		for range entry.length {
			_, _ = s.redis.DB(entry.db).Push(entry.name, "x")
		}
	}
	for name, length := range map[string]int{"stream": 4, "stream2": 6} {
		for i := range length {
			_, _ = s.redis.XAdd(name, fmt.Sprintf("%d-1", i+1), []string{"k", "v"})
		}
	}
	s.replaces = append(s.replaces, "redis:6379", s.redis.Addr())
}

// Pods returns one ready pod. Pods, Exporters and TriggerMetric implement the interfaces through which the poller reads the cluster.
func (s *sources) Pods(*scaling.Workload) []engine.Pod {
	return []engine.Pod{{Name: "llama-0", IP: "127.0.0.1", Node: "n", Ready: true, Leader: true, Started: time.Now().Add(-time.Hour)}}
}

func (s *sources) Exporters(namespace string, labels map[string]string) []engine.Pod {
	s.write("pods of %s with %v", namespace, labels)
	if namespace == "unknown" || labels["app"] == "nothing" {
		return nil
	}
	return []engine.Pod{{Name: "exporter-0", IP: "127.0.0.1", Node: "n", Ready: true}}
}

func (s *sources) TriggerMetric(_ *scaling.Workload, trigger string) (string, string, bool) {
	return "s0-" + trigger, "scaledobject.keda.sh/name=llama", true
}

// queries polls every signal of the policy once and returns the requests and the readings.
func queries(t *testing.T, d docSet) []string { return openSources(t).poll(t, d) }

func (s *sources) poll(t *testing.T, d docSet) []string {
	t.Helper()
	d = s.place(d)
	store := good(t, d)
	p, err := telemetry.New(telemetry.Options{Pods: s, Exporters: s, Triggers: s, Kubernetes: s.kube, LoopbackPods: true})
	if err != nil {
		t.Fatal(err)
	}
	p.SetPolicies(store.Compiled(), store.Platform())
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	defer func() { stop(); <-ended }()
	var out []string
	for i := range store.Compiled() {
		w := &store.Compiled()[i].Workload
		readings := make([]scaling.Reading, len(w.Policy.Signals))
		for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
			p.Read(w, readings)
			if !slices.ContainsFunc(readings, func(r scaling.Reading) bool { return !r.Known && r.Cause == scaling.CauseNever }) {
				break
			}
		}
		for j, r := range readings {
			target := "holds"
			if r.Known {
				target = fmt.Sprint(r.Value / w.Policy.Signals[j].Target)
			}
			out = append(out, fmt.Sprintf("%s asks for %s, %v %v", w.Policy.Signals[j].Name, target, r.Known, r.Cause))
		}
	}
	if s.twice {
		end := time.Now().Add(1500 * time.Millisecond)
		for time.Now().Before(end) && s.times("/api/v1/query") < 2 {
			time.Sleep(10 * time.Millisecond)
		}
		out = append(out, fmt.Sprint("polled again within 1.5 s: ", s.times("/api/v1/query") > 1))
	}
	return s.hide(append(out, s.all()...))
}

// place returns a copy of the documents in which the servers' addresses replace the placeholders.
func (s *sources) place(d docSet) docSet {
	out := docSet{}
	for kind, tree := range d {
		text, err := yaml.Marshal(tree)
		if err != nil {
			panic(err)
		}
		var placed any
		if err := yaml.Unmarshal([]byte(strings.NewReplacer(s.replaces...).Replace(string(text))), &placed); err != nil {
			panic(err)
		}
		out[kind] = placed
	}
	return out
}

// hide replaces the servers' addresses with placeholders, because the ports differ from run to run.
func (s *sources) hide(lines []string) []string {
	for i := range lines {
		for j := 0; j+1 < len(s.replaces); j += 2 {
			lines[i] = strings.ReplaceAll(lines[i], s.replaces[j+1], s.replaces[j])
		}
	}
	return lines
}

// polledTwice polls like queries, waits for a second poll, and adds to the result whether the second poll happened.
func polledTwice(t *testing.T, d docSet) []string {
	s := openSources(t)
	s.twice = true
	return s.poll(t, d)
}

func slowly(t *testing.T, d docSet) []string {
	s := openSources(t)
	s.wait = 600 * time.Millisecond
	return s.poll(t, d)
}

func withPassword(t *testing.T, d docSet) []string {
	s := openSources(t)
	s.replaces = append(s.replaces, "SECRETS", newSecrets(t).dir)
	s.redis.RequireUserAuth("reader", "secret")
	return s.poll(t, d)
}

const firstSignal = "policy spec.signals[0]"

// source returns an edit that adds a data source to the platform and sets one signal in the policy.
func source(ds map[string]any, signal ...any) edit {
	s := fields("name", "queue", "target", 10)
	for i := 0; i < len(signal); i += 2 {
		s[signal[i].(string)] = signal[i+1]
	}
	e := edit{firstSignal: s}
	if ds != nil {
		e["platform spec.dataSources[1]"] = ds
	}
	return e
}

func prom(name string, more ...any) map[string]any {
	ds := fields("name", name, "type", "prometheus", "address", "http://"+name+":9090", "interval", "1h")
	for i := 0; i < len(more); i += 2 {
		ds[more[i].(string)] = more[i+1]
	}
	return ds
}

// queryProbes returns a probe for each field that changes the requests to data sources or the readings (see fieldProbe).
func queryProbes() []fieldProbe {
	twoQueries := joined(source(prom("prom"), "type", "prometheus", "queryRef", "depth"), edit{"platform spec.queries": []any{
		fields("name", "depth", "source", "prom", "query", "sum by (namespace, pool) (queue_size)", "workloadLabel", "pool"),
		fields("name", "width", "source", "prom", "query", "sum by (namespace, pool) (other_size)", "workloadLabel", "pool"),
	}})
	byQuery := func(query string) edit {
		return joined(twoQueries, edit{"platform spec.queries[0].query": query})
	}
	twoServers := func(more ...any) edit {
		return joined(source(prom("prom"), more...), edit{"platform spec.dataSources[2]": prom("prom2")})
	}
	selector := func(more ...any) edit { return source(prom("prom"), append([]any{"type", "prometheus"}, more...)...) }
	scraped := func(more ...any) edit {
		ds := fields("name", "pods", "type", "scrape", "profile", "vllm", "port", 8000, "interval", "1h")
		for i := 0; i < len(more); i += 2 {
			ds[more[i].(string)] = more[i+1]
		}
		return source(ds, "type", "vllm", "source", "pods")
	}
	exporter := source(fields("name", "gpus", "type", "scrape", "profile", "dcgm", "port", 8000, "podLabels", fields("app", "dcgm"), "podsIn",
		"gpu", "interval", "1h"),
		"type", "dcgm", "source", "gpus", "target", "50%")
	redis := source(nil, "type", "redis", "source", "jobs", "listName", "jobs")
	stream := source(nil, "type", "redis", "source", "jobs", "stream", "stream")
	kueue := func(queue, name string) edit { return source(prom("prom"), "type", "kueue", queue, name) }
	gpu := source(prom("prom"), "type", "dcgm", "source", "prom", "target", "50%")
	declared := joined(gpu, edit{"platform spec.exporters": []any{fields("type", "dcgm", "namespace", "gpu-operator", "podLabels",
		fields("app", "dcgm"))}})
	return []fieldProbe{
		{field: firstSignal + ".type", was: "vllm", is: "sglang", with: source(fields("name", "pods", "type", "scrape", "port", 8000, "interval",
			"1h"), "source", "pods"), see: queries},
		{field: firstSignal + ".source", was: "prom", is: "prom2", with: twoServers("type", "prometheus", "metric", "queue_size"), see: queries},
		{field: firstSignal + ".queryRef", is: "width", with: twoQueries, see: queries},
		{field: firstSignal + ".labelValue", is: "other", with: twoQueries, see: queries},
		{field: firstSignal + ".metric", is: "other_size", with: selector("metric", "queue_size"), see: queries},
		{field: firstSignal + ".matchLabels", is: fields("app", "a"), with: selector("metric", "queue_size"), see: queries},
		{field: firstSignal + ".aggregate", was: "sum", is: "max", with: selector("metric", "queue_size"), see: queries},
		{field: firstSignal + ".rate", is: "5m", with: selector("metric", "requests_total"), see: queries},
		{field: firstSignal + ".quantile", was: 0.5, is: 0.9, with: selector("metric", "seconds", "target", "500ms"), see: queries},
		{field: firstSignal + ".window", was: "2m", is: "5m", with: selector("metric", "seconds", "quantile", 0.5, "target", "500ms"),
			see: queries},
		{field: firstSignal + ".listName", is: "others", with: redis, see: queries},
		{field: firstSignal + ".stream", is: "stream2", with: stream, see: queries},
		{field: firstSignal + ".consumerGroup", is: "workers", with: stream, see: queries},
		{field: firstSignal + ".localQueue", is: "night", with: kueue("localQueue", "batch"), see: queries},
		{field: firstSignal + ".clusterQueue", is: "all", with: kueue("clusterQueue", "gpu"), see: queries},
		{field: firstSignal + ".trigger", is: "b", see: queries, with: source(nil, "type", "keda", "trigger", "a")},

		{field: "platform spec.queries[0].query", is: "max by (namespace, pool) (queue_size)", with: twoQueries, see: queries},
		{field: "platform spec.queries[0].source", is: "prom2", with: joined(twoQueries, edit{"platform spec.dataSources[2]": prom("prom2")}),
			see: queries},
		{field: "platform spec.queries[0].workloadLabel", is: "deployment", with: byQuery("other_size"), see: queries},
		{field: "platform spec.queries[0].namespaceLabel", is: "team", with: byQuery("other_size"), see: queries},

		{field: "platform spec.dataSources[1].type", was: "external", is: "redis",
			also: edit{"platform spec.dataSources[1].address": "redis:6379"}, see: refusals,
			with: source(fields("name", "any"), "type", "external", "source", "any", "metric", "backlog")},
		{field: "platform spec.dataSources[1].default", was: true, is: false, also: edit{"platform spec.dataSources[2].default": true},
			with: twoServers("type", "prometheus", "metric", "queue_size"), see: queries},
		{field: "platform spec.dataSources[1].address", is: "http://prom2:9090", with: twoQueries, see: queries},
		{field: "platform spec.dataSources[1].matchers", is: fields("tenant", "x"), with: twoQueries, see: queries},
		{field: "platform spec.dataSources[1].namespaceLabel", is: "kubernetes_namespace", with: source(prom("prom"), "type", "vllm", "source",
			"prom"), see: queries},
		{field: "platform spec.dataSources[1].podLabel", is: "kubernetes_pod", with: source(prom("prom"), "type", "vllm", "source", "prom"),
			see: queries},
		{field: "platform spec.dataSources[1].interval", is: "500ms", with: twoQueries, see: polledTwice},
		{field: "platform spec.dataSources[1].timeout", was: "5s", is: "200ms", with: twoQueries, see: slowly},
		{field: "platform spec.dataSources[1].maxBytes", is: 100, with: twoQueries, see: queries},
		{field: "platform spec.dataSources[1].maxSeries", is: 1, with: twoQueries, see: queries},
		{field: "platform spec.dataSources[1].profile", is: "sglang", with: joined(scraped(), edit{firstSignal + ".source": absent{}}),
			see: queries},
		{field: "platform spec.dataSources[1].port", is: 8001, with: scraped(), see: queries},
		{field: "platform spec.dataSources[1].scheme", was: "http", is: "https", with: scraped(), see: queries},
		{field: "platform spec.dataSources[1].path", was: "/metrics", is: "/other", with: scraped(), see: queries},
		{field: "platform spec.dataSources[1].podLabels", is: fields("app", "nothing"), with: exporter, see: queries},
		{field: "platform spec.dataSources[1].podsIn", is: "unknown", with: exporter, see: queries},
		{field: "platform spec.dataSources[0].database", is: 1, with: redis, see: queries},
		{field: "platform spec.dataSources[0].username", was: "reader", is: "unknown", see: withPassword,
			with: joined(redis, edit{"platform spec.dataSources[0].passwordFile": "SECRETS/secret"})},
		{field: "platform spec.dataSources[0].passwordFile", was: "SECRETS/secret", is: "SECRETS/other", see: withPassword,
			with: joined(redis, edit{"platform spec.dataSources[0].username": "reader"})},

		{field: "platform spec.teams[0].clusterQueues[0]", was: "gpu", is: "all", with: joined(kueue("clusterQueue", "gpu"), oneTeam()),
			see: refusals},
		{field: "platform spec.exporters[0].namespace", is: "unknown", with: declared, see: queries},
		{field: "platform spec.exporters[0].podLabels", is: fields("app", "nothing"), with: declared, see: queries},
		{field: "platform spec.exporters[0].type", was: "kueue", is: "dcgm", see: queries,
			with: joined(kueue("clusterQueue", "gpu"), edit{"platform spec.exporters": []any{fields("namespace", "elsewhere")}})},
	}
}
