package apiservice

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	apiregistration "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/events"
)

func apiService(namespace, service string, ca string) *apiregistration.APIService {
	return &apiregistration.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: Name},
		Spec: apiregistration.APIServiceSpec{
			Service: &apiregistration.ServiceReference{Namespace: namespace, Name: service}, CABundle: []byte(ca),
		},
	}
}

// sentReasons records the reasons of the Events that are sent.
type sentReasons []string

func (s *sentReasons) Send(_ corev1.ObjectReference, _, reason, _ string) { *s = append(*s, reason) }

func testGuard(mode Mode) *Guard {
	scheme := runtime.NewScheme()
	utilruntime.Must(apiregistration.AddToScheme(scheme))
	return newGuard(fake.NewClientset(), dynamicfake.NewSimpleDynamicClient(scheme), Options{
		Mode: mode, Service: types.NamespacedName{Namespace: "gpuscaler-system", Name: "gpuscaler"},
		CABundle: func() []byte { return []byte("our CA") }, Log: slog.New(slog.DiscardHandler),
	})
}

func TestAPIServiceIsWrittenOnlyIfItIsAbsentOrOurs(t *testing.T) {
	keda := apiService("keda", "keda-metrics-apiserver", "KEDA's CA")
	local := apiService("", "", "")
	local.Spec.Service = nil
	otherPort := apiService("gpuscaler-system", "gpuscaler", "our CA")
	otherPort.Spec.Service.Port = new(int32)
	for name, c := range map[string]struct {
		mode                  Mode
		found                 *apiregistration.APIService
		write, ours, conflict bool
		owner                 string
	}{
		"absent": {Auto, nil, true, false, false, NoOwner},
		"ours": {
			Auto, apiService("gpuscaler-system", "gpuscaler", "our CA"), false, true, false, "gpuscaler-system/gpuscaler",
		},
		"ours, with a previous CA": {
			Auto, apiService("gpuscaler-system", "gpuscaler", "old"), true, true, false, "gpuscaler-system/gpuscaler",
		},
		"ours, on another port":       {Auto, otherPort, true, true, false, "gpuscaler-system/gpuscaler"},
		"KEDA's, mode auto":           {Auto, keda, false, false, false, "keda/keda-metrics-apiserver"},
		"KEDA's, mode owner":          {Owner, keda, false, false, true, "keda/keda-metrics-apiserver"},
		"our name, another namespace": {Auto, apiService("other", "gpuscaler", ""), false, false, false, "other/gpuscaler"},
		"served by the API server":    {Owner, local, false, false, true, LocalOwner},
	} {
		got := testGuard(c.mode).compare(c.found)
		if got.write != c.write || got.ours != c.ours || got.conflict != c.conflict || got.owner != c.owner {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestReplacedAPIServiceIsReportedOnceAndNotTakenBack(t *testing.T) {
	g, sent := testGuard(Auto), sentReasons{}
	g.events = &sent
	ours := apiService("gpuscaler-system", "gpuscaler", "our CA")
	keda := apiService("keda", "keda-metrics-apiserver", "")
	g.report(g.compare(keda))
	g.report(g.compare(ours))
	for range 3 {
		now := g.compare(keda)
		if now.write {
			t.Error("it would be taken back")
		}
		g.report(now)
	}
	if !slices.Equal(sent, []string{events.APIServiceTaken, events.APIServiceConflict}) {
		t.Errorf("Events %v", sent)
	}
}

// The message that another server is registered must contain the next step. It may suggest KEDA only if KEDA is that server. Otherwise
// ScaledObjects would not work either, because their HPAs read the same API.
func TestMessageAboutAnotherServerHasANextStep(t *testing.T) {
	for owner, want := range map[string]string{
		"keda/keda-metrics-apiserver":               "ScaledObjects with an external-push trigger",
		"datadog/datadog-cluster-agent-metrics-api": "clusterAgent.metricsProvider.registerAPIService=false",
		"monitoring/prometheus-adapter":             "remove the registration of that server",
		LocalOwner:                                  "delete the APIService",
	} {
		log := &strings.Builder{}
		g := testGuard(Owner)
		g.log, g.events = slog.New(slog.NewTextHandler(log, nil)), &sentReasons{}
		g.report(registration{owner: owner, conflict: true})
		if !strings.Contains(log.String(), "Next: ") || !strings.Contains(log.String(), want) {
			t.Errorf("%s: no %q in %s", owner, want, log)
		}
		if !strings.Contains(owner, "keda") && strings.Contains(log.String(), "ScaledObject") {
			t.Errorf("%s: KEDA cannot serve its HPAs here: %s", owner, log)
		}
	}
}

func TestOnlyTheLeaderWritesTheAPIService(t *testing.T) {
	g := testGuard(Auto)
	leading := false
	g.options.Leading = func() bool { return leading }
	empty := cache.NewStore(cache.MetaNamespaceKeyFunc)
	writes := func() (n int) {
		for _, a := range g.watch.(*dynamicfake.FakeDynamicClient).Actions() {
			if a.GetVerb() == "patch" {
				n++
			}
		}
		return n
	}
	g.check(t.Context(), empty)
	if writes() != 0 {
		t.Error("a standby wrote the APIService")
	}
	leading = true
	g.check(t.Context(), empty)
	if writes() != 1 {
		t.Error("the leader did not write the APIService")
	}
}

// A process may use a renewed certificate only after the APIService contains the CA of the certificate. Each check must therefore report
// spec.caBundle of the APIService, unless the APIService refers to another Service.
func TestCABundleOfTheAPIServiceIsReportedAtEachCheck(t *testing.T) {
	g := testGuard(Auto)
	var reported []string
	g.options.Registered = func(bundle []byte) { reported = append(reported, string(bundle)) }
	for _, r := range []*apiregistration.APIService{
		apiService("gpuscaler-system", "gpuscaler", "old CA"), apiService("keda", "keda-metrics-apiserver", "KEDA's CA"),
	} {
		u, err := runtime.DefaultUnstructuredConverter.ToUnstructured(r)
		if err != nil {
			t.Fatal(err)
		}
		store := cache.NewStore(cache.MetaNamespaceKeyFunc)
		_ = store.Add(&unstructured.Unstructured{Object: u})
		g.check(t.Context(), store)
	}
	if !slices.Equal(reported, []string{"old CA"}) {
		t.Errorf("reported %q", reported)
	}
}

// Each pod of gpuscaler may sign its own certificate. HPAs cannot read metrics from a new leader until the APIService contains the new
// leader's CA.
func TestNewLeaderChecksWithoutWaitingForTheInterval(t *testing.T) {
	g := testGuard(Auto)
	var leads atomic.Bool
	g.options.Leading = leads.Load
	returned := make(chan struct{})
	go func() {
		g.wait(t.Context(), nil, false)
		close(returned)
	}()
	leads.Store(true)
	select {
	case <-returned:
	case <-time.After(checkInterval / 2):
		t.Error("the new leader waits for the interval")
	}
}

func TestUnknownModeIsRejected(t *testing.T) {
	if _, err := New(nil, Options{Mode: "force"}); err == nil {
		t.Error("mode force was accepted")
	}
}

// The API server refuses an Event of the Guard. The metric of lost Events must count it together with the lost Events of other parts of the
// process that use the same metrics registry.
func TestLostEventsOfTheGuardAreCounted(t *testing.T) {
	registry := prometheus.NewRegistry()
	log := slog.New(slog.DiscardHandler)
	events.NewRecorder(fake.NewClientset().EventsV1(), events.Options{Log: log, Metrics: registry})
	client := fake.NewClientset()
	client.PrependReactor("create", "events", func(k8stesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(eventsv1.Resource("events"), "x", nil)
	})
	scheme := runtime.NewScheme()
	utilruntime.Must(apiregistration.AddToScheme(scheme))
	g := newGuard(client, dynamicfake.NewSimpleDynamicClient(scheme), Options{Mode: Auto, Log: log, Metrics: registry})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { g.recorder.Run(ctx); close(ended) }()
	defer func() { cancel(); <-ended }()
	g.events.Send(corev1.ObjectReference{Kind: "APIService", Name: Name}, corev1.EventTypeWarning, events.APIServiceConflict, "taken")
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if f.GetName() == "gpuscaler_events_lost_total" && f.GetMetric()[0].GetCounter().GetValue() == 1 {
				return
			}
		}
		if time.Now().After(deadline) {
			t.Fatal("the lost Event is not counted")
		}
	}
}
