package policystatus

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// withStatuses returns a Remover for a fake API server without KEDA. One of two HPAs and the last of two ConfigMaps have gpuscaler's
// annotation. allowed computes the result of the user's SelfSubjectAccessReviews. If allowed is nil, the API server returns an error for
// them.
func withStatuses(t *testing.T, requests *[]string, allowed func(review string) bool) Remover {
	t.Helper()
	const ours = `"managedFields":[{"manager":"gpuscaler-policy-status","operation":"Apply","time":"2026-11-23T09:00:00Z"}]`
	status := func(w http.ResponseWriter, code int, reason string) {
		w.WriteHeader(code)
		fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"code":%d}`, reason, code)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		body, _ := io.ReadAll(r.Body)
		if r.Method == http.MethodPatch {
			*requests = append(*requests, r.URL.Path+" "+r.URL.Query().Get("fieldManager")+" "+strings.TrimSpace(string(body)))
		}
		switch {
		case strings.HasSuffix(r.URL.Path, "/selfsubjectaccessreviews") && allowed != nil:
			fmt.Fprintf(w, `{"kind":"SelfSubjectAccessReview","apiVersion":"authorization.k8s.io/v1","status":{"allowed":%t}}`,
				allowed(string(body)))
		case r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, "/gone"):
			status(w, http.StatusConflict, "Conflict")
		case r.Method == http.MethodPatch:
			fmt.Fprint(w, string(body))
		case strings.HasSuffix(r.URL.Path, "/horizontalpodautoscalers"):
			fmt.Fprint(w, `{"kind":"HorizontalPodAutoscalerList","apiVersion":"autoscaling/v2","metadata":{},"items":[{"metadata":{`+
				`"namespace":"team","name":"chat","uid":"u1",`+ours+`}},{"metadata":{"namespace":"team","name":"other","uid":"u2"}}]}`)
		case r.URL.Path == "/api/v1/namespaces/closed/configmaps", r.URL.Path == "/api/v1/configmaps" && allowed != nil:
			status(w, http.StatusForbidden, "Forbidden")
		case strings.HasSuffix(r.URL.Path, "/configmaps") && r.URL.Query().Get("continue") == "":
			fmt.Fprint(w, `{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"continue":"next"},"items":[{"metadata":{"namespace":"team",`+
				`"name":"first","uid":"u3"}}]}`)
		case strings.HasSuffix(r.URL.Path, "/configmaps"):
			fmt.Fprint(w, `{"kind":"ConfigMapList","apiVersion":"v1","metadata":{},"items":[{"metadata":{"namespace":"team","name":"gone",`+
				`"uid":"u4",`+ours+`}}]}`)
		default:
			status(w, http.StatusNotFound, "NotFound")
		}
	}))
	t.Cleanup(server.Close)
	cfg := &rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	objects, err := dynamic.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return Remover{Client: client, Objects: objects}
}

func TestRemoverRemovesTheAnnotationFromAllObjects(t *testing.T) {
	var requests []string
	r := withStatuses(t, &requests, nil)
	r.DryRun = true
	done, err := r.RemoveAll(t.Context())
	names := func() (all []string) {
		for _, d := range done {
			all = append(all, strings.TrimSuffix(fmt.Sprint(d.Object, " ", d.Err), " <nil>"))
		}
		return all
	}
	both := []string{"HorizontalPodAutoscaler team/chat", "ConfigMap team/gone"}
	if err != nil || len(requests) != 0 || !slices.Equal(names(), both) {
		t.Errorf("dry run: %q, requests %q, %v; want %q and no request", names(), requests, err, both)
	}

	r.DryRun = false
	done, err = r.RemoveAll(t.Context())
	want := []string{
		`/apis/autoscaling/v2/namespaces/team/horizontalpodautoscalers/chat gpuscaler-policy-status {"apiVersion":"autoscaling/v2",` +
			`"kind":"HorizontalPodAutoscaler","metadata":{"name":"chat","namespace":"team","uid":"u1"}}`,
		`/api/v1/namespaces/team/configmaps/gone gpuscaler-policy-status {"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"gone",` +
			`"namespace":"team","uid":"u4"}}`,
	}
	if err != nil || !slices.Equal(names(), both) || !slices.Equal(requests, want) {
		t.Errorf("%q, %v, requests\n%s\nwant\n%s", names(), err, strings.Join(requests, "\n"), strings.Join(want, "\n"))
	}

	r.Namespaces, r.ConfigMapsIn = []string{"team"}, nil
	if done, err = r.RemoveAll(t.Context()); err != nil || !slices.Equal(names(), both[:1]) {
		t.Errorf("ConfigMaps of no namespace: %q, %v", names(), err)
	}
	r.ConfigMapsIn = []string{"closed"}
	if done, err = r.RemoveAll(t.Context()); !apierrors.IsForbidden(err) || !slices.Equal(names(), both[:1]) {
		t.Errorf("a namespace that may not be read: %q, %v; want an error and the other results", names(), err)
	}
}

// The service account of gpuscaler may list HPAs in all namespaces, but not ConfigMaps. If no namespaces are given, restore must report
// that it did not search ConfigMaps, must send no request that the API server rejects, and must remove the annotation from the HPA.
func TestRemoverSkipsKindsThatTheUserMayNotList(t *testing.T) {
	var requests []string
	r := withStatuses(t, &requests, func(review string) bool { return !strings.Contains(review, `"resource":"configmaps"`) })
	done, err := r.RemoveAll(t.Context())
	if err != nil || len(done) != 2 || len(requests) != 1 || done[0] != (Removed{Object: "HorizontalPodAutoscaler team/chat"}) {
		t.Fatalf("%+v, requests %q, %v; want the annotation of the HPA removed", done, requests, err)
	}
	if done[1].Object != "ConfigMap" || !strings.Contains(done[1].Skipped, "--configmap-namespaces") {
		t.Errorf("%+v, want ConfigMaps skipped with the flag that names namespaces", done[1])
	}
}
