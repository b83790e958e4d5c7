package policies

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/cmd/gpuscaler/commandline"
	"github.com/gpuscaler/gpuscaler/cmd/gpuscaler/commandline/commandtest"
	"github.com/gpuscaler/gpuscaler/pkg/lint"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/promtest"
)

func runLint(t *testing.T, args ...string) (string, error) {
	t.Helper()
	c := lintCommand()
	var out bytes.Buffer
	c.SetOut(&out)
	c.SetArgs(args)
	c.SilenceErrors, c.SilenceUsage = true, true
	err := c.ExecuteContext(t.Context())
	return out.String(), err
}

// served starts a Prometheus server with the given series and returns its URL. The samples begin 40 minutes before now.
func served(t *testing.T, series string) string {
	return promtest.Serve(t, time.Now().Add(-40*time.Minute), series).URL
}

const lintedChat = `
apiVersion: gpuscaler.io/v1alpha1
kind: PlatformConfig
metadata: {name: p}
spec:
  dataSources: [{name: prom, type: prometheus, default: true, address: "http://prometheus.example:9090"}]
---
apiVersion: gpuscaler.io/v1alpha1
kind: ScalingPolicy
metadata: {name: llama, namespace: team-chat}
spec:
  scaleTargetRef: {name: llama}
  minReplicas: 1
  maxReplicas: 8
  signals:
  - {name: kv, type: vllm, metric: kvCacheUsage, target: 80%}
`

func TestPreflightOfAServer(t *testing.T) {
	text, err := runLint(t, "--offline", "--prometheus", served(t,
		`DCGM_FI_PROF_GR_ENGINE_ACTIVE{UUID="a",namespace="team-chat",pod="llama-0"} 0.5x60`))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	for _, want := range []string{"3.5.0 at http://127.0.0.1", "INFO NoKubeStateMetrics", "why: ", "fix: scrape kube-state-metrics",
		"0 errors, 0 warnings, 2 hints"} {
		if !strings.Contains(text, want) {
			t.Errorf("the output does not contain %q:\n%s", want, text)
		}
	}
}

func TestLintErrorReturnsAnErrorAndJSON(t *testing.T) {
	text, err := runLint(t, commandtest.File(t, "chat.yaml", lintedChat), "--offline", "-o", "json", "--prometheus", served(t,
		`DCGM_FI_PROF_GR_ENGINE_ACTIVE{UUID="a",namespace="team-chat",pod="llama-0"} 0.5x60`))
	if !errors.Is(err, commandline.ErrReported) {
		t.Errorf("%v", err)
	}
	var l linted
	if err := json.Unmarshal([]byte(text), &l); err != nil {
		t.Fatal(err)
	}
	if len(l.Findings) == 0 || l.Findings[0].Check != lint.MetricMissing || l.Findings[0].About != "ScalingPolicy team-chat/llama signal kv" {
		t.Errorf("%+v", l.Findings)
	}
}

func TestPolicyWithExistingMetricsHasNoError(t *testing.T) {
	text, err := runLint(t, commandtest.File(t, "chat.yaml", lintedChat), "--offline", "--prometheus", served(t, `
DCGM_FI_PROF_GR_ENGINE_ACTIVE{UUID="a",namespace="team-chat",pod="llama-0"} 0.5x60
vllm:gpu_cache_usage_perc{namespace="team-chat",pod="llama-0"} 0.5x60`)) // the old name of the metric, which the controller also reads
	if err != nil {
		t.Errorf("%v\n%s", err, text)
	}
}

// `helm test` uses --sources to check the server that the mounted PlatformConfig declares.
func TestSourcesChecksThePlatformsServer(t *testing.T) {
	server := served(t, `
DCGM_FI_PROF_GR_ENGINE_ACTIVE{UUID="a",namespace="team-chat",pod="llama-0"} 0.5x60
vllm:gpu_cache_usage_perc{namespace="team-chat",pod="llama-0"} 0.5x60`)
	path := commandtest.File(t, "chat.yaml", strings.Replace(lintedChat, "http://prometheus.example:9090", server, 1))
	if text, err := runLint(t, path, "--offline", "--sources"); err != nil || !strings.Contains(text, "at "+server) {
		t.Errorf("%v\n%s", err, text)
	}
	without := commandtest.File(t, "none.yaml", strings.Replace(lintedChat,
		"dataSources: [{name: prom, type: prometheus, default: true, address: \"http://prometheus.example:9090\"}]", "cluster: p", 1))
	if text, err := runLint(t, without, "--offline", "--sources"); err != nil || !strings.Contains(text, "the PlatformConfig declares none") {
		t.Errorf("%v\n%s", err, text)
	}
	if _, err := runLint(t, path, "--offline", "--sources", "--prometheus", server); err == nil || !strings.Contains(err.Error(),
		"use one of them") {
		t.Errorf("%v", err)
	}
}

