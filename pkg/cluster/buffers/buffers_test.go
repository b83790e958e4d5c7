package buffers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/fixture"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

func decode(t *testing.T, text string) *Buffer {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatal(err)
	}
	return Decode(u)
}

func chatWorkload() *scaling.Workload {
	return &scaling.Workload{Key: scaling.Key{Namespace: "team", Name: "chat"}, Target: scaling.Target{Name: "chat"}, Group: "chat"}
}

// servedKind simulates the informer of CapacityBuffers. true: the API server serves the kind and the informer has synced.
type servedKind bool

func (s servedKind) Synced() cache.InformerSynced {
	if !s {
		return nil
	}
	return func() bool { return true }
}

// newCache returns an empty cache in a configuration in which a capacity group uses buffers.
func newCache(allowed func(ctx context.Context, verb string) (bool, error)) *Cache {
	return New(Options{Allowed: allowed, Requested: func() bool { return true }, Changed: func() {}, Log: slog.New(slog.DiscardHandler)})
}

func TestReplicasCountOwnBuffersWithTheSameTarget(t *testing.T) {
	for name, c := range map[string]struct {
		from, to string
		want     int32
	}{
		"own":                     {"", "", 3},
		"of another owner":        {"managed-by: gpuscaler", "managed-by: Helm", 0},
		"of another manager":      {"manager: gpuscaler", "manager: kubectl", 0},
		"with another target":     {"name: chat}", "name: chat-v1}", -1},
		"of another policy":       {"name: gpuscaler-chat", "name: gpuscaler-code", 0},
		"with a text as replicas": {"replicas: 3", "replicas: three", -1},
		"with 2^40 replicas":      {"replicas: 3", "replicas: 1099511627776", -1},
		"without a target":        {"scalableRef: {apiGroup: apps, kind: Deployment, name: chat}, ", "", -1},
		"with negative replicas":  {"replicas: 3", "replicas: -3", 0},
		"of the core API group":   {"apiGroup: apps", "apiGroup: \"\"", -1},
		"with another kind":       {"kind: Deployment", "kind: StatefulSet", -1},
	} {
		b := newCache(nil)
		b.Put(decode(t, strings.Replace(fixture.ChatBuffer, c.from, c.to, 1)))
		if got := b.Replicas(chatWorkload()); got != c.want {
			t.Errorf("%s: %d replicas, want %d", name, got, c.want)
		}
		if b.Usable() {
			t.Errorf("%s: buffers are usable although the kind is not served", name)
		}
	}
}

func TestInfeasibleIsReadFromOwnBuffers(t *testing.T) {
	const reported = "\nstatus: {conditions: [{type: Provisioning, status: \"False\", reason: Infeasible}]}"
	for name, c := range map[string]struct {
		from, to string
		want     bool
	}{
		"own":                    {"", "", true},
		"of another owner":       {"managed-by: gpuscaler", "managed-by: Helm", false},
		"with another target":    {"name: chat}", "name: chat-v1}", false},
		"without replicas":       {"replicas: 3", "replicas: 0", false},
		"with another reason":    {"Infeasible", "RequiresNewCapacity", false},
		"with the status True":   {`"False"`, `"True"`, false},
		"with another condition": {"type: Provisioning", "type: LimitedByQuotas", false},
		"for this version":       {"conditions: [{", "conditions: [{observedGeneration: 4, ", true},
		"for an earlier version": {"conditions: [{", "conditions: [{observedGeneration: 3, ", false},
		"with a broken status":   {reported, "\nstatus: {conditions: none}", false},
	} {
		b := newCache(nil)
		text := strings.Replace(fixture.ChatBuffer+reported, "metadata:", "metadata:\n  generation: 4", 1)
		b.Put(decode(t, strings.Replace(text, c.from, c.to, 1)))
		if got := b.Infeasible(chatWorkload()); got != c.want {
			t.Errorf("%s: infeasible %t", name, got)
		}
	}
	if newCache(nil).Infeasible(chatWorkload()) {
		t.Error("infeasible without a buffer")
	}
}

