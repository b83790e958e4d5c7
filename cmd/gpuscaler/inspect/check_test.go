package inspect

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilproxy "k8s.io/apimachinery/pkg/util/proxy"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/gpuscaler/gpuscaler/cmd/gpuscaler/commandline/commandtest"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/installation"
	"github.com/gpuscaler/gpuscaler/pkg/externalmetrics"
	"github.com/gpuscaler/gpuscaler/pkg/golden"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/promtest"
)

// checkedCluster is an API server with a fixed response for each path. A port-forward to the leader's pod connects to a server with the
// leader's metrics.
type checkedCluster struct {
	answers map[string]string
	denied  []string // resources for which the user has no permission
	lacks   []string // resources for which the controller has no permission
	metrics string   // metrics of the leader
}

const podsPath = "/api/v1/namespaces/gpuscaler-system/pods"

// healthyCluster has an installed release with one policy, whose target an HPA applies.
func healthyCluster() checkedCluster {
	list := func(kind, version, items string) string {
		return fmt.Sprintf(`{"kind": %q, "apiVersion": %q, "items": [%s]}`, kind+"List", version, items)
	}
	const hpa = `{"kind": "HorizontalPodAutoscaler", "apiVersion": "autoscaling/v2",
	  "metadata": {"namespace": "team-chat", "name": "llama-chat"},
	  "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "llama-chat"}, "maxReplicas": 12, "metrics": [
	    {"type": "External", "external": {"metric": {"name": "gpuscaler-desired-replicas", "selector": {"matchLabels":
	    {"gpuscaler.io/policy": "llama-chat"}}}, "target": {"type": "AverageValue", "averageValue": "1"}}}]},
	  "status": {"conditions": [{"type": "ScalingActive", "status": "True", "reason": "ValidMetricFound"}]}}`
	const pod = `{"metadata": {"namespace": "gpuscaler-system", "name": "leads", "labels": {"app.kubernetes.io/name": "gpuscaler"}},
	  "spec": {"containers": [{"name": "gpuscaler", "ports": [{"name": "metrics", "containerPort": 9999}]}]}, "status": {"phase": "Running"}}`
	const deployment = `{"metadata": {"namespace": "gpuscaler-system", "name": "gpuscaler", "generation": 2},
	  "spec": {"replicas": 2, "selector": {"matchLabels": {"app.kubernetes.io/name": "gpuscaler"}}, "template":
	  {"metadata": {"labels": {"app.kubernetes.io/name": "gpuscaler"}},
	  "spec": {"containers": [{"name": "gpuscaler", "args": ["run", "--lease=leads-here"]}]}}},
	  "status": {"observedGeneration": 2, "replicas": 2, "availableReplicas": 2}}`
	const explained = `[{"policy": "team-chat/llama-chat", "at": "2026-11-22T09:00:00Z", "target": 4, "mode": "auto", "served": "served",
	  "scaledBy": {"kind": "HPA", "name": "llama-chat", "exact": true}}, {"policy": "team-chat/try", "mode": "advisory", "notDecided": "x"}]`
	return checkedCluster{
		answers: map[string]string{
			"/version": `{"major": "1", "minor": "36", "gitVersion": "v1.36.4"}`,
			"/api":     `{"kind": "APIVersions", "versions": ["v1"]}`,
			"/apis": `{"kind": "APIGroupList", "groups": [
			  {"name": "keda.sh", "versions": [{"groupVersion": "keda.sh/v1alpha1", "version": "v1alpha1"}]},
			  {"name": "karpenter.sh", "versions": [{"groupVersion": "karpenter.sh/v1", "version": "v1"}]}]}`,
			"/apis/autoscaling/v2/horizontalpodautoscalers": list("HorizontalPodAutoscaler", "autoscaling/v2", hpa),
			"/apis/keda.sh/v1alpha1/scaledobjects":          list("ScaledObject", "keda.sh/v1alpha1", ""),
			"/apis/karpenter.sh/v1/nodepools":               list("NodePool", "karpenter.sh/v1", ""),
			"/apis/apps/v1/deployments": list("Deployment", "apps/v1", `{"kind": "Deployment", "apiVersion": "apps/v1",
			  "metadata": {"namespace": "keda", "name": "keda-operator", "labels": {"app.kubernetes.io/name": "keda-operator"}},
			  "spec": {"template": {"spec": {"containers": [{"image": "keda:2.21.0"}]}}}}`),
			"/apis/apiregistration.k8s.io/v1/apiservices": list("APIService", "apiregistration.k8s.io/v1", `{"kind": "APIService",
			  "apiVersion": "apiregistration.k8s.io/v1", "metadata": {"name": "v1beta1.external.metrics.k8s.io"},
			  "spec": {"service": {"namespace": "gpuscaler-system", "name": "gpuscaler"}},
			  "status": {"conditions": [{"type": "Available", "status": "True"}]}}`),
			"/api/v1/nodes": list("Node", "v1", `{"metadata": {"name": "gpu-1", "labels": {"nvidia.com/gpu.present": "true"}},
			  "status": {"allocatable": {"nvidia.com/gpu": "8"}}}, {"metadata": {"name": "cpu-1"}}`),
			"/apis/apps/v1/namespaces/gpuscaler-system/deployments": list("Deployment", "apps/v1", deployment),
			podsPath: list("Pod", "v1", pod),
			"/apis/coordination.k8s.io/v1/namespaces/gpuscaler-system/leases/leads-here": fmt.Sprintf(`{"metadata": {"name": "leads-here"},
			  "spec": {"holderIdentity": "leads", "leaseDurationSeconds": 600, "renewTime": %q}}`,
				time.Now().UTC().Format("2006-01-02T15:04:05.000000Z07:00")),
			"/apis/external.metrics.k8s.io/v1beta1/" + externalmetrics.ExplainResource: explained,
		},
		metrics: `gpuscaler_policy_document{document="ScalingPolicy team-chat/llama-chat",file="chat.yaml",state="InForce"} 1` + "\n" +
			`gpuscaler_group_decision_timestamp_seconds{group="chat"} 1.7e+09` + "\n" +
			`gpuscaler_group_finding{group="chat",nodepool="l40s-spot",finding="permanent-limit"} 1` + "\n",
	}
}

