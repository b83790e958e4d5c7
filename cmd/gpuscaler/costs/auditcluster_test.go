package costs

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/telemetry/promtest"
)

// apiServerWithHPAs starts an API server with the given number of Deployments and one HPA for each of them, and returns a kubeconfig. The
// test fails if a client writes.
func apiServerWithHPAs(t *testing.T, workloads int) (kubeconfig string) {
	t.Helper()
	var hpas, deployments []string
	for i := range workloads {
		name := fmt.Sprintf("chat-%d", i)
		hpas = append(hpas, fmt.Sprintf(`{"apiVersion":"autoscaling/v2","kind":"HorizontalPodAutoscaler","metadata":{"name":%q,
			"namespace":"team"},"spec":{"scaleTargetRef":{"kind":"Deployment","name":%q},"minReplicas":1,"maxReplicas":4}}`, name, name))
		deployments = append(deployments, fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":%q,"namespace":"team"},
			"spec":{"template":{"spec":{"containers":[{"name":"vllm","resources":{"limits":{"nvidia.com/gpu":"1"}}}]}}}}`, name))
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			t.Errorf("%s %s: the audit only reads", r.Method, r.URL.Path)
		}
		w.Header().Set("Content-Type", "application/json")
		list := func(kind, version string, items []string) {
			fmt.Fprintf(w, `{"apiVersion":%q,"kind":%q,"metadata":{},"items":[%s]}`, version, kind+"List", strings.Join(items, ","))
		}
		switch r.URL.Path {
		case "/apis/autoscaling/v2/horizontalpodautoscalers":
			list("HorizontalPodAutoscaler", "autoscaling/v2", hpas)
		case "/apis/apps/v1/deployments":
			list("Deployment", "apps/v1", deployments)
		case "/apis/apps/v1/statefulsets":
			list("StatefulSet", "apps/v1", nil)
		case "/api/v1/nodes":
			list("Node", "v1", nil)
		default:
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)
		}
	}))
	t.Cleanup(server.Close)
	kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}],
	users: [{name: u, user: {}}], clusters: [{name: c, cluster: {server: %q}}]}`, server.URL)
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return kubeconfig
}

// Each query of the audit returns the series of all workloads, so an audit of a hundred workloads sends as many queries as an audit of one.
func TestAuditOfAClusterSendsTheSameQueriesForAnyNumberOfWorkloads(t *testing.T) {
	begin := time.Now().Add(-2 * time.Hour) // the command audits the time before now
	var lines []string
	for i := range 100 {
		pod := fmt.Sprintf(`namespace="team",pod="chat-%d-7d9f8b6c5-bcdfg"`, i)
		lines = append(lines, `kube_pod_container_resource_requests{`+pod+`,node="n",resource="nvidia_com_gpu"} 1x125`,
			`kube_pod_status_phase{`+pod+`,phase="Running"} 1x125`, `vllm:num_requests_running{`+pod+`} 4x125`,
			fmt.Sprintf(`kube_deployment_status_replicas_ready{namespace="team",deployment="chat-%d"} 1x125`, i))
	}
	lines = append(lines, `kube_node_status_allocatable{node="n",resource="nvidia_com_gpu"} 100x125`)
	queries := map[int]int{}
	for _, n := range []int{1, 100} {
		web := promtest.Serve(t, begin, strings.Join(lines, "\n"))
		file := filepath.Join(t.TempDir(), "snapshot.json")
		code, out, stderr := auditOf(t, "--prometheus", web.URL, "--kubeconfig", apiServerWithHPAs(t, n), "--since", "1h", "--gpu-hourly", "2",
			"--export", file, "-o", "json")
		var r struct {
			Workloads []struct {
				Cost *float64 `json:"costPerMonth"`
			} `json:"workloads"`
		}
		if err := json.Unmarshal([]byte(out), &r); code != 0 || err != nil || len(r.Workloads) != n {
			t.Fatalf("exit code %d, %v: %s\n%.500s", code, err, stderr, out)
		}
		if c := r.Workloads[0].Cost; c == nil || *c != 1460 {
			t.Errorf("a GPU at $2 an hour costs %v per month, want 1460", c)
		}
		if text, err := os.ReadFile(file); err != nil || strings.Contains(string(text), "127.0.0.1") {
			t.Errorf("the snapshot contains an address: %v", err)
		}
		queries[n] = len(web.Queries())
	}
	if queries[1] != queries[100] || queries[1] == 0 {
		t.Errorf("queries by number of workloads: %v", queries)
	}
}

func TestAuditOfAClusterWithoutGPUWorkloadsOrServerSaysSo(t *testing.T) {
	web := promtest.Serve(t, time.Now().Add(-time.Hour), "up 1x60")
	code, out, stderr := auditOf(t, "--prometheus", web.URL, "--kubeconfig", apiServerWithHPAs(t, 0), "--since", "1h")
	if code != 0 || !strings.Contains(out, "no HPA and no ScaledObject scales pods") {
		t.Errorf("exit code %d %s\n%s", code, stderr, out)
	}
	for want, args := range map[string][]string{
		"does not answer": {"--prometheus", "http://127.0.0.1:1", "--kubeconfig", apiServerWithHPAs(t, 1)},
		"--since":         {"--prometheus", web.URL, "--since", "x"},
		"--step":          {"--prometheus", web.URL, "--since", "52w", "--step", "15s"},
		"--gpu-hourly":    {"--prometheus", web.URL, "--gpu-hourly", "-1"},
		"cluster:":        {"--prometheus", web.URL, "--kubeconfig", filepath.Join(t.TempDir(), "none")},
		"use one of them": {"--prometheus", web.URL, "--sample"},
	} {
		if code, _, stderr := auditOf(t, args...); code != 1 || !strings.Contains(stderr, want) {
			t.Errorf("audit %v: exit code %d, %q; want %q", args, code, stderr, want)
		}
	}
}
