package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

const chatBuffer = `
apiVersion: autoscaling.x-k8s.io/v1beta1
kind: CapacityBuffer
metadata:
  namespace: team
  name: gpuscaler-chat
  uid: u7
  creationTimestamp: "2026-11-21T08:00:00Z"
  labels: {app.kubernetes.io/managed-by: gpuscaler}
  managedFields: [{manager: gpuscaler, operation: Apply}]
spec: {scalableRef: {apiGroup: apps, kind: Deployment, name: chat}, replicas: 3}`

func seenBuffer(t *testing.T, n *nodes, text string) *bufferFacts {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatal(err)
	}
	f := bufferOf(u)
	n.buffers[f.key()] = f
	return f
}

func chatWorkload() *scaling.Workload {
	return &scaling.Workload{Key: scaling.Key{Namespace: "team", Name: "chat"}, Target: scaling.Target{Name: "chat"}, Group: "chat"}
}

func TestABufferCountsWhereItIsOursAndStandsForTheSameTarget(t *testing.T) {
	for name, c := range map[string]struct {
		from, to string
		want     int32
	}{
		"ours":                   {"", "", 3},
		"somebody else's":        {"managed-by: gpuscaler", "managed-by: Helm", 0},
		"one that was relabeled": {"manager: gpuscaler", "manager: kubectl", 0},
		"of another target":      {"name: chat}", "name: chat-v1}", -1},
		"of another policy":      {"name: gpuscaler-chat", "name: gpuscaler-code", 0},
		"absurd":                 {"replicas: 3", "replicas: -3", 0},
	} {
		n := grounds(t, chatDeployment).nodes
		seenBuffer(t, n, strings.Replace(chatBuffer, c.from, c.to, 1))
		o := capacity.Observation{Workloads: make([]capacity.Workload, 1)}
		n.Observe(spotAndOnDemand(t), []*scaling.Workload{chatWorkload()}, &o)
		if got := o.Workloads[0].Buffer; got != c.want {
			t.Errorf("%s: %d replicas, want %d", name, got, c.want)
		}
		if o.Buffers {
			t.Errorf("%s: buffers where the kind is not served", name)
		}
	}
}

func TestABufferWhosePolicyWentIsAStray(t *testing.T) {
	n := grounds(t).nodes
	seenBuffer(t, n, chatBuffer)
	seenBuffer(t, n, strings.NewReplacer("gpuscaler-chat", "own", "managed-by: gpuscaler", "managed-by: Helm").Replace(chatBuffer))
	groups, of := []*capacity.Group{spotAndOnDemand(t)}, []scaling.Workload{*chatWorkload()}
	if _, strays := n.Orphans(groups, of); len(strays) != 0 {
		t.Errorf("with its policy: %v", strays)
	}
	if _, strays := n.Orphans(groups, nil); fmt.Sprint(strays) != "[{team/chat 0}]" {
		t.Errorf("without its policy: %v", strays)
	}
	if _, strays := n.Orphans(nil, of); len(strays) != 1 {
		t.Errorf("without its group: %v", strays)
	}
}

// Karpenter serves the CRD also where its gate is off: then nobody would ever hold a node.
func TestABufferThatNobodySeesToIsGivenUpForAnHour(t *testing.T) {
	n := grounds(t).nodes
	f := seenBuffer(t, n, chatBuffer)
	n.forget(f.created.Add(59 * time.Second))
	if !n.unheeded.IsZero() {
		t.Error("given up within the minute")
	}
	given := f.created.Add(61 * time.Second)
	n.forget(given)
	if !n.unheeded.Equal(given) {
		t.Error("not given up")
	}
	delete(n.buffers, f.key())
	n.forget(given.Add(59 * time.Minute))
	if n.unheeded.IsZero() {
		t.Error("tried again within the hour")
	}
	n.forget(given.Add(61 * time.Minute))
	if !n.unheeded.IsZero() {
		t.Error("never tried again")
	}
	seenBuffer(t, n, chatBuffer+"\nstatus: {conditions: [{type: ReadyForProvisioning, status: \"False\", reason: ScalableRefNotFound}]}")
	if n.forget(given.Add(2 * time.Hour)); !n.unheeded.IsZero() {
		t.Error("one that an autoscaler has spoken of is given up")
	}
}

// sentBuffers lists the requests about buffers that the hands make.
func sentBuffers(c *Cluster) func() []string {
	var sent []string
	c.dynamic.(*dynamicfake.FakeDynamicClient).PrependReactor("*", "capacitybuffers", func(a clienttesting.Action) (bool, runtime.Object, error) {
		switch a := a.(type) {
		case clienttesting.PatchAction:
			sent = append(sent, string(a.GetPatch()))
			u := &unstructured.Unstructured{}
			return true, u, json.Unmarshal(a.GetPatch(), &u.Object)
		case clienttesting.DeleteActionImpl:
			sent = append(sent, fmt.Sprintf("delete %s/%s %s", a.Namespace, a.Name, *a.DeleteOptions.Preconditions.UID))
		}
		return true, &unstructured.Unstructured{Object: map[string]any{}}, nil
	})
	return func() []string { all := sent; sent = nil; return all }
}

