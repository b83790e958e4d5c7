package restore

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/karpenter"
)

// withoutKarpenter returns the client configuration of an API server that does not serve NodePools and has one pod with an annotation of
// gpuscaler.
func withoutKarpenter(t *testing.T) *rest.Config {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/openapi/v3":
			fmt.Fprint(w, `{"paths":{}}`)
		case "/api/v1/pods":
			fmt.Fprint(w, `{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[{"metadata":{"namespace":"team","name":"marked","uid":"u1",
				"managedFields":[{"manager":"gpuscaler-cost","operation":"Apply"}]}}]}`)
		default:
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","reason":"NotFound","code":404}`)
		}
	}))
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL}
}

// A user who uninstalls Karpenter first must still be able to uninstall gpuscaler.
func TestRestoreWithoutKarpenterRemovesPodAnnotations(t *testing.T) {
	cfg := withoutKarpenter(t)
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	objects, err := dynamic.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	done, err := Run(t.Context(), client, objects, Options{DryRun: true, Log: slog.New(slog.DiscardHandler)})
	if err != nil || len(done) != 1 || done[0].Object != "Pod team/marked" ||
		!strings.Contains(strings.Join(done[0].Changes, " "), "pod-deletion-cost removed") {
		t.Errorf("%+v, %v", done, err)
	}
}

// The API server rejects requests for NodePools if the user has no permission on NodePools, even if it does not serve NodePools. A restore
// must still work with SkipNodePools, and otherwise return the error.
func TestRestoreWithoutPermissionOnNodePools(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/api/v1/pods" {
			fmt.Fprint(w, `{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[]}`)
			return
		}
		code, reason := http.StatusNotFound, "NotFound"
		if strings.HasPrefix(r.URL.Path, "/apis/karpenter.sh/") {
			code, reason = http.StatusForbidden, "Forbidden"
		}
		w.WriteHeader(code)
		fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","reason":%q,"code":%d}`, reason, code)
	}))
	t.Cleanup(server.Close)
	cfg := &rest.Config{Host: server.URL}
	for skip, works := range map[bool]bool{true: true, false: false} {
		_, err := Run(t.Context(), kubernetes.NewForConfigOrDie(cfg), dynamic.NewForConfigOrDie(cfg),
			Options{DryRun: true, SkipNodePools: skip, Log: slog.New(slog.DiscardHandler)})
		if (err == nil) != works {
			t.Errorf("without NodePools %t: %v", skip, err)
		}
	}
}

const (
	ours   = "gpuscaler-system/gpuscaler"
	theirs = "gpu-platform/gpuscaler"
)

func TestNodePoolsOfAnotherLeadingReleaseAreRestoredOnlyByName(t *testing.T) {
	identity, renewed, seconds := "theirs-0", metav1.NewMicroTime(time.Now()), int32(15)
	other := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "gpu-platform", Name: "gpuscaler"},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &identity, RenewTime: &renewed, LeaseDurationSeconds: &seconds}}
	for name, w := range map[string]struct {
		holder string
		names  []string
		want   bool
	}{
		"of this release":                       {ours, nil, true},
		"of another release":                    {theirs, nil, false},
		"of another release, by name":           {theirs, []string{"spot"}, true},
		"of an uninstalled release":             {"gone/gpuscaler", nil, true},
		"of this release, another one is named": {ours, []string{"other"}, false},
	} {
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "karpenter.sh/v1", "kind": "NodePool"}}
		u.SetName("spot")
		u.SetAnnotations(map[string]string{karpenter.RecordAnnotation: `{"v":1}`, karpenter.HolderAnnotation: w.holder})
		lease := types.NamespacedName{Namespace: "gpuscaler-system", Name: "gpuscaler"}
		o := Options{Names: w.names, Lease: lease, Log: slog.New(slog.DiscardHandler)}
		r := newRestorer(fake.NewClientset(other), nil, o)
		if got := r.selected(t.Context(), karpenter.DecodeNodePool(u)); got != w.want {
			t.Errorf("%s: restored %t", name, got)
		}
	}
}
