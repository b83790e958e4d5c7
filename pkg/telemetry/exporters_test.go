package telemetry

import (
	"fmt"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// exporterOn returns the pod of a DCGM exporter in namespace gpu-operator.
func exporterOn(name, node string) engine.Pod {
	return engine.Pod{Name: name, IP: "127.0.0.1", Node: node, Ready: true}
}

// chatOnNodeA returns a workload with one pod on node a. It has a signal of each kind that a hostile pod could try to imitate on its own
// /metrics page.
func chatOnNodeA() (*policy.Compiled, Options) {
	w := compiled("chat", "llama",
		policy.Source{Type: policy.SourceDCGM, DataSource: "prom", Metric: "activity"},
		policy.Source{Type: policy.SourceVLLM, DataSource: "prom", Metric: "requestsWaiting"},
		policy.Source{Type: policy.SourceVLLM, DataSource: "prom", Metric: "timeToFirstToken", Window: 2 * time.Minute},
		policy.Source{Type: policy.SourceKueue, DataSource: "prom", LocalQueue: "batch"},
		policy.Source{Type: policy.SourceKueue, DataSource: "prom", ClusterQueue: "gpu"})
	w.Workload.Policy.Signals[0].Kind = scaling.Mean
	pods := []engine.Pod{{Name: "llama-0", Node: "a", Ready: true, IP: "127.0.0.1"}}
	return w, Options{Pods: testPods{w.Workload.Key: pods}, Exporters: testExporters{exporterOn("dcgm-a", "a"), exporterOn("dcgm-b", "b")}}
}

// honest contains the series of the real exporter, model server and Kueue, as a scrape without honor_labels stores them. Each series has
// two samples, one minute apart: first the value in the field first, and then the value in the field now.
var honest = []struct {
	series     string
	first, now float64
}{
	{`DCGM_FI_PROF_GR_ENGINE_ACTIVE{UUID="GPU-0",gpu="0",namespace="gpu-operator",pod="dcgm-a",exported_namespace="chat",` +
		`exported_pod="llama-0"}`, 0.9, 0.9},
	{`{__name__="vllm:num_requests_waiting",namespace="chat",pod="llama-0"}`, 40, 40},
	{`{__name__="vllm:time_to_first_token_seconds_count",namespace="chat",pod="llama-0"}`, 0, 10},
	{`{__name__="vllm:time_to_first_token_seconds_sum",namespace="chat",pod="llama-0"}`, 0, 50},
	{`kueue_local_queue_pending_workloads{namespace="kueue-system",pod="kueue-0",exported_namespace="chat",name="batch",status="active"}`,
		30, 30},
	{`kueue_pending_workloads{namespace="kueue-system",pod="kueue-0",cluster_queue="gpu",status="active"}`, 20, 20},
}

var honestReadings = []float64{0.9, 40, 5, 30, 20}

// An attacker runs a pod that Prometheus scrapes and whose page has arbitrary labels. The scrape sets the labels namespace and pod, and
// renames labels with these names on the page to exported_namespace and exported_pod. Such a page must not change a reading of another
// tenant.
func TestAScrapedPodCannotWriteAnotherTenantsReadings(t *testing.T) {
	const scraped = `namespace="evil",pod="evil-0"`
	for name, claim := range map[string]string{
		"exported labels, which a page with namespace and pod gets": scraped + `,exported_namespace="chat",exported_pod="llama-0"`,
		"the exporter's old label names":                            scraped + `,pod_namespace="chat",pod_name="llama-0"`,
		"the old label names beside exported":                       scraped + `,exported_namespace="chat",exported_pod_name="llama-0"`,
		"labels of scrape configurations by annotation":             scraped + `,kubernetes_namespace="chat",kubernetes_pod_name="llama-0"`,
		"labels of OpenTelemetry":                                   scraped + `,k8s_namespace_name="chat",k8s_pod_name="llama-0"`,
		"a scrape by annotation, and namespace on the page": `kubernetes_namespace="evil",kubernetes_pod_name="evil-0",` +
			`namespace="chat",pod="llama-0"`,
		"an exporter's name in another namespace": `namespace="evil",pod="dcgm-a",exported_namespace="chat",exported_pod="llama-0"`,
		"a pod of the exporter's namespace that is no exporter": `namespace="gpu-operator",pod="job-0",exported_namespace="chat",` +
			`exported_pod="llama-0"`,
		"an exporter, of a pod on another node": `namespace="gpu-operator",pod="dcgm-b",exported_namespace="chat",exported_pod="llama-0"`,
		"a namespace without a pod":             `namespace="evil",exported_namespace="chat",exported_pod="llama-0"`,
		"no scraped pod":                        `exported_namespace="chat",exported_pod="llama-0"`,
	} {
		t.Run(name, func(t *testing.T) {
			server := newTestPrometheus(t)
			at := time.Now().Add(-10 * time.Second).Truncate(time.Second)
			for _, h := range honest {
				server.put(h.series, at.Add(-time.Minute), h.first)
				server.put(h.series, at, h.now)
			}
			// The attacker's sample of the GPU is newer than the exporter's sample. This is the stronger attack, because the newest sample of a
			// GPU is used.
			for series, v := range map[string]float64{
				`DCGM_FI_PROF_GR_ENGINE_ACTIVE{UUID="GPU-0",gpu="0",` + claim + `}`:                                0.06,
				`DCGM_FI_PROF_GR_ENGINE_ACTIVE{UUID="GPU-7",gpu="7",` + claim + `}`:                                0,
				`{__name__="vllm:num_requests_waiting",` + claim + `}`:                                             0,
				`{__name__="vllm:num_requests_waiting",model_name="mine",` + claim + `}`:                           500,
				`{__name__="vllm:time_to_first_token_seconds_count",` + claim + `}`:                                1e6,
				`{__name__="vllm:time_to_first_token_seconds_sum",` + claim + `}`:                                  1e6,
				`kueue_local_queue_pending_workloads{name="batch",status="active",replica_role="x",` + claim + `}`: 0,
				`kueue_pending_workloads{cluster_queue="gpu",status="active",replica_role="x",` + claim + `}`:      0,
			} {
				if name == "an exporter, of a pod on another node" || name == "a pod of the exporter's namespace that is no exporter" {
					if series[0] == 'k' {
						continue // these two cases are about DCGM exporters and do not apply to Kueue's metrics
					}
				}
				server.put(series, at.Add(-50*time.Second), 0)
				server.put(series, at.Add(5*time.Second), v)
			}
			w, o := chatOnNodeA()
			p := newPoller(t, o)
			p.SetPolicies([]*policy.Compiled{w}, platformOf(promSource(server.URL)))
			pollOnce(t, p)
			for i, r := range read(p, w) {
				if !r.Known || !near(r.Value, honestReadings[i]) {
					t.Errorf("%s %s%s reads %+v, want %g", w.Sources[i].Type, w.Sources[i].Metric, w.Sources[i].LocalQueue, r, honestReadings[i])
				}
			}
		})
	}
}

// If the only series of a GPU is from a pod that is not a declared exporter, the reading must be unknown with CauseUndeclared.
func TestReportOfAnUndeclaredPodIsMissingWithItsCause(t *testing.T) {
	server := newTestPrometheus(t)
	at := time.Now().Add(-10 * time.Second)
	server.put(`DCGM_FI_PROF_GR_ENGINE_ACTIVE{UUID="GPU-0",namespace="monitoring",pod="exporter-a",exported_namespace="chat",`+
		`exported_pod="llama-0"}`, at, 0.06)
	w, o := chatOnNodeA()
	p := newPoller(t, o)
	p.SetPolicies([]*policy.Compiled{w}, platformOf(promSource(server.URL)))
	pollOnce(t, p)
	if r := read(p, w)[0]; r.Known || r.Cause != scaling.CauseUndeclared {
		t.Errorf("%+v, want unknown, because monitoring/exporter-a is not a declared exporter", r)
	}
}

// Each supported scrape configuration of the DCGM exporter must give a reading.
func TestDeclaredExportersAreTrusted(t *testing.T) {
	for name, c := range map[string]struct {
		labels    string
		namespace string // namespace and pod are PlatformConfig.dataSources[].namespaceLabel and podLabel
		pod       string
	}{
		"a scrape without honor_labels": {
			`namespace="gpu-operator",pod="dcgm-a",exported_namespace="chat",exported_pod="llama-0"`, "", ""},
		"with the exporter's old label names": {`namespace="gpu-operator",pod="dcgm-a",pod_namespace="chat",pod_name="llama-0"`,
			"", ""},
		"a scrape with honor_labels": {`namespace="chat",pod="llama-0"`, "", ""},
		"a scrape by annotation, with its labels declared": {`kubernetes_namespace="gpu-operator",kubernetes_pod_name="dcgm-a",` +
			`namespace="chat",pod="llama-0"`, "kubernetes_namespace", "kubernetes_pod_name"},
	} {
		server := newTestPrometheus(t)
		server.put(`DCGM_FI_PROF_GR_ENGINE_ACTIVE{UUID="GPU-0",gpu="0",`+c.labels+`}`, time.Now().Add(-10*time.Second), 0.9)
		w, o := chatOnNodeA()
		p := newPoller(t, o)
		d := promSource(server.URL)
		d.NamespaceLabel, d.PodLabel = c.namespace, c.pod
		p.SetPolicies([]*policy.Compiled{w}, platformOf(d))
		pollOnce(t, p)
		if r := read(p, w)[0]; !r.Known || r.Value != 0.9 {
			t.Errorf("%s: %+v, want 0.9", name, r)
		}
	}
}

// With direct scrapes, the page of the exporter on node b contains a pod that runs on node a, because the exporter is hostile or the page
// is outdated. The value for this pod must not be used.
func TestPageOfAnExporterCountsForPodsOfItsNodeOnly(t *testing.T) {
	a, b := newPodServer(t), newPodServer(t)
	a.does(text("DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu=\"0\",UUID=\"GPU-0\",namespace=\"chat\",pod=\"llama-0\"} 0.9\n"))
	b.does(text("DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu=\"0\",UUID=\"GPU-1\",namespace=\"chat\",pod=\"llama-0\"} 0.06\n" +
		"DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu=\"1\",UUID=\"GPU-2\",namespace=\"chat\",pod=\"llama-1\"} 0.5\n"))
	w := mean(compiled("chat", "llama", policy.Source{Type: policy.SourceDCGM, DataSource: "pods", Metric: "activity"}))
	source := a.source(policy.SourceDCGM)
	source.PodsIn, source.PodLabels = "gpu-operator", map[string]string{"app": "dcgm"}
	pods := []engine.Pod{{Name: "llama-0", Node: "a", Ready: true}, {Name: "llama-1", Node: "b", Ready: true}}
	// Both exporters listen on one port, each on its own loopback address.
	for _, server := range []*podServer{a, b} {
		source.Port = server.port
		node := map[*podServer]string{a: "a", b: "b"}[server]
		p := newPoller(t, Options{Pods: testPods{w.Workload.Key: pods}, LoopbackPods: true,
			Exporters: testExporters{exporterOn("dcgm-"+node, node)}})
		p.SetPolicies([]*policy.Compiled{w}, platformOf(source))
		pollOnce(t, p)
		if r, want := read(p, w)[0], map[string]float64{"a": 0.9, "b": 0.5}[node]; !r.Known || r.Value != want || r.Coverage != 0.5 {
			t.Errorf("the exporter of node %s alone: %+v, want %g of that node's pod", node, r, want)
		}
	}
}

// The PlatformConfig declares that Kueue runs in namespace queues instead of the default kueue-system. Only series from namespace queues
// are used.
func TestKueueIsReadFromItsDeclaredNamespaceOnly(t *testing.T) {
	for namespace, known := range map[string]bool{"kueue-system": false, "queues": true, "evil": false} {
		server := newTestPrometheus(t)
		server.put(fmt.Sprintf(`kueue_pending_workloads{namespace=%q,cluster_queue="gpu",status="active"}`, namespace),
			time.Now().Add(-time.Second), 7)
		w := compiled("chat", "llama", policy.Source{Type: policy.SourceKueue, DataSource: "prom", ClusterQueue: "gpu"})
		p := newPoller(t, Options{})
		d := promSource(server.URL)
		d.Exporters = []policy.Exporter{{Type: policy.SourceKueue, Namespace: "queues"}}
		p.SetPolicies([]*policy.Compiled{w}, platformOf(d))
		pollOnce(t, p)
		if r := read(p, w)[0]; r.Known != known {
			t.Errorf("Kueue is declared in queues, and namespace %s serves: %+v", namespace, r)
		}
	}
}