// Just after an installation, a metric can lack series because Prometheus has not scraped it. With --fresh, lint must report missing series
// as a warning. It must report other mistakes, such as a wrong name of a metric, as an error.
func TestFreshWarnsOfMetricsWithoutSeriesAndFailsForMistakes(t *testing.T) {
	path, empty := commandtest.File(t, "chat.yaml", lintedChat), served(t, "up 1x60")
	if text, err := runLint(t, path, "--offline", "--prometheus", empty); !errors.Is(err, commandline.ErrReported) || !strings.Contains(text,
		"ERROR MetricMissing") {
		t.Errorf("without --fresh: %v\n%s", err, text)
	}
	text, err := runLint(t, path, "--offline", "--fresh", "--prometheus", empty)
	if err != nil || !strings.Contains(text, "WARNING MetricMissing") || !strings.Contains(text,
		"WARNING NoGPUMetrics") || !strings.Contains(text, "0 errors") {
		t.Errorf("%v\n%s", err, text)
	}
	if text, err := runLint(t, path, "--offline", "--fresh", "--prometheus", "http://127.0.0.1:1"); !errors.Is(err,
		commandline.ErrReported) || !strings.Contains(text, "ERROR PrometheusUnreachable") {
		t.Errorf("a wrong address: %v\n%s", err, text)
	}
	text, err = runLint(t, path, "--offline", "--fresh", "--prometheus", served(t, `
DCGM_FI_PROF_GR_ENGINE_ACTIVE{UUID="a",namespace="team-chat",pod="llama-0"} 0.5x60
ray_vllm:kv_cache_usage_perc{namespace="team-chat",pod="llama-0"} 0.5x60`))
	if !errors.Is(err, commandline.ErrReported) || !strings.Contains(text, "ERROR RenamedMetric") {
		t.Errorf("another name: %v\n%s", err, text)
	}
}

func TestServerThatDoesNotRespondIsAFinding(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	login := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_,
			_ = w.Write([]byte("<html>please log in"))
	}))
	defer login.Close()
	for name, address := range map[string]string{"connection refused": gone.URL, "a login page": login.URL} {
		text, err := runLint(t, "--offline", "--prometheus", address)
		if !errors.Is(err, commandline.ErrReported) || !strings.Contains(text, "ERROR PrometheusUnreachable") ||
			!strings.Contains(text, "--http-config") {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
	}
}

func TestRefusedPolicyIsAFinding(t *testing.T) {
	bad := commandtest.File(t, "chat.yaml", strings.Replace(lintedChat, "maxReplicas: 8", "maxReplica: 8", 1))
	text, err := runLint(t, bad, "--offline", "--prometheus", served(t, `up 1x60`))
	if !errors.Is(err, commandline.ErrReported) || !strings.Contains(text, "ERROR PolicyRefused") || !strings.Contains(text,
		`did you mean "maxReplicas"`) {
		t.Errorf("%v\n%s", err, text)
	}
}

