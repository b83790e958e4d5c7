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

	"github.com/gpuscaler/gpuscaler/e2e/conformance/adapters"
	"github.com/gpuscaler/gpuscaler/e2e/conformance/lab"
	"github.com/gpuscaler/gpuscaler/e2e/conformance/record"
)

// naive is an external metrics adapter with a defect: it serves 0 if Prometheus does not return a value. It runs in the process of the
// test.
type naive struct{ lab *lab.Lab }

func (n *naive) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	const root = "/apis/external.metrics.k8s.io/v1beta1"
	rest, ok := strings.CutPrefix(r.URL.Path, root)
	var answer any
	switch {
	case ok && rest == "":
		answer = metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"},
			GroupVersion: "external.metrics.k8s.io/v1beta1", APIResources: []metav1.APIResource{
				{Name: lab.Series, Namespaced: true, Kind: "ExternalMetricValueList", Verbs: metav1.Verbs{"get"}}}}
	case ok:
		_, app, _ := strings.Cut(r.URL.Query().Get("labelSelector"), "app=")
		answer = external.ExternalMetricValueList{
			TypeMeta: metav1.TypeMeta{Kind: "ExternalMetricValueList", APIVersion: "external.metrics.k8s.io/v1beta1"},
			Items: []external.ExternalMetricValue{{MetricName: lab.Series, Timestamp: metav1.Now(),
				Value: *resource.NewQuantity(n.value(r.Context(), app), resource.DecimalSI)}}}
	default:
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer) // writing fails if the API server has disconnected
}

func (n *naive) value(ctx context.Context, app string) int64 {
	query := lab.Workload{Name: app, Origin: lab.Gateway}.Query()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, n.lab.SourceURL()+"/api/v1/query", nil)
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
		// after an error, the value stays 0, which is the defect of this adapter
		_, _ = fmt.Sscan(fmt.Sprint(answer.Data.Result[0].Value[1]), &value)
	}
	return int64(value)
}

// short contains the durations of a run in this test. They are shorter than in `make conformance`.
var short = timing{steady: time.Second, hold: 4 * time.Second, settle: 2 * time.Second, recover: time.Minute}

// The test injects faults for two adapters in one cluster. The first adapter serves 0 if it has no data: package judge must find its wrong
// decreases. The second adapter is gpuscaler, which must pass.
func TestJudgeFindsTheWrongDecreasesOfANaiveAdapter(t *testing.T) {
	l, err := lab.New(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Stack.Stop()
	m := newTestMatrix(t, l)
	adapter := httptest.NewTLSServer(&naive{lab: l})
	defer adapter.Close()
	m.target, err = adapters.Parse(adapter.URL)
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
	if r = m.result(t, "path-refused"); r.Refused == 0 || r.Outcome != record.Recovered || r.Served > 0 {
		t.Errorf("%v without a connection to the adapter: want refused reads only", r)
	}
	if r = m.result(t, "leader-killed"); r.Outcome != record.Inapplicable {
		t.Errorf("%v: want the reason why a fault cannot apply", r)
	}
	stop()
	uninstall(t, l)

	l.Parts, m.target = lab.Parts{}, &adapters.Gpuscaler{}
	m.timing.hold = 9 * time.Second // longer than the maxAge of 6 s of gpuscaler's signals, so that its last reading becomes stale
	ctx, stop = context.WithCancel(t.Context())
	defer stop()
	if err := m.attach(ctx, l); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"answer-empty", "leader-killed"} {
		if r := m.result(t, name); r.Failure() != "" || r.Reads == 0 {
			t.Errorf("gpuscaler, %s: %v", name, r)
		}
	}
}

type testMatrix struct{ *matrix }

func newTestMatrix(t *testing.T, l *lab.Lab) testMatrix {
	dir := t.TempDir()
	t.Cleanup(func() {
		if t.Failed() {
			l.Stack.Keep()
			t.Logf("failures: %s", dir)
		}
	})
	return testMatrix{&matrix{dir: dir, timing: short, lab: l, say: t.Logf}}
}

// result runs the fault with the given name once and returns the result.
func (m testMatrix) result(t *testing.T, name string) record.Result {
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
	return record.Result{}
}

// uninstall deletes all HPAs of the workloads and the adapter's APIService.
func uninstall(t *testing.T, l *lab.Lab) {
	t.Helper()
	all := client.InNamespace(lab.Namespace)
	if err := l.Stack.Client.DeleteAllOf(t.Context(), &autoscalingv2.HorizontalPodAutoscaler{}, all); err != nil {
		t.Fatal(err)
	}
	if err := l.Stack.Client.Delete(t.Context(), lab.Registration()); err != nil {
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

// In a soak, a quantity that grows by more than a tenth and by more than its slack is reported. A quantity that only varies is not
// reported.
func TestFlatAndGrowingQuantities(t *testing.T) {
	m := measured{}
	for i := range 100 {
		m.add("heap of a", float64(20<<20+(i%7)<<20)) // increases by 6 MiB and decreases again, as between garbage collections
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
