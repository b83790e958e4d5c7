package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	external "k8s.io/metrics/pkg/apis/external_metrics/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// naive is an adapter with a defect: it serves 0 if Prometheus does not return a value. It runs in the process of the test.
type naive struct{ lab *lab }

func (n *naive) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	const root = "/apis/external.metrics.k8s.io/v1beta1"
	rest, ok := strings.CutPrefix(r.URL.Path, root)
	var answer any
	switch {
	case ok && rest == "":
		answer = metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"},
			GroupVersion: "external.metrics.k8s.io/v1beta1", APIResources: []metav1.APIResource{
				{Name: series, Namespaced: true, Kind: "ExternalMetricValueList", Verbs: metav1.Verbs{"get"}}}}
	case ok:
		_, app, _ := strings.Cut(r.URL.Query().Get("labelSelector"), "app=")
		answer = external.ExternalMetricValueList{
			TypeMeta: metav1.TypeMeta{Kind: "ExternalMetricValueList", APIVersion: "external.metrics.k8s.io/v1beta1"},
			Items: []external.ExternalMetricValue{{MetricName: series, Timestamp: metav1.Now(),
				Value: *resource.NewQuantity(n.value(r.Context(), app), resource.DecimalSI)}}}
	default:
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer) // the API server may have disconnected
}

func (n *naive) value(ctx context.Context, app string) int64 {
	query := workload{name: app, origin: gateway}.query()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, n.lab.sourceURL()+"/api/v1/query", nil)
	if err != nil {
		return 0
	}
	request.URL.RawQuery = "query=" + strings.NewReplacer("{", "%7B", "}", "%7D", `"`, "%22", "=", "%3D").Replace(query)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0
	}
	defer response.Body.Close()
	var answer struct {
		Data struct{ Result []struct{ Value [2]any } }
	}
	value := 0.0
	if json.NewDecoder(response.Body).Decode(&answer) == nil && len(answer.Data.Result) == 1 {
		_, _ = fmt.Sscan(fmt.Sprint(answer.Data.Result[0].Value[1]), &value) // the value stays 0
	}
	return int64(value)
}

// short are the durations of the parts of a run in this test.
var short = timing{steady: time.Second, hold: 4 * time.Second, settle: 2 * time.Second, recover: time.Minute}

// The same faults are injected twice in one cluster: first for an adapter that serves 0 without data, whose wrong decreases the judge must
// find, and then for gpuscaler.
func TestJudgeFindsTheWrongDecreasesOfANaiveAdapter(t *testing.T) {
	l, err := newLab(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer l.stack.Stop()
	m := newTestMatrix(t, l)
	adapter := httptest.NewTLSServer(&naive{lab: l})
	defer adapter.Close()
	m.target, err = parseTarget(adapter.URL)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	if err := m.attach(ctx, l); err != nil {
		t.Fatal(err)
	}
	r := m.result(t, "answer-empty")
	if r.Served < 2 || !strings.Contains(r.Note, " to 0 ") {
		t.Errorf("%v of an adapter that serves 0 without data: want a decrease of both values", r)
	}
	if r = m.result(t, "path-refused"); r.Refused == 0 || r.Outcome != recovered || r.Served > 0 {
		t.Errorf("%v without a connection to the adapter: want refused reads only", r)
	}
	if r = m.result(t, "leader-killed"); r.Outcome != inapplicable {
		t.Errorf("%v: want the reason why a fault cannot apply", r)
	}
	stop()
	uninstall(t, l)

	l.parts, m.target = parts{}, &gpuscaler{}
	m.timing.hold = 9 * time.Second // so long that the last reading of gpuscaler becomes stale
	ctx, stop = context.WithCancel(t.Context())
	defer stop()
	if err := m.attach(ctx, l); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"answer-empty", "leader-killed"} {
		if r := m.result(t, name); r.failure() != "" || r.Reads == 0 {
			t.Errorf("gpuscaler, %s: %v", name, r)
		}
	}
}

type testMatrix struct{ *matrix }