// gpuscaler changes the number of replicas of an infeasible buffer. The buffer must remain infeasible until the autoscaler sets a condition
// for the new version. The exceptions are another scale target and a buffer that was deleted and created again.
func TestInfeasibleRemainsWhileTheNumberOfReplicasChanges(t *testing.T) {
	version := func(generation, observed int, from, to string) *Buffer {
		text := strings.Replace(fixture.ChatBuffer, "metadata:", fmt.Sprintf("metadata:\n  generation: %d", generation), 1)
		text = strings.Replace(text, "replicas: 3", fmt.Sprintf("replicas: %d", generation), 1)
		text += fmt.Sprintf("\nstatus: {conditions: [{type: Provisioning, observedGeneration: %d, status: \"False\", ", observed) +
			"reason: Infeasible}]}"
		return decode(t, strings.Replace(text, from, to, 1))
	}
	for name, c := range map[string]struct {
		from, to string
		want     bool
	}{
		"another number of replicas": {"", "", true},
		"another target before":      {"kind: Deployment", "kind: StatefulSet", false},
		"created again":              {"uid: u7", "uid: u6", false},
		"another reason before":      {"Infeasible", "RequiresNewCapacity", false},
	} {
		b := newCache(nil)
		b.Put(version(4, 4, c.from, c.to))
		b.Put(version(5, 4, "", ""))
		b.Put(version(6, 4, "", ""))
		if got := b.Infeasible(chatWorkload()); got != c.want {
			t.Errorf("%s: infeasible %t", name, got)
		}
		b.Put(version(6, 6, "Infeasible", "RequiresNewCapacity"))
		if b.Infeasible(chatWorkload()) {
			t.Errorf("%s: infeasible after the report for the last version", name)
		}
	}
}

func TestOrphanedBuffers(t *testing.T) {
	b := newCache(nil)
	b.Put(decode(t, fixture.ChatBuffer))
	b.Put(decode(t, strings.NewReplacer("gpuscaler-chat", "own", "managed-by: gpuscaler", "managed-by: Helm").Replace(fixture.ChatBuffer)))
	groups, workloads := []*capacity.Group{{Name: "chat"}}, []scaling.Workload{*chatWorkload()}
	if got := b.Orphaned(groups, workloads); len(got) != 0 {
		t.Errorf("with its policy: %v", got)
	}
	if got := b.Orphaned(groups, nil); fmt.Sprint(got) != "[{team/chat 0}]" {
		t.Errorf("without its policy: %v", got)
	}
	if got := b.Orphaned(nil, workloads); len(got) != 1 {
		t.Errorf("without its group: %v", got)
	}
}

// Karpenter installs the CRD even if its feature gate is off. Karpenter then ignores the buffers and sets no condition on them.
func TestBuffersWithoutAResponseAreNotWrittenForAnHour(t *testing.T) {
	b := newCache(nil)
	own := decode(t, fixture.ChatBuffer)
	b.Put(own)
	if b.CheckResponses(own.created.Add(59 * time.Second)); !b.ignoredSince.IsZero() {
		t.Error("ignored within the first minute")
	}
	ignored := own.created.Add(61 * time.Second)
	if b.CheckResponses(ignored); !b.ignoredSince.Equal(ignored) {
		t.Error("not ignored after a minute")
	}
	b.Delete(own)
	if b.CheckResponses(ignored.Add(59 * time.Minute)); b.ignoredSince.IsZero() {
		t.Error("tried again within the hour")
	}
	if b.CheckResponses(ignored.Add(61 * time.Minute)); !b.ignoredSince.IsZero() {
		t.Error("not tried again after an hour")
	}
	b.Put(decode(t, fixture.ChatBuffer+"\nstatus: {conditions: [{type: ReadyForProvisioning, status: \"False\", reason: "+
		"ScalableRefNotFound}]}"))
	if b.CheckResponses(ignored.Add(2 * time.Hour)); !b.ignoredSince.IsZero() {
		t.Error("a buffer with a condition counts as ignored")
	}
}

// newWriter returns a writer, its fake client, and a function that returns the requests since the function's last call.
func newWriter() (w *Writer, client *dynamicfake.FakeDynamicClient, sent func() []string) {
	var requests []string
	client = dynamicfake.NewSimpleDynamicClient(runtime.NewScheme())
	client.PrependReactor("*", "capacitybuffers", func(a clienttesting.Action) (bool, runtime.Object, error) {
		switch a := a.(type) {
		case clienttesting.PatchAction:
			requests = append(requests, string(a.GetPatch()))
			u := &unstructured.Unstructured{}
			return true, u, json.Unmarshal(a.GetPatch(), &u.Object)
		case clienttesting.DeleteActionImpl:
			requests = append(requests, fmt.Sprintf("delete %s/%s %s", a.Namespace, a.Name, *a.DeleteOptions.Preconditions.UID))
		}
		return true, &unstructured.Unstructured{Object: map[string]any{}}, nil
	})
	writes := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "writes"}, []string{"object", "result"})
	w = &Writer{Client: client, Leading: func() bool { return true }, Writes: writes, Log: slog.New(slog.DiscardHandler)}
	return w, client, func() []string { all := requests; requests = nil; return all }
}

var chatOwner = &metav1.OwnerReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "chat", UID: "d1"}

