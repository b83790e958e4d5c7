package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/metrics/pkg/apis/external_metrics/v1beta1"

	"github.com/gpuscaler/gpuscaler/pkg/dashboard"
	"github.com/gpuscaler/gpuscaler/pkg/dashboard/explain"
)

// fresh opens a new connection for each request, because an open connection can lead to the previous leader.
var fresh = &http.Client{Timeout: 3 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

// Explain returns the leader's explanation of a policy (namespace/name).
func (c *Controller) Explain(ctx context.Context, policy string) (explain.Explanation, error) {
	var e explain.Explanation
	body, err := get(ctx, "http://"+c.page.Address+dashboard.ExplainPath+policy)
	if err == nil {
		err = json.Unmarshal(body, &e)
	}
	return e, err
}

// ServedTarget reads the target of a policy through the API server, as an HPA does.
func (c *Controller) ServedTarget(ctx context.Context, namespace, policy string) (int32, error) {
	config := rest.CopyConfig(c.Stack.Config)
	config.Timeout = 2 * time.Second // a leader that hangs must not block the test
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return 0, err
	}
	path := "/apis/external.metrics.k8s.io/v1beta1/namespaces/" + namespace + "/gpuscaler-desired-replicas"
	body, err := client.RESTClient().Get().AbsPath(path).Param("labelSelector", "gpuscaler.io/policy="+policy).DoRaw(ctx)
	if err != nil {
		return 0, err
	}
	var list v1beta1.ExternalMetricValueList
	if err := json.Unmarshal(body, &list); err != nil {
		return 0, err
	}
	if len(list.Items) != 1 {
		return 0, fmt.Errorf("%d items, want 1: an HPA uses their sum", len(list.Items))
	}
	return int32(list.Items[0].Value.Value()), nil
}

// PageURL returns the URL of a proxy to the leader's web page. The proxy replaces `kubectl port-forward`.
func (c *Controller) PageURL() string { return "http://" + c.page.Address }

// MetricsURL returns the URL of the leader's /metrics.
func (c *Controller) MetricsURL() string { return "http://" + c.status.Address + "/metrics" }

// Logs returns a glob pattern that matches the log files of all pods of gpuscaler, including deleted pods.
func (c *Controller) Logs() string {
	return filepath.Join(c.Stack.Dir, "logs", Namespace+"-"+Name+"-*.log")
}

// Log returns the logs of all pods of gpuscaler, one after the other.
func (c *Controller) Log() string {
	files, _ := filepath.Glob(c.Logs()) // no error is possible, because the pattern is valid
	var text strings.Builder
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			content = []byte(err.Error() + "\n")
		}
		text.Write(content)
	}
	return text.String()
}

// CLI runs a command of the binary, such as explain, and returns its output.
func (c *Controller) CLI(ctx context.Context, args ...string) (string, error) {
	text, err := exec.CommandContext(ctx, c.Binary, args...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("gpuscaler %s: %w\n%s", strings.Join(args, " "), err, text)
	}
	return string(text), err
}

// Metric returns the value of a sample in the leader's /metrics. The sample is selected by the name of its metric and by labels: pairs
// contains names and values of labels alternately. Metric returns an error unless exactly one sample matches.
func (c *Controller) Metric(ctx context.Context, name string, pairs ...string) (float64, error) {
	return metricAt(ctx, c.MetricsURL(), name, pairs)
}

func metricAt(ctx context.Context, url, name string, pairs []string) (float64, error) {
	body, err := get(ctx, url)
	if err != nil {
		return 0, err
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(string(body)))
	if err != nil {
		return 0, err
	}
	var found []*dto.Metric
	for _, m := range families[name].GetMetric() {
		if carries(m, pairs) {
			found = append(found, m)
		}
	}
	if len(found) != 1 {
		return 0, fmt.Errorf("%d metrics %s%v", len(found), name, pairs)
	}
	if counter := found[0].GetCounter(); counter != nil {
		return counter.GetValue(), nil
	}
	return found[0].GetGauge().GetValue(), nil
}

func carries(m *dto.Metric, pairs []string) bool {
	has := map[string]string{}
	for _, l := range m.GetLabel() {
		has[l.GetName()] = l.GetValue()
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		if has[pairs[i]] != pairs[i+1] {
			return false
		}
	}
	return true
}

func get(ctx context.Context, url string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := fresh.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 8<<20))
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", url, response.Status, strings.TrimSpace(string(body)))
	}
	return body, err
}