func TestABufferIsWrittenWithItsTargetAsOwnerAndRemovedByUID(t *testing.T) {
	c := still(Options{Groups: noGroups{}})
	sent := sentBuffers(c)
	owner := &metav1.OwnerReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "chat", UID: "d1"}
	task := bufferTask{namespace: "team", policy: "chat", target: refOfWorkload(chatWorkload()), owner: owner, replicas: 3}
	c.nodes.hands.buffer(task)
	want := `{"apiVersion":"autoscaling.x-k8s.io/v1beta1","kind":"CapacityBuffer","metadata":{"labels":{"app.kubernetes.io/managed-by":"gpuscaler"},` +
		`"name":"gpuscaler-chat","namespace":"team","ownerReferences":[{"apiVersion":"apps/v1","kind":"Deployment","name":"chat","uid":"d1"}]},` +
		`"spec":{"replicas":3,"scalableRef":{"apiGroup":"apps","kind":"Deployment","name":"chat"}}}`
	if got := sent(); len(got) != 1 || strings.TrimSpace(got[0]) != want {
		t.Errorf("sent %s\nwant %s", got, want)
	}
	task.seen, task.replicas = seenBuffer(t, c.nodes, chatBuffer), 0
	c.nodes.hands.buffer(task)
	if got := fmt.Sprint(sent()); got != "[delete team/gpuscaler-chat u7]" {
		t.Errorf("sent %s", got)
	}

	for name, change := range map[string]func(b *bufferTask){
		"somebody else's stands there":    func(b *bufferTask) { b.seen.ours = false },
		"somebody else's, to be removed":  func(b *bufferTask) { b.seen.ours, b.replicas = false, 0 },
		"nothing to remove":               func(b *bufferTask) { b.seen, b.replicas = nil, 0 },
		"its GPUs are limits alone":       func(b *bufferTask) { b.limitsOnly = true },
		"a target that nobody has seen":   func(b *bufferTask) { b.owner = nil },
		"we lead no more when it is time": func(*bufferTask) { c.options.Leading = func() bool { return false } },
	} {
		b := bufferTask{namespace: "team", policy: "chat", target: task.target, owner: owner, replicas: 2, seen: seenBuffer(t, c.nodes, chatBuffer)}
		change(&b)
		if c.nodes.hands.buffer(b); len(sent()) != 0 {
			t.Errorf("%s: something was written", name)
		}
		c.options.Leading = nil
	}
}

func TestATemplateThatLimitsItsGPUsAndRequestsNoneIsTold(t *testing.T) {
	for name, c := range map[string]struct {
		resources string
		want      bool
	}{
		"limits":   {"limits: {nvidia.com/gpu: \"1\"}", true},
		"both":     {"limits: {nvidia.com/gpu: \"1\"}, requests: {nvidia.com/gpu: \"1\"}", false},
		"requests": {"requests: {nvidia.com/gpu: \"1\"}", false},
		"cpu":      {"limits: {cpu: \"1\"}", false},
	} {
		c0 := grounds(t, strings.Replace(chatDeployment, "limits: {nvidia.com/gpu: \"1\"}", c.resources, 1))
		task := func() bufferTask {
			g := spotAndOnDemand(t)
			o := capacity.Observation{Workloads: make([]capacity.Workload, 1)}
			c0.nodes.Observe(g, []*scaling.Workload{chatWorkload()}, &o)
			return c0.nodes.bufferTask(g, capacity.Buffer{Workload: "team/chat", Replicas: 2})
		}()
		if task.limitsOnly != c.want || task.owner == nil || task.owner.Name != "chat" || task.replicas != 2 {
			t.Errorf("%s: %+v", name, task)
		}
	}
}

// Rights come and go with an upgrade of the chart, while we run.
func TestABufferIsForWhoMayWriteItAndRemoveIt(t *testing.T) {
	c := still(Options{Groups: oneGroup{buffered(t)}})
	n := c.nodes
	allowed, silent := "", false
	c.typed.(*fake.Clientset).PrependReactor("create", "selfsubjectaccessreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
		review := a.(clienttesting.CreateAction).GetObject().(*authorizationv1.SelfSubjectAccessReview).DeepCopy()
		r := review.Spec.ResourceAttributes
		if r.Group != "autoscaling.x-k8s.io" || r.Resource != "capacitybuffers" || r.Namespace != "" {
			t.Errorf("asked for %+v", r)
		}
		if silent {
			return true, nil, errors.New("nobody answers")
		}
		review.Status.Allowed = strings.Contains(allowed, r.Verb)
		return true, review, nil
	})
	for _, c := range []struct {
		allowed         string
		watches, writes bool
	}{{"", false, false}, {"create", false, false}, {"delete", true, false}, {"create delete", true, true}} {
		allowed = c.allowed
		if got := n.mayBuffer(t.Context()); got != c.watches || n.writes != c.writes || n.refused == c.writes {
			t.Errorf("%q: watches %t, writes %t, told %t", c.allowed, got, n.writes, n.refused)
		}
	}
	n.askToWrite(t.Context()) // the kind is not served: nothing is asked
	n.buffer.running = &lateInformer{synced: func() bool { return true }}
	if !n.holdsBuffers() {
		t.Error("with both rights no buffer is held")
	}
	silent = true
	if n.askToWrite(t.Context()); !n.holdsBuffers() || n.mayBuffer(t.Context()) {
		t.Error("a question without an answer took a right away, or gave one")
	}
	silent, allowed = false, "delete"
	if n.askToWrite(t.Context()); n.holdsBuffers() || !n.refused {
		t.Error("the right to write went, and buffers are held all the same")
	}
	allowed = "create delete"
	if n.askToWrite(t.Context()); !n.holdsBuffers() || n.refused {
		t.Error("the right came back, and no buffer is held")
	}
}