func TestBufferIsWrittenWithItsTargetAsOwnerAndRemovedByUID(t *testing.T) {
	w, _, sent := newWriter()
	task := Task{Namespace: "team", Policy: "chat", Target: targetOf(chatWorkload()), Owner: chatOwner, Replicas: 3}
	w.Write(task)
	want := `{"apiVersion":"autoscaling.x-k8s.io/v1beta1","kind":"CapacityBuffer",` +
		`"metadata":{"labels":{"app.kubernetes.io/managed-by":"gpuscaler"},` +
		`"name":"gpuscaler-chat","namespace":"team","ownerReferences":[{"apiVersion":"apps/v1","kind":"Deployment","name":"chat","uid":"d1"}]},` +
		`"spec":{"replicas":3,"scalableRef":{"apiGroup":"apps","kind":"Deployment","name":"chat"}}}`
	if got := sent(); len(got) != 1 || strings.TrimSpace(got[0]) != want {
		t.Errorf("sent %s\nwant %s", got, want)
	}
	task.existing, task.Replicas = decode(t, fixture.ChatBuffer), 0
	w.Write(task)
	if got := fmt.Sprint(sent()); got != "[delete team/gpuscaler-chat u7]" {
		t.Errorf("sent %s", got)
	}

	for name, change := range map[string]func(b *Task){
		"the buffer belongs to another owner":           func(b *Task) { b.existing.ours = false },
		"the buffer to remove belongs to another owner": func(b *Task) { b.existing.ours, b.Replicas = false, 0 },
		"nothing to remove":                             func(b *Task) { b.existing, b.Replicas = nil, 0 },
		"limits of GPUs without requests":               func(b *Task) { b.LimitsOnly = true },
		"the target does not exist":                     func(b *Task) { b.Owner = nil },
		"not the leader any more":                       func(*Task) { w.Leading = func() bool { return false } },
	} {
		b := Task{Namespace: "team", Policy: "chat", Target: task.Target, Owner: chatOwner, Replicas: 2, existing: decode(t, fixture.ChatBuffer)}
		change(&b)
		if w.Write(b); len(sent()) != 0 {
			t.Errorf("%s: a request was sent", name)
		}
		w.Leading = func() bool { return true }
	}
}

// An upgrade of the chart can change the permissions of the account while the controller runs. The cache must use the new permissions.
func TestRightsToWatchAndToWriteBuffers(t *testing.T) {
	allowed, unanswered := "", false
	b := newCache(func(_ context.Context, verb string) (bool, error) {
		if unanswered {
			return false, errors.New("no answer")
		}
		return strings.Contains(allowed, verb), nil
	})
	for _, c := range []struct {
		allowed         string
		watches, writes bool
	}{{"", false, false}, {"create", false, false}, {"delete", true, false}, {"create delete", true, true}} {
		allowed = c.allowed
		if got := b.MayWatch(t.Context()); got != c.watches || b.mayWrite != c.writes || b.missingLogged == c.writes {
			t.Errorf("%q: watches %t, writes %t, logged %t", c.allowed, got, b.mayWrite, b.missingLogged)
		}
	}
	b.RefreshRights(t.Context()) // the API server does not serve the kind, so no request is sent
	b.Watch(servedKind(true))
	if !b.Usable() {
		t.Error("not usable with both rights")
	}
	unanswered = true
	if b.RefreshRights(t.Context()); !b.Usable() || b.MayWatch(t.Context()) {
		t.Error("a request without an answer changed a right")
	}
	unanswered, allowed = false, "delete"
	if b.RefreshRights(t.Context()); b.Usable() || !b.missingLogged {
		t.Error("usable without the right to create")
	}
	allowed = "create delete"
	if b.RefreshRights(t.Context()); !b.Usable() || b.missingLogged {
		t.Error("not usable after the right was granted again")
	}
}

// The API server also returns the status 403 if a ResourceQuota in a namespace rejects a buffer. gpuscaler must still write buffers in
// other namespaces.
func TestBufferThatAQuotaRejectsDoesNotDisableOthers(t *testing.T) {
	w, client, _ := newWriter()
	b := newCache(func(context.Context, string) (bool, error) { return true, nil })
	b.Watch(servedKind(true))
	b.MayWatch(t.Context())
	client.PrependReactor("patch", "capacitybuffers", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(Resource.GroupResource(), "gpuscaler-chat", errors.New("exceeded quota: none"))
	})
	w.Write(Task{Namespace: "team", Policy: "chat", Target: targetOf(chatWorkload()), Owner: chatOwner, Replicas: 3})
	if len(w.failed) != 1 || !b.Usable() {
		t.Errorf("after the rejection: failed %v, usable %t", w.failed, b.Usable())
	}
}
