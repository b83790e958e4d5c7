package fields_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/gpuscaler/gpuscaler/pkg/cluster"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/policystatus"
	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/policy/store"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

const oneDeployment = `{"kind":"DeploymentList","apiVersion":"apps/v1","metadata":{"resourceVersion":"1"},` +
	`"items":[{"metadata":{"name":"llama","namespace":"team-chat",
"uid":"u","resourceVersion":"1"},"spec":{"replicas":0,"selector":{"matchLabels":{"app":"llama"}},` +
	`"template":{"spec":{"containers":[{"name":"c"}]}}}}]}`

// emptyLists contains the kinds for which stubAPI returns an empty list, by the path of the request.
var emptyLists = map[string]string{
	"/apis/apps/v1/statefulsets":                    `"StatefulSetList","apiVersion":"apps/v1"`,
	"/api/v1/pods":                                  `"PodList","apiVersion":"v1"`,
	"/apis/autoscaling/v2/horizontalpodautoscalers": `"HorizontalPodAutoscalerList","apiVersion":"autoscaling/v2"`,
}

// stubAPI is a minimal API server with one Deployment at zero replicas. It records writes.
func stubAPI(t *testing.T, j *journal) *rest.Config {
	const scale = "/apis/apps/v1/namespaces/team-chat/deployments/llama/scale"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.URL.Query().Get("sendInitialEvents") != "":
			w.WriteHeader(http.StatusUnprocessableEntity) // makes the client list the objects instead of streaming them
			fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422}`)
		case r.URL.Query().Get("watch") != "":
			<-r.Context().Done()
		case r.URL.Path == "/version":
			fmt.Fprint(w, `{"major":"1","minor":"36"}`)
		case r.URL.Path == "/apis/apps/v1/deployments":
			fmt.Fprint(w, oneDeployment)
		case emptyLists[r.URL.Path] != "":
			fmt.Fprintf(w, `{"kind":%s,"metadata":{"resourceVersion":"1"},"items":[]}`, emptyLists[r.URL.Path])
		case r.URL.Path == scale && r.Method == http.MethodGet:
			fmt.Fprint(w, `{"kind":"Scale","apiVersion":"autoscaling/v1","metadata":{"name":"llama","namespace":"team-chat",`+
				`"resourceVersion":"1"},"spec":{"replicas":0}}`)
		case r.Method == http.MethodPut || r.Method == http.MethodPost:
			text, _ := io.ReadAll(r.Body)
			w.Header().Set("Content-Type", r.Header.Get("Content-Type"))
			_, _ = w.Write(text)
			switch o, _, _ := scheme.Codecs.UniversalDeserializer().Decode(text, nil, nil); o := o.(type) {
			case *eventsv1.Event:
				j.write("Event %s, annotations %v", o.Reason, o.Annotations)
			case *autoscalingv1.Scale:
				j.write("scale to %d", o.Spec.Replicas)
			}
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	return &rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
}

// busy returns the value 20 for each signal.
type busy struct{}

func (busy) Read(_ *scaling.Workload, out []scaling.Reading) {
	for i := range out {
		out[i] = scaling.Reading{Value: 20, At: time.Now(), Coverage: 1, Reported: -1, Known: true}
	}
}

// apiWrites runs package cluster with stubAPI, whose Deployment has load and no replicas. It returns the recorded writes.
func apiWrites(t *testing.T, d docSet) []string {
	policies, j := good(t, d), &journal{}
	c, err := cluster.New(stubAPI(t, j), cluster.Options{Policies: policies, ActivateIn: []string{"team-chat"},
		Log:         slog.New(slog.DiscardHandler),
		ClusterName: func() string { return policies.Platform().Cluster }})
	if err != nil {
		t.Fatal(err)
	}
	e := engine.New(policies, busy{}, c, engine.Options{})
	c.Activate(e.Decisions())
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	defer func() { stop(); <-ended }()
	wait := func(what string, until func() bool) {
		for end := time.Now().Add(time.Minute); !until(); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("no %s within a minute; written: %v", what, j.all())
			}
		}
	}
	wait("sync", c.Synced)
	e.Tick(ctx, time.Now())
	wait("Event", func() bool { return j.times("TargetChanged") > 0 })
	time.Sleep(1500 * time.Millisecond) // enough time for the activation from zero and its Event
	return j.all()
}

// statusWrites puts a policy into the annotations of a ScaledObject. It returns the values that gpuscaler writes to the annotation
// gpuscaler.io/policy-status of this ScaledObject.
func statusWrites(t *testing.T, d docSet) []string {
	policies, j := good(t, d), &journal{}
	about := corev1.ObjectReference{Kind: "ScaledObject", Namespace: "team-chat", Name: "embed"}
	w := policystatus.New(policystatus.Options{Namespaces: []string{"team-chat"}, Policies: policies, Leading: func() bool { return true },
		Apply: func(_ context.Context, _ corev1.ObjectReference, text string) error {
			j.write("status %s", text)
			return nil
		}})
	policies.SetObject(store.Object{Kind: about.Kind, Namespace: about.Namespace, Name: about.Name, MaxReplicas: 3,
		Target:      scaling.Target{APIVersion: "apps/v1", Kind: "Deployment", Name: about.Name},
		Annotations: map[string]string{"gpuscaler.io/spec": "signals: none"}})
	policies.Publish()
	w.Put(about, policystatus.Written{})
	w.Round(t.Context(), time.Now())
	return j.all()
}

// writeProbes returns a probe for each field that changes the writes to the API server (see fieldProbe).
func writeProbes() []fieldProbe {
	return []fieldProbe{
		{field: "platform spec.teams[0].policyStatus", was: false, is: true, with: oneTeam(), see: statusWrites},
		{field: "policy spec.activate", is: true, with: idle, see: apiWrites},
		{field: "platform spec.cluster", was: "prod-use1", is: "prod-euw1", with: idle, see: apiWrites},
		{field: "platform metadata.name", was: "prod-use1", is: "prod-euw1", with: idle, see: apiWrites},
	}
}
