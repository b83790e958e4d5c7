package restore_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/restore"
)

// With DryRun, Run returns what it would restore and writes nothing. In this cluster Karpenter is not installed, and one pod has an
// annotation of gpuscaler.
func ExampleRun() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/openapi/v3":
			fmt.Fprint(w, `{"paths":{}}`)
		case "/api/v1/pods":
			fmt.Fprint(w, `{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[{"metadata":{"namespace":"team-chat","name":"llama-0",
				"uid":"u1","managedFields":[{"manager":"gpuscaler-cost","operation":"Apply"}]}}]}`)
		default:
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","reason":"NotFound","code":404}`)
		}
	}))
	defer server.Close()
	config := &rest.Config{Host: server.URL}
	results, err := restore.Run(context.Background(), kubernetes.NewForConfigOrDie(config), dynamic.NewForConfigOrDie(config),
		restore.Options{DryRun: true, Log: slog.New(slog.DiscardHandler)})
	for _, r := range results {
		fmt.Println(r.Object)
	}
	fmt.Println(err)
	// Output:
	// Pod team-chat/llama-0
	// <nil>
}
