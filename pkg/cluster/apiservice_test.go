package cluster

import (
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	apiregistration "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

func registration(namespace, service string, ca string) *apiregistration.APIService {
	return &apiregistration.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: ExternalMetricsAPIService},
		Spec: apiregistration.APIServiceSpec{
			Service: &apiregistration.ServiceReference{Namespace: namespace, Name: service}, CABundle: []byte(ca),
		},
	}
}

func guard(mode APIServiceMode) *APIService {
	scheme := runtime.NewScheme()
	utilruntime.Must(apiregistration.AddToScheme(scheme))
	return newAPIService(fake.NewClientset(), dynamicfake.NewSimpleDynamicClient(scheme), APIServiceOptions{
		Mode: mode, Service: types.NamespacedName{Namespace: "gpuscaler-system", Name: "gpuscaler"},
		CABundle: func() []byte { return []byte("our CA") }, Log: slog.New(slog.DiscardHandler),
	})
}

func TestARegistrationIsWrittenOnlyWhereItIsNobodysOrOurs(t *testing.T) {
	keda := registration("keda", "keda-metrics-apiserver", "KEDA's CA")
	local := registration("", "", "")
	local.Spec.Service = nil
	otherPort := registration("gpuscaler-system", "gpuscaler", "our CA")
	otherPort.Spec.Service.Port = new(int32)
	for name, c := range map[string]struct {
		mode                APIServiceMode
		found               *apiregistration.APIService
		write, ours, stolen bool
		owner               string
	}{
		"nobody's":                  {APIServiceAuto, nil, true, false, false, "nobody"},
		"ours":                      {APIServiceAuto, registration("gpuscaler-system", "gpuscaler", "our CA"), false, true, false, "gpuscaler-system/gpuscaler"},
		"ours, with yesterday's CA": {APIServiceAuto, registration("gpuscaler-system", "gpuscaler", "old"), true, true, false, "gpuscaler-system/gpuscaler"},
		"ours, on another port":     {APIServiceAuto, otherPort, true, true, false, "gpuscaler-system/gpuscaler"},
		"KEDA's, auto":              {APIServiceAuto, keda, false, false, false, "keda/keda-metrics-apiserver"},
		"KEDA's, owner":             {APIServiceOwner, keda, false, false, true, "keda/keda-metrics-apiserver"},
		"of our name elsewhere":     {APIServiceAuto, registration("other", "gpuscaler", ""), false, false, false, "other/gpuscaler"},
		"served by the API server":  {APIServiceOwner, local, false, false, true, "the API server itself"},
	} {
		got := guard(c.mode).judge(c.found)
		if got.write != c.write || got.ours != c.ours || got.stolen != c.stolen || got.owner != c.owner {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestARegistrationThatIsStolenRaisesAnAlarmOnceAndIsNotTakenBack(t *testing.T) {
	g := guard(APIServiceAuto)
	ours := registration("gpuscaler-system", "gpuscaler", "our CA")
	keda := registration("keda", "keda-metrics-apiserver", "")
	g.tell(g.judge(keda))
	g.tell(g.judge(ours))
	for range 3 {
		now := g.judge(keda)
		if now.write {
			t.Error("it would be taken back")
		}
		g.tell(now)
	}
	var reasons []string
	for len(g.events.queue) > 0 {
		reasons = append(reasons, (<-g.events.queue).Reason)
	}
	if len(reasons) != 2 || reasons[0] != ReasonAPIServiceTaken || reasons[1] != ReasonAPIServiceConflict {
		t.Errorf("told %v", reasons)
	}
}

func TestAStandbyRegistersNothingAndTheLeaderDoes(t *testing.T) {
	g := guard(APIServiceAuto)
	leading := false
	g.options.Leading = func() bool { return leading }
	nobody := cache.NewStore(cache.MetaNamespaceKeyFunc)
	writes := func() (n int) {
		for _, a := range g.watch.(*dynamicfake.FakeDynamicClient).Actions() {
			if a.GetVerb() == "patch" {
				n++
			}
		}
		return n
	}
	g.look(t.Context(), nobody)
	if writes() != 0 {
		t.Error("a standby wrote")
	}
	leading = true
	g.look(t.Context(), nobody)
	if writes() != 1 {
		t.Error("the leader did not register")
	}
}

// A renewed certificate is served once the API server has its CA: what it has is told, and nothing of what others registered.
func TestWhatTheAPIServerTrustsUsByIsToldAtEachLook(t *testing.T) {
	g := guard(APIServiceAuto)
	var told []string
	g.options.Registered = func(bundle []byte) { told = append(told, string(bundle)) }
	for _, r := range []*apiregistration.APIService{registration("gpuscaler-system", "gpuscaler", "old CA"), registration("keda", "keda-metrics-apiserver", "KEDA's CA")} {
		u, err := runtime.DefaultUnstructuredConverter.ToUnstructured(r)
		if err != nil {
			t.Fatal(err)
		}
		store := cache.NewStore(cache.MetaNamespaceKeyFunc)
		_ = store.Add(&unstructured.Unstructured{Object: u})
		g.look(t.Context(), store)
	}
	if !slices.Equal(told, []string{"old CA"}) {
		t.Errorf("told %q", told)
	}
}

// Each replica may have signed its own certificate: until the new leader's is in the registration, every HPA holds.
func TestANewLeaderDoesNotWaitForTheNextRoundToLook(t *testing.T) {
	g := guard(APIServiceAuto)
	var leads atomic.Bool
	g.options.Leading = leads.Load
	looks := make(chan struct{})
	go func() {
		g.wait(t.Context(), nil, false)
		close(looks)
	}()
	leads.Store(true)
	select {
	case <-looks:
	case <-time.After(apiServiceEvery / 2):
		t.Error("it waits for the next round")
	}
}

func TestAModeThatDoesNotExistIsRefused(t *testing.T) {
	if _, err := NewAPIService(nil, APIServiceOptions{Mode: "force"}); err == nil {
		t.Error("taken")
	}
}
