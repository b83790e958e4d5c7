package costs

import (
	"encoding/base64"
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

// secrets generates values that look like secrets, and finds them in a text.
type secrets struct{ values []string }

// plant returns a new value for a field that an export must not contain.
func (s *secrets) plant() string {
	v := fmt.Sprintf("hunter%dsk-live-%08x", len(s.values), 0xbeef*(len(s.values)+1))
	s.values = append(s.values, v)
	return v
}

// expectNone fails the test for every secret value, address or query that the text contains. It also finds values in base64.
func (s *secrets) expectNone(t *testing.T, where, text string) {
	t.Helper()
	for i, v := range s.values {
		for _, form := range []string{v, base64.StdEncoding.EncodeToString([]byte(v))} {
			if at := strings.Index(text, form); at >= 0 {
				t.Errorf("%s contains secret %d: ...%s", where, i, text[max(0, at-150):at+len(form)])
			}
		}
	}
	for _, never := range []string{"127.0.0.1", "user:", "sum by", "_over_time("} {
		if at := strings.Index(text, never); at >= 0 {
			t.Errorf("%s contains %q: ...%s", where, never, text[max(0, at-150):at+len(never)])
		}
	}
}

// meta returns the metadata of an object with a secret in each annotation and label. One annotation is the configuration that kubectl apply
// stores; it also contains a secret.
func (s *secrets) meta(name string) string {
	return fmt.Sprintf(`"metadata":{"name":%q,"namespace":"team","labels":{"token":%q},"finalizers":[%q],
		"annotations":{"password":%q,"https://user:%s@host/":"x","kubectl.kubernetes.io/last-applied-configuration":%q},
		"managedFields":[{"manager":%q,"operation":"Update","fieldsV1":{"f:metadata":{"f:annotations":{"f:%s":{}}}}}]}`,
		name, s.plant(), s.plant(), s.plant(), s.plant(), `{"spec":{"env":[{"name":"KEY","value":"`+s.plant()+`"}]}}`, s.plant(), s.plant())
}

// cluster returns the responses of an API server by path. In the returned objects, every text is a secret value, except names and settings
// of autoscalers.
func (s *secrets) cluster() map[string]string {
	list := func(kind, version string, items ...string) string {
		return fmt.Sprintf(`{"apiVersion":%q,"kind":"%sList","metadata":{},"items":[%s]}`, version, kind, strings.Join(items, ","))
	}
	deployment := func(name string) string {
		return fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"Deployment",%s,"spec":{"selector":{"matchLabels":{"key":%q}},"template":{%s,"spec":{
			"imagePullSecrets":[{"name":%q}],"serviceAccountName":%q,"volumes":[{"name":"v","secret":{"secretName":%q}}],
			"initContainers":[{"name":"i","args":["--token=%s"]}],"nodeSelector":{"n":%q},
			"containers":[{"name":"vllm","image":"https://user:%s@registry/vllm","command":["vllm","--api-key",%q],
			"args":["--max-num-seqs=16","--hf-token=%s","--url","redis://user:%s@host"],
			"env":[{"name":"HF_TOKEN","value":%q},{"name":"DB","valueFrom":{"secretKeyRef":{"name":%q,"key":%q}}}],
			"envFrom":[{"secretRef":{"name":%q}}],"lifecycle":{"postStart":{"httpGet":{"path":%q,"port":1,
			"httpHeaders":[{"name":"Authorization","value":%q}]}}},"resources":{"limits":{"nvidia.com/gpu":"1"}}}]}}},
			"status":{"conditions":[{"type":"Available","status":"False","message":%q}]}}`,
			s.meta(name), s.plant(), s.meta("pod"), s.plant(), s.plant(), s.plant(), s.plant(), s.plant(), s.plant(), s.plant(), s.plant(),
			s.plant(), s.plant(), s.plant(), s.plant(), s.plant(), s.plant(), s.plant(), s.plant())
	}
	hpa := fmt.Sprintf(`{"apiVersion":"autoscaling/v2","kind":"HorizontalPodAutoscaler",%s,"spec":{"scaleTargetRef":{"kind":"Deployment",
		"name":"chat"},"minReplicas":1,"maxReplicas":4,"metrics":[{"type":"External","external":{"metric":{"name":"queue","selector":{
		"matchLabels":{"tenant":%q},"matchExpressions":[{"key":"k","operator":"In","values":[%q]}]}},"target":{"type":"Value","value":"1"}}},
		{"type":"Object","object":{"metric":{"name":"hits","selector":{"matchLabels":{"t":%q}}},"describedObject":{"kind":"Service","name":%q},
		"target":{"type":"Value","value":"1"}}}]},"status":{"conditions":[{"type":"x","status":"False","message":%q}]}}`,
		s.meta("chat"), s.plant(), s.plant(), s.plant(), s.plant(), s.plant())
	scaledObject := fmt.Sprintf(`{"apiVersion":"keda.sh/v1alpha1","kind":"ScaledObject",%s,"spec":{"scaleTargetRef":{"name":"batch",
		"envSourceContainerName":%q},"maxReplicaCount":4,"triggers":[
		{"type":"prometheus","name":%q,"authenticationRef":{"name":%q},"metadata":{"serverAddress":"http://user:%s@prom:9090",
			"query":"sum(x{key=\"%s\"})","customHeaders":"Authorization=%s"}},
		{"type":"redis","metadata":{"address":"redis:6379","password":%q,"listName":%q}},
		{"type":"rabbitmq","metadata":{"host":"amqp://user:%s@host"}},
		{"type":%q,"metadata":{}},
		{"type":"cron","metadata":{"timezone":%q,"start":"0 8 * * *","end":"0 9 * * *","desiredReplicas":"2"}},
		{"type":"cron","metadata":{"timezone":"UTC","start":"0 8 * * %s","end":%q,"desiredReplicas":%q}},
		{"type":"cron","metadata":{"timezone":"UTC","start":"0 8 * * *","end":"0 9 * * *","desiredReplicas":"2","note":%q}}]},
		"status":{"health":{%q:{"status":"x"}}}}`,
		s.meta("batch"), s.plant(), s.plant(), s.plant(), s.plant(), s.plant(), s.plant(), s.plant(), s.plant(), s.plant(),
		"https://user:"+s.plant()+"@host", s.plant(), s.plant(), s.plant(), s.plant(), s.plant(), s.plant())
	malformed := fmt.Sprintf(`{"apiVersion":"keda.sh/v1alpha1","kind":"ScaledObject",%s,"spec":{"scaleTargetRef":{"name":"third"},
		"maxReplicaCount":%q,"triggers":[]}}`, s.meta("third"), s.plant())
	invalid := fmt.Sprintf(`{"apiVersion":"autoscaling/v2","kind":"HorizontalPodAutoscaler",%s,"spec":{"maxReplicas":%q}}`,
		s.meta("invalid"), s.plant())
	return map[string]string{
		"/apis/autoscaling/v2/horizontalpodautoscalers": list("HorizontalPodAutoscaler", "autoscaling/v2", hpa, invalid),
		"/apis/keda.sh/v1alpha1/scaledobjects":          list("ScaledObject", "keda.sh/v1alpha1", scaledObject, malformed),
		"/apis/apps/v1/deployments": list("Deployment", "apps/v1", deployment("chat"), deployment("batch"),
			deployment("third")),
		"/apis/apps/v1/statefulsets": list("StatefulSet", "apps/v1"),
	}
}

// server starts an API server with the responses of cluster, and returns a kubeconfig with credentials. The server refuses to list nodes.
func (s *secrets) server(t *testing.T) (kubeconfig string) {
	t.Helper()
	objects, refusal := s.cluster(), s.plant()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if text, known := objects[r.URL.Path]; known {
			fmt.Fprint(w, text)
			return
		}
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":%q}`,
			"user "+refusal+" cannot list https://user:"+refusal+"@host")
	}))
	t.Cleanup(server.Close)
	kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}],
	users: [{name: u, user: {token: %q}}], clusters: [{name: c, cluster: {server: %q}}]}`, s.plant(), server.URL)
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return kubeconfig
}

// metrics returns series whose labels contain secrets, except in the labels that name pods, nodes, instance types and resources.
func (s *secrets) metrics() string {
	var lines []string
	for _, name := range []string{"chat", "batch"} {
		more := func() string { return fmt.Sprintf(`token=%q,url="http://user:%s@host"`, s.plant(), s.plant()) }
		pod := fmt.Sprintf(`namespace="team",pod="%s-7d9f8b6c5-bcdfg"`, name)
		lines = append(lines,
			`kube_pod_container_resource_requests{`+pod+`,node="n",resource="nvidia_com_gpu",`+more()+`} 1x125`,
			`kube_pod_status_phase{`+pod+`,phase="Running",`+more()+`} 1x125`, `vllm:num_requests_running{`+pod+`,`+more()+`} 4x125`,
			`vllm:request_queue_time_seconds_count{`+pod+`,`+more()+`} 0+60x125`,
			`vllm:request_queue_time_seconds_bucket{`+pod+`,le="10.0",`+more()+`} 0+54x125`,
			fmt.Sprintf(`kube_deployment_status_replicas_ready{namespace="team",deployment=%q,%s} 1x125`, name, more()))
	}
	return strings.Join(append(lines,
		fmt.Sprintf(`kube_node_status_allocatable{node="n",resource="nvidia_com_gpu",token=%q} 2x125`, s.plant()),
		fmt.Sprintf(`kube_node_labels{node="n",label_node_kubernetes_io_instance_type="g6e.xlarge",label_password=%q} 1x125`, s.plant())), "\n")
}

// An exported snapshot is sent to people outside the team. From objects, metrics and error messages of servers, it may contain only names
// and settings. This also applies to the reports of an audit.
func TestExportContainsNoSecrets(t *testing.T) {
	s := &secrets{}
	begin := time.Now().Add(-2 * time.Hour)
	metrics := promtest.Serve(t, begin, s.metrics())
	warning := s.plant()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := httptest.NewRecorder()
		metrics.ServeHTTP(answer, r)
		var body map[string]any
		if err := json.Unmarshal(answer.Body.Bytes(), &body); err == nil {
			body["warnings"] = []string{"store http://user:" + warning + "@10.0.0.1:10901 does not answer"}
		}
		w.WriteHeader(answer.Code)
		_ = json.NewEncoder(w).Encode(body)
	}))
	t.Cleanup(web.Close)
	file := filepath.Join(t.TempDir(), "snapshot.json")
	address := strings.Replace(web.URL, "http://", "http://user:"+s.plant()+"@", 1)
	kubeconfig := s.server(t)
	for _, format := range []string{"json", "text", "html"} {
		code, out, stderr := auditOf(t, "--prometheus", address, "--kubeconfig", kubeconfig, "--since", "1h", "--replay", "-1s",
			"--export", file, "-o", format)
		if code != 0 || !strings.Contains(stderr, warning) || !strings.Contains(stderr, "cannot list") {
			t.Fatalf("exit code %d; standard error must contain the messages of the servers: %s", code, stderr)
		}
		if !strings.Contains(out, "team/chat") || !strings.Contains(out, "team/batch") {
			t.Fatalf("the audit does not find the workloads:\n%s", out)
		}
		s.expectNone(t, format+" report", out)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s.expectNone(t, "the snapshot", string(text))
	if len(s.values) < 100 || !strings.Contains(string(text), "External queue") || !strings.Contains(string(text), "redis") {
		t.Errorf("%d secrets were planted; the snapshot:\n%.3000s", len(s.values), text)
	}
}
