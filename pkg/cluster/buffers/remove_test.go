package buffers

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/fixture"
)

// apiServer starts a fake API server with two buffers, one of which gpuscaler wrote. It records the paths of deleted objects. lists and
// removes set whether the account may list and delete buffers.
func apiServer(t *testing.T, lists, removes bool) (cfg *rest.Config, deleted *[]string) {
	deleted = &[]string{}
	items := strings.ReplaceAll(fixture.ChatBuffer, "\n", "\n  ")
	other := strings.NewReplacer("gpuscaler-chat", "own", "manager: gpuscaler", "manager: kubectl").Replace(items)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		answer := func(text string) {
			out, err := sigsyaml.YAMLToJSON([]byte(text))
			if err != nil {
				t.Error(err)
			}
			_, _ = w.Write(out)
		}
		switch {
		case r.Method == http.MethodDelete:
			*deleted = append(*deleted, r.URL.Path)
			answer("{kind: Status, apiVersion: v1, status: Success}")
		case r.URL.Path == "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews":
			answer(fmt.Sprintf("{kind: SelfSubjectAccessReview, apiVersion: authorization.k8s.io/v1, spec: {}, status: {allowed: %t}}", removes))
		case r.URL.Path == "/apis/autoscaling.x-k8s.io/v1beta1":
			answer("{kind: APIResourceList, apiVersion: v1, groupVersion: autoscaling.x-k8s.io/v1beta1, " +
				"resources: [{name: capacitybuffers, kind: CapacityBuffer, namespaced: true, verbs: [list]}]}")
		case r.URL.Path == "/apis/autoscaling.x-k8s.io/v1beta1/capacitybuffers" && !lists:
			w.WriteHeader(http.StatusForbidden)
			answer("{kind: Status, apiVersion: v1, metadata: {}, status: Failure, reason: Forbidden, code: 403}")
		case r.URL.Path == "/apis/autoscaling.x-k8s.io/v1beta1/capacitybuffers":
			answer("kind: CapacityBufferList\napiVersion: autoscaling.x-k8s.io/v1beta1\nmetadata: {}\nitems:\n-" + items[2:] + "\n-" + other[2:])
		default:
			w.WriteHeader(http.StatusNotFound)
			answer("{kind: Status, apiVersion: v1, metadata: {}, status: Failure, reason: NotFound, code: 404}")
		}
	}))
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL}, deleted
}

func TestRemoveAllDeletesOnlyOwnBuffers(t *testing.T) {
	for name, c := range map[string]struct {
		lists, deletes, dryRun bool
		object                 string
		fix                    bool // the error must contain the next step
		deleted                int
	}{
		"allowed":                       {true, true, false, "CapacityBuffer team/gpuscaler-chat", false, 1},
		"dry run":                       {true, true, true, "CapacityBuffer team/gpuscaler-chat", false, 0},
		"deletion not allowed":          {true, false, false, "CapacityBuffer team/gpuscaler-chat", true, 0},
		"dry run, deletion not allowed": {true, false, true, "CapacityBuffer team/gpuscaler-chat", true, 0},
		"list not allowed":              {false, false, false, "CapacityBuffers", true, 0},
	} {
		cfg, deleted := apiServer(t, c.lists, c.deletes)
		client, err := kubernetes.NewForConfig(cfg)
		if err != nil {
			t.Fatal(err)
		}
		objects, err := dynamic.NewForConfig(cfg)
		if err != nil {
			t.Fatal(err)
		}
		r := Remover{Discovery: client.Discovery(), Client: objects, DryRun: c.dryRun,
			Allowed: func(ctx context.Context, verb string) (bool, error) { return AskAllowed(ctx, client, verb) }}
		done, err := r.RemoveAll(t.Context())
		if err != nil || len(done) != 1 || done[0].Object != c.object || len(*deleted) != c.deleted {
			t.Errorf("%s: %+v, %v, deleted %v", name, done, err, *deleted)
			continue
		}
		failed := done[0].Err != nil
		if failed != c.fix || failed && !strings.Contains(done[0].Err.Error(), "kubectl delete capacitybuffers") {
			t.Errorf("%s: %v", name, done[0].Err)
		}
	}
}