func newTestMatrix(t *testing.T, l *lab) testMatrix {
	dir := t.TempDir()
	t.Cleanup(func() {
		if t.Failed() {
			l.stack.Keep()
			t.Logf("failures: %s", dir)
		}
	})
	return testMatrix{&matrix{dir: dir, timing: short, lab: l, say: t.Logf}}
}

// result runs a fault once.
func (m testMatrix) result(t *testing.T, name string) result {
	t.Helper()
	for _, f := range matrixFaults() {
		if f.name == name {
			r, err := m.once(t.Context(), f)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			t.Logf("%s: %v", name, r)
			return r
		}
	}
	t.Fatalf("no fault %s", name)
	return result{}
}

// uninstall removes the HPAs and the registration of an adapter.
func uninstall(t *testing.T, l *lab) {
	t.Helper()
	if err := l.stack.Client.DeleteAllOf(t.Context(), &autoscalingv2.HorizontalPodAutoscaler{}, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	if err := l.stack.Client.Delete(t.Context(), registration()); err != nil {
		t.Fatal(err)
	}
}

func TestListOfFaults(t *testing.T) {
	names := map[string]bool{}
	for _, f := range matrixFaults() {
		if names[f.name] {
			t.Errorf("two faults %s", f.name)
		}
		names[f.name] = true
		if f.inject == nil || !strings.HasSuffix(f.what, ".") || strings.Count(f.what, ". ") > 0 {
			t.Errorf("%s: %q: want an injection and one sentence", f.name, f.what)
		}
	}
	if len(names) < 40 {
		t.Errorf("%d faults, want at least 40", len(names))
	}
}

func TestDefinitionsOfTargets(t *testing.T) {
	for text, want := range map[string]string{
		"name: a\naddress: 127.0.0.1:1":                                      "",
		"name: a\ncommand: [/adapter, --secure-port=$(PORT)]":                "",
		"name: a\naddress: x:1\nworkloads: {jobs: {metric: m, divisor: 10}}": "",
		"name: a":                                   "set either command or address",
		"name: a/b\naddress: x:1":                   "without dots, slashes",
		"name: a\naddress: x:1\ncommand: [/a]":      "set either command or address",
		"name: a\naddress: x:1\nworkloads: {x: {}}": `no workload "x"`,
		"name: a\nadress: x:1":                      `unknown field "adress"`,
	} {
		_, err := parseDefinition([]byte(text))
		if got := fmt.Sprint(err); want == "" && err != nil || !strings.Contains(got, want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if _, err := parseTarget("no-such-file"); err == nil {
		t.Error("a file that does not exist is a target")
	}
	defined, err := parseDefinition([]byte("name: a\naddress: x:1\nworkloads: {jobs: {metric: m, divisor: 10}}"))
	if err != nil {
		t.Fatal(err)
	}
	served := 0
	for _, w := range workloads {
		if m, ok := defined.metric(w); ok {
			if served++; m.correct != 3.7 || m.name != "m" {
				t.Errorf("%+v, want 37 jobs divided by 10", m)
			}
		}
	}
	if served != 1 {
		t.Errorf("%d workloads are served, want the workloads of the definition", served)
	}
}

// A quantity that grows by more than a tenth and by more than its slack is reported. A quantity that only varies is not.
func TestFlatAndGrowingQuantities(t *testing.T) {
	m := measured{}
	for i := range 100 {
		m.add("heap of a", float64(20<<20+(i%7)<<20)) // garbage that is collected
		m.add("goroutines of a", 80)
		m.add("open files of a", float64(20+i/5))
		m.add("objects", float64(400+i%10))
	}
	err := m.flat()
	if err == nil || !strings.Contains(err.Error(), "open files of a grew from 27 to 37") || strings.Count(err.Error(), "grew") != 1 {
		t.Errorf("%v, want only the open files", err)
	}
	m["open files of a"] = []float64{20, 20}
	if err := m.flat(); err == nil || !strings.Contains(err.Error(), "2 samples") {
		t.Errorf("%v, want that the process did not run all the time", err)
	}
	if (measured{}).flat() == nil {
		t.Error("a soak without samples is flat")
	}
}
