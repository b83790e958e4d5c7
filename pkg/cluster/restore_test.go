package cluster

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
)

// withoutKarpenter is an API server that serves no NodePools, and one pod that carries a mark of ours.
func withoutKarpenter(t *testing.T) *rest.Config {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/openapi/v3":
			fmt.Fprint(w, `{"paths":{}}`)
		case "/api/v1/pods":
			fmt.Fprint(w, `{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[{"metadata":{"namespace":"team","name":"marked","uid":"u1","managedFields":[{"manager":"gpuscaler-cost","operation":"Apply"}]}}]}`)
		default:
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","reason":"NotFound","code":404}`)
		}
	}))
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL}
}

// Who uninstalls Karpenter first must still be able to uninstall gpuscaler.
func TestWithoutKarpenterRestoreStillClearsPods(t *testing.T) {
	done, err := Restore(t.Context(), withoutKarpenter(t), RestoreOptions{DryRun: true, Log: slog.New(slog.DiscardHandler)})
	if err != nil || len(done) != 1 || done[0].Object != "Pod team/marked" || !strings.Contains(strings.Join(done[0].Changes, " "), "pod-deletion-cost: (absent)") {
		t.Errorf("%+v, %v", done, err)
	}
}
