package install

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/gpuscaler/gpuscaler/e2e/kubelet"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
	"github.com/gpuscaler/gpuscaler/e2e/workload"
)

// readme returns the code blocks of the README in the given language.
func readme(t *testing.T, language string) (blocks []string) {
	t.Helper()
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for i, block := range strings.Split(string(text), "```") {
		if block, is := strings.CutPrefix(block, language+"\n"); is && i%2 == 1 {
			blocks = append(blocks, block)
		}
	}
	return blocks
}

// block returns the YAML block of the README that contains the text.
func block(t *testing.T, text string) string {
	t.Helper()
	for _, b := range readme(t, "yaml") {
		if strings.Contains(b, text) {
			return b
		}
	}
	t.Fatalf("the README has no block with %q", text)
	return ""
}

// A new user needs only the README: with its values, its policy and its HPA, a workload must scale.
func TestManifestsOfTheReadmeScaleAWorkload(t *testing.T) {
	h := newHelm(t, restricted(t, "gpuscaler-readme"))
	machine := newHost(t, h.namespace)
	h.edit = edits(machine.edit)
	pods := kubelet.Run(t.Context(), cluster)
	defer dump(t, pods, h.namespace)

	var values map[string]any
	text := strings.Replace(block(t, "platform:  "), "http://prometheus.monitoring.svc:9090", cluster.Prometheus.URL, 1)
	if err := yaml.UnmarshalStrict([]byte(text), &values); err != nil {
		t.Fatal(err)
	}
	documents := strings.Split(block(t, "kind: ScalingPolicy"), "\n---\n")
	policy := documents[slices.IndexFunc(documents, func(d string) bool { return strings.Contains(d, "kind: ScalingPolicy") })]
	values["files"] = map[string]any{"llama-chat.yaml": policy}
	values["mode"] = "hpa"
	began := time.Now()
	objects := parse(t, h.install("gpuscaler", values).Manifest)
	machine.mount(t, h.namespace)
	validate(t, machine)

	restrictedTeam(t)
	waiting := queue(t)
	waiting.Store(37)
	var hpa autoscalingv2.HorizontalPodAutoscaler
	if err := yaml.UnmarshalStrict([]byte(block(t, "kind: HorizontalPodAutoscaler")), &hpa); err != nil {
		t.Fatal(err)
	}
	server := workload.Deployment("team-chat", "llama-chat", 1)
	for _, o := range []client.Object{server, &hpa} {
		if err := cluster.Client.Create(t.Context(), o, client.FieldValidation("Strict")); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cluster.Client.Delete(context.Background(), o) })
	}
	replicas := func(ctx context.Context) (int32, error) {
		var d appsv1.Deployment
		err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(server), &d)
		return ptr.Deref(d.Spec.Replicas, 0), err
	}
	stack.Eventually(t, 2*time.Minute, "more replicas while 37 requests wait", func(ctx context.Context) error {
		n, err := replicas(ctx)
		if err == nil && n < 4 {
			err = fmt.Errorf("%d replicas", n)
		}
		return err
	})
	t.Logf("from helm install to four replicas: %s", time.Since(began).Round(time.Second))
	waiting.Store(0)
	time.Sleep(30 * time.Second) // long enough for two syncs of the HPA and the polls before these syncs
	before, err := replicas(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(30 * time.Second)
	if n, err := replicas(t.Context()); err != nil || n != before {
		t.Errorf("no request waits, and there are %d replicas after %d: %v", n, before, err)
	}
	h.uninstall("gpuscaler", true)
	stack.Eventually(t, time.Minute, "no object is left", func(context.Context) error {
		if left := existing(t, objects); len(left) > 0 {
			return fmt.Errorf("left: %v", left)
		}
		return nil
	})
}

func restrictedTeam(t *testing.T) {
	t.Helper()
	if err := cluster.Namespace(t.Context(), "team-chat"); err != nil {
		t.Fatal(err)
	}
	if err := cluster.Nodes(t.Context(), "gpu", 1, 8); err != nil {
		t.Fatal(err)
	}
}

// queue serves the metrics of a gateway to Prometheus: ten arriving requests a second, and the number of waiting requests, which the
// caller can change.
func queue(t *testing.T) (waiting *atomic.Int64) {
	t.Helper()
	waiting = &atomic.Int64{}
	began := time.Now()
	gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		const labels = `{namespace="team-chat",inference_pool="llama-chat"}`
		fmt.Fprintf(w, "inference_extension_flow_control_queue_size%s %d\n", labels, waiting.Load())
		fmt.Fprintf(w, "inference_objective_request_total%s %d\n", labels, 10*int(time.Since(began).Seconds()))
	}))
	t.Cleanup(gateway.Close)
	if err := cluster.Prometheus.Targets("gateway", stack.ScrapeTarget{Address: strings.TrimPrefix(gateway.URL, "http://"),
		Labels: map[string]string{"job": "gateway"}}); err != nil {
		t.Fatal(err)
	}
	return waiting
}

// Each value in the helm commands of the README and of the guides must exist in the chart.
func TestHelmCommandsOfTheReadmeUseExistingValues(t *testing.T) {
	values := regexp.MustCompile(`--set ([a-zA-Z.]+)=`)
	var defaults map[string]any
	text, err := os.ReadFile("../../charts/gpuscaler/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, &defaults); err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob("../../config/guides/*.md")
	if err != nil {
		t.Fatal(err)
	}
	var whole strings.Builder
	for _, page := range append(pages, "../../README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		whole.Write(text)
	}
	found := values.FindAllStringSubmatch(whole.String(), -1)
	if len(found) < 3 {
		t.Fatalf("%d values", len(found))
	}
	for _, m := range found {
		at := any(defaults)
		for _, key := range strings.Split(m[1], ".") {
			inner, ok := at.(map[string]any)
			if !ok {
				t.Fatalf("--set %s: no such value", m[1])
			}
			if at, ok = inner[key]; !ok {
				t.Fatalf("--set %s: no such value", m[1])
			}
		}
	}
}