// start starts the API server and returns a kubeconfig. The test fails if the command writes an object other than an access review.
func (k checkedCluster) start(t *testing.T) (kubeconfig string) {
	t.Helper()
	leader := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, k.metrics)
	}))
	t.Cleanup(leader.Close)
	kubelet := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		carry(t, w, r, leader.Listener.Addr().String())
	}))
	t.Cleanup(kubelet.Close)
	t.Cleanup(kubelet.CloseClientConnections)
	to, err := url.Parse(kubelet.URL)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("POST "+podsPath+"/leads/portforward", utilproxy.NewUpgradeAwareHandler(to, nil, false, true, responder{t}))
	mux.HandleFunc("POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews", k.review)
	mux.HandleFunc("POST /apis/authorization.k8s.io/v1/subjectaccessreviews", k.reviewController)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set(externalmetrics.ExplainHeader, "1")
		answer, found := k.answers[r.URL.Path]
		if r.Method != http.MethodGet {
			t.Errorf("%s %s: the command only reads", r.Method, r.URL.Path)
		}
		if !found {
			w.WriteHeader(http.StatusNotFound)
			answer = `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}`
		}
		_, _ = io.WriteString(w, answer)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	commandtest.Write(t, kubeconfig, fmt.Appendf(nil, `{apiVersion: v1, kind: Config, current-context: c,
  clusters: [{name: c, cluster: {server: %q}}],
  users: [{name: u, user: {token: secret}}], contexts: [{name: c, context: {cluster: c, user: u, namespace: team-chat}}]}`, server.URL))
	return kubeconfig
}