func TestLintErrorsNameTheNextStep(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"nothing to check":         {[]string{"--offline"}, "gpuscaler validate"},
		"unknown output format":    {[]string{"-o", "yaml"}, "use text or json"},
		"no kubeconfig":            {[]string{"--kubeconfig", "/nowhere/config"}, "--offline with --prometheus"},
		"address without a scheme": {[]string{"--offline", "--prometheus", "prometheus:9090"}, "http://HOST:PORT"},
	} {
		if _, err := runLint(t, c.args...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// lint must check a policy in the annotations of an HPA like a policy in a file, so that a user can check the HPA's manifest before
// applying it. A reference to this policy must not be reported as missing.
func TestLintReadsPoliciesInAnnotations(t *testing.T) {
	platform := commandtest.File(t, "platform.yaml", "apiVersion: gpuscaler.io/v1alpha1\nkind: PlatformConfig\nmetadata: {name: prod}\n"+
		"spec: {dataSources: [{name: prom, type: prometheus, default: true, address: \"http://prom:9090\"}]}\n")
	hpa := func(annotations string) string {
		return commandtest.File(t, "hpa.yaml", `apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata:
  name: chat
  namespace: team-chat
  annotations: {`+annotations+`}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: chat}
  maxReplicas: 12
  metrics:
  - type: External
    external:
      metric: {name: gpuscaler-desired-replicas, selector: {matchLabels: {gpuscaler.io/policy: chat}}}
      target: {type: AverageValue, averageValue: "1"}
`)
	}
	text, err := runLint(t, platform, "--offline", "--objects", hpa(""))
	if !errors.Is(err, commandline.ErrReported) || !strings.Contains(text, "ERROR UnknownPolicy") {
		t.Errorf("without annotations: %v\n%s", err, text)
	}
	text, err = runLint(t, platform, "--offline", "--objects", hpa(`gpuscaler.io/gpu-utilization-target: "70"`))
	if err != nil || strings.Contains(text, "UnknownPolicy") {
		t.Errorf("a valid annotation: %v\n%s", err, text)
	}
	text, err = runLint(t, platform, "--offline", "--objects", hpa(`gpuscaler.io/gpu-utilization-target: ten`))
	if !errors.Is(err, commandline.ErrReported) || !strings.Contains(text, "ERROR PolicyRefused  HorizontalPodAutoscaler team-chat/chat") ||
		!strings.Contains(text, "metadata.annotations[gpuscaler.io/gpu-utilization-target]") || strings.Contains(text, "UnknownPolicy") {
		t.Errorf("an invalid annotation: %v\n%s", err, text)
	}
	text, err = runLint(t, platform, "--offline", "--objects", hpa(`gpuscaler.io/queue-depth: "7"`))
	if !errors.Is(err, commandline.ErrReported) || !strings.Contains(text, `did you mean "gpuscaler.io/queue-depth-per-replica"?`) {
		t.Errorf("only a misspelled annotation: %v\n%s", err, text)
	}
	text, err = runLint(t, platform, "--offline", "--objects", hpa(`gpuscaler.io/paused: "true"`))
	if !errors.Is(err, commandline.ErrReported) || strings.Contains(text, "PolicyRefused") {
		t.Errorf("only an annotation of an operator: %v\n%s", err, text)
	}
}

// An HPA whose external metric has a fallback below maxReplicas scales down when gpuscaler serves no target. lint must find this fallback
// in a file, without a cluster or a Prometheus server.
func TestLintChecksTheObjectsOfFiles(t *testing.T) {
	hpa := func(metric string) string {
		return commandtest.File(t, "hpa.yaml", `apiVersion: v1
kind: List
items:
- apiVersion: autoscaling/v2
  kind: HorizontalPodAutoscaler
  metadata: {name: chat, namespace: team-chat}
  spec:
    scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: chat}
    maxReplicas: 12
    metrics:
    - type: External
      external:
        metric: {name: gpuscaler-desired-replicas, selector: {matchLabels: {gpuscaler.io/policy: chat}}}
        target: {type: AverageValue, averageValue: "1"}
`+metric)
	}
	text, err := runLint(t, "--offline", "--objects", hpa("        fallback: {replicas: 3}\n"))
	if !errors.Is(err, commandline.ErrReported) || !strings.Contains(text, "ERROR FallbackScalesDown") || !strings.Contains(text,
		"fallback.replicas: 12") {
		t.Errorf("%v\n%s", err, text)
	}
	for _, safe := range []string{"", "        fallback: {replicas: 12}\n"} {
		if text, err := runLint(t, "--offline", "--objects", hpa(safe)); err != nil || strings.Contains(text, "FallbackScalesDown") {
			t.Errorf("%q: %v\n%s", safe, err, text)
		}
	}
	if _, err := runLint(t, "--objects", hpa("")); err == nil || !strings.Contains(err.Error(), "--offline") {
		t.Errorf("--objects without --offline: %v", err)
	}
}