// A quota's refusal is a 403 as well, and that of one namespace: the buffers of the others stay.
func TestABufferThatAQuotaRefusesTakesNoOtherAway(t *testing.T) {
	c := still(Options{Groups: oneGroup{buffered(t)}})
	n := c.nodes
	n.writes, n.buffer.running = true, &lateInformer{synced: func() bool { return true }}
	c.dynamic.(*dynamicfake.FakeDynamicClient).PrependReactor("patch", "capacitybuffers", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(bufferResource.GroupResource(), "gpuscaler-chat", errors.New("exceeded quota: none"))
	})
	owner := &metav1.OwnerReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "chat", UID: "d1"}
	n.hands.buffer(bufferTask{namespace: "team", policy: "chat", target: refOfWorkload(chatWorkload()), owner: owner, replicas: 3})
	if len(n.hands.failed) != 1 || !n.holdsBuffers() || n.refused {
		t.Errorf("after a quota's refusal: failed %v, holds %t, told %t", n.hands.failed, n.holdsBuffers(), n.refused)
	}
}

type oneGroup struct{ group *capacity.Group }

func (g oneGroup) Groups() []*capacity.Group { return []*capacity.Group{g.group} }

func buffered(t *testing.T) *capacity.Group {
	t.Helper()
	g := *spotAndOnDemand(t)
	g.Buffer = true
	return &g
}

// withBuffers is an API server with two buffers, of which one is ours, and
// without Karpenter; it tells what is deleted.
func withBuffers(t *testing.T, lists, removes bool) (cfg *rest.Config, deleted *[]string) {
	deleted = &[]string{}
	items := strings.ReplaceAll(chatBuffer, "\n", "\n  ")
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
		case r.URL.Path == "/openapi/v3":
			answer("{paths: {}}")
		case r.URL.Path == "/api/v1/pods":
			answer("{kind: PodList, apiVersion: v1, metadata: {}, items: []}")
		case r.URL.Path == "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews":
			answer(fmt.Sprintf("{kind: SelfSubjectAccessReview, apiVersion: authorization.k8s.io/v1, metadata: {}, spec: {}, status: {allowed: %t}}", removes))
		case r.URL.Path == "/apis/autoscaling.x-k8s.io/v1beta1":
			answer("{kind: APIResourceList, apiVersion: v1, groupVersion: autoscaling.x-k8s.io/v1beta1, resources: [{name: capacitybuffers, kind: CapacityBuffer, namespaced: true, verbs: [list]}]}")
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

func TestRestoreRemovesOurBuffersAndNobodyElses(t *testing.T) {
	for name, c := range map[string]struct {
		lists, removes, dryRun bool
		about                  string // of what is told
		next                   bool   // with what to do next
		deleted                int
	}{
		"allowed":              {true, true, false, "CapacityBuffer team/gpuscaler-chat", false, 1},
		"a dry run":            {true, true, true, "CapacityBuffer team/gpuscaler-chat", false, 0},
		"may not remove":       {true, false, false, "CapacityBuffer team/gpuscaler-chat", true, 0},
		"a dry run, as little": {true, false, true, "CapacityBuffer team/gpuscaler-chat", true, 0},
		"may not even look":    {false, false, false, "CapacityBuffers", true, 0},
	} {
		cfg, deleted := withBuffers(t, c.lists, c.removes)
		r := restorer{options: RestoreOptions{DryRun: c.dryRun, Log: slog.New(slog.DiscardHandler)}}
		var err error
		if r.cluster, err = New(cfg, Options{Groups: noGroups{}, Log: r.options.Log}); err != nil {
			t.Fatal(err)
		}
		done, err := r.buffers(t.Context())
		if err != nil || len(done) != 1 || done[0].Object != c.about || len(*deleted) != c.deleted {
			t.Errorf("%s: %+v, %v, deleted %v", name, done, err, *deleted)
			continue
		}
		if said := strings.Contains(done[0].Error, "kubectl delete capacitybuffers"); said != c.next || !c.next && done[0].Error != "" {
			t.Errorf("%s: %q", name, done[0].Error)
		}
	}
}