func (k checkedCluster) review(w http.ResponseWriter, r *http.Request) {
	review := authorizationv1.SelfSubjectAccessReview{}
	body, err := io.ReadAll(r.Body)
	if err == nil {
		_, _, err = scheme.Codecs.UniversalDeserializer().Decode(body, nil, &review)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	review.Status.Allowed = !slices.Contains(k.denied, review.Spec.ResourceAttributes.Resource)
	review.TypeMeta = metav1.TypeMeta{APIVersion: "authorization.k8s.io/v1", Kind: "SelfSubjectAccessReview"}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(review)
}

// reviewController responds to access reviews about the controller's ServiceAccount, which is named default in this test.
func (k checkedCluster) reviewController(w http.ResponseWriter, r *http.Request) {
	review := authorizationv1.SubjectAccessReview{}
	body, err := io.ReadAll(r.Body)
	if err == nil {
		_, _, err = scheme.Codecs.UniversalDeserializer().Decode(body, nil, &review)
	}
	if err != nil || review.Spec.User != "system:serviceaccount:gpuscaler-system:default" {
		http.Error(w, fmt.Sprintf("user %q, %v", review.Spec.User, err), http.StatusBadRequest)
		return
	}
	review.Status.Allowed = !slices.Contains(k.lacks, review.Spec.ResourceAttributes.Resource)
	review.TypeMeta = metav1.TypeMeta{APIVersion: "authorization.k8s.io/v1", Kind: "SubjectAccessReview"}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(review)
}

// localPort matches the address of a server of this test. The port differs from run to run.
var localPort = regexp.MustCompile(`127\.0\.0\.1:\d+`)

func checkOf(t *testing.T, k checkedCluster, args ...string) (code int, out string) {
	t.Helper()
	code, out, problem := runLine(t, append([]string{"check", "--kubeconfig", k.start(t)}, args...)...)
	if problem != "" {
		t.Errorf("standard error: %s", problem)
	}
	if strings.ContainsAny(out, "\x1b\r") {
		t.Errorf("control characters in %q", out)
	}
	return code, localPort.ReplaceAllString(out, "127.0.0.1:PORT")
}

func TestCheckOfAHealthyClusterHasOnlyTicks(t *testing.T) {
	prometheus := promtest.Serve(t, time.Now().Add(-40*time.Minute),
		`DCGM_FI_PROF_GR_ENGINE_ACTIVE{UUID="a",namespace="team-chat",pod="llama-0"} 0.5x60`).URL
	code, out := checkOf(t, healthyCluster(), "--prometheus", prometheus)
	if code != 0 {
		t.Errorf("exit code %d", code)
	}
	golden.Compare(t, "testdata/check-healthy.txt", out)
	if code, pre := checkOf(t, healthyCluster(), "--prometheus", prometheus, "--pre"); code != 0 || strings.Contains(pre, "After") ||
		!strings.HasPrefix(out, strings.TrimSuffix(pre, pre[strings.LastIndex(pre, "\n\n")+2:])) {
		t.Errorf("--pre: exit code %d\n%s", code, pre)
	}
}

func TestCheckOfABrokenClusterNamesTheNextSteps(t *testing.T) {
	k := healthyCluster()
	k.denied = []string{"clusterroles", "nodepools"}
	k.lacks = []string{"nodepools", "events"}
	k.metrics += `gpuscaler_policy_document{document="ScalingPolicy team-chat/typo",file="typo.yaml",state="Refused"} 1` + "\n"
	k.metrics += `gpuscaler_group_finding{group="chat",nodepool="",finding="disabled"} 1
gpuscaler_group_finding{group="batch",nodepool="pool=a100",finding="no-nodes"} 1
gpuscaler_group_failing{group="batch"} 0
gpuscaler_group_failing{group="train"} 1
`
	replace := func(path, old, text string) {
		if !strings.Contains(k.answers[path], old) {
			t.Fatalf("%s does not contain %q", path, old)
		}
		k.answers[path] = strings.ReplaceAll(k.answers[path], old, text)
	}
	const lease = "/apis/coordination.k8s.io/v1/namespaces/gpuscaler-system/leases/leads-here"
	k.answers[lease] = `{"metadata": {"name": "leads-here"}, "spec": {"holderIdentity": "leads", "leaseDurationSeconds": 1,
	  "renewTime": "2026-11-22T09:00:00.000000Z"}}`
	replace("/version", `"36"`, `"34"`)
	replace("/version", "v1.36.4", "v1.34.2")
	replace("/apis/apiregistration.k8s.io/v1/apiservices", `"namespace": "gpuscaler-system", "name": "gpuscaler"`,
		`"namespace": "datadog", "name": "datadog-cluster-agent"`)
	replace("/api/v1/nodes", `"nvidia.com/gpu": "8"`, `"cpu": "8"`)
	replace("/apis/apps/v1/deployments", "2.21.0", "2.11.0")
	replace("/apis/autoscaling/v2/horizontalpodautoscalers", `"status": "True", "reason": "ValidMetricFound"`,
		`"status": "False", "reason": "FailedGetExternalMetric", "message": "no metrics returned"`)
	replace("/apis/apps/v1/namespaces/gpuscaler-system/deployments", `"availableReplicas": 2`, `"availableReplicas": 0`)
	replace(podsPath, `"phase": "Running"`, `"phase": "Running", "containerStatuses": [{"state": {"waiting": {"reason": "ImagePullBackOff",
	  "message": "Back-off pulling image \"registry.example.com/gpuscaler:0.2.0\"."}}}]`)
	const explain = "/apis/external.metrics.k8s.io/v1beta1/" + externalmetrics.ExplainResource
	k.answers[explain] = `[
	  {"policy": "team-chat/llama-chat", "mode": "auto", "notDecided": "Deployment llama-chat does not exist", "served": "no decision"},
	  {"policy": "team-chat/slow", "at": "2026-11-22T09:00:00Z", "mode": "auto", "served": "served", "degraded": true,
	   "scaledBy": {"kind": "HPA", "name": "slow", "exact": false, "why": "tolerance is 10%"}},
	  {"policy": "team-chat/alone", "at": "2026-11-22T09:00:00Z", "mode": "auto", "served": "served"}]`
	prometheus := promtest.Serve(t, time.Now().Add(-40*time.Minute), `up{job="x"} 1x60`).URL
	code, out := checkOf(t, k, "--prometheus", prometheus)
	if code != 1 {
		t.Errorf("exit code %d", code)
	}
	golden.Compare(t, "testdata/check-broken.txt", out)

	_, text := checkOf(t, k, "--prometheus", prometheus, "-o", "json")
	var r checked
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	for _, one := range append(r.Before, r.After...) {
		if one.Found == "" || one.Guide == "" || (one.Status == installation.OK) != (one.Next == "") {
			t.Errorf("incomplete: %+v", one)
		}
	}
	if r.count(installation.Failed) != strings.Count(out, "✗") || r.count(installation.Warning) != strings.Count(out, "\n! ") {
		t.Errorf("the JSON has other results than the text:\n%s", text)
	}
}

// If gpuscaler is not installed, or if the API server does not respond, the command must fail and print what is missing.
func TestCheckWithoutAReleaseOrAnAPIServerFails(t *testing.T) {
	k := healthyCluster()
	k.answers["/apis/apps/v1/namespaces/gpuscaler-system/deployments"] = `{"kind": "DeploymentList", "apiVersion": "apps/v1", "items": []}`
	if code, out := checkOf(t, k); code != 1 || !strings.Contains(out, "✗ no release of gpuscaler is in namespace gpuscaler-system") ||
		!strings.Contains(out, "--pre") {
		t.Errorf("exit code %d\n%s", code, out)
	}
	if code, out := checkOf(t, k, "--pre"); code != 0 || !strings.Contains(out, "no Prometheus server is given") {
		t.Errorf("--pre: exit code %d\n%s", code, out)
	}
	gone := filepath.Join(t.TempDir(), "kubeconfig")
	commandtest.Write(t, gone, []byte(`{apiVersion: v1, kind: Config, current-context: c,
  clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}],
  users: [{name: u, user: {}}], contexts: [{name: c, context: {cluster: c, user: u}}]}`))
	code, out, _ := runLine(t, "check", "--kubeconfig", gone)
	if code != 1 || !strings.Contains(out, "✗ the API server does not answer") || strings.Contains(out, "After the installation") {
		t.Errorf("exit code %d\n%s", code, out)
	}
}

// A server that accepts connections and never responds must not block the command.
func TestCheckEndsAtItsTimeLimit(t *testing.T) {
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer server.Close()
	defer close(release)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	commandtest.Write(t, kubeconfig, fmt.Appendf(nil, `{apiVersion: v1, kind: Config, current-context: c,
  clusters: [{name: c, cluster: {server: %q}}],
  users: [{name: u, user: {}}], contexts: [{name: c, context: {cluster: c, user: u}}]}`, server.URL))
	code, out, problem := runLine(t, "check", "--kubeconfig", kubeconfig, "--timeout", "200ms", "--prometheus", server.URL)
	if code != 1 || !strings.Contains(out, "✗ the API server does not answer") || problem != "" {
		t.Errorf("exit code %d\n%s%s", code, out, problem)
	}
}

// The oldest version of Kubernetes that `gpuscaler check` accepts must be the oldest version that the chart's kubeVersion accepts.
func TestOldestKubernetesIsThatOfTheChart(t *testing.T) {
	text, err := os.ReadFile("../../../charts/gpuscaler/Chart.yaml")
	if want := fmt.Sprintf("kubeVersion: \">=1.%d.0-0\"\n", installation.OldestMinor); err != nil || !strings.Contains(string(text), want) {
		t.Errorf("Chart.yaml does not contain %q (%v)", want, err)
	}
}
