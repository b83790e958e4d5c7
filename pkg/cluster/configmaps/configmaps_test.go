package configmaps

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/events"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/policystatus"
	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/store"
)

// received records the ConfigMaps that the Reader passes to the store.
type received struct {
	mu        sync.Mutex
	all       map[string]store.ConfigMap
	reads     int // number of calls of SetConfigMap
	published int
	statuses  []store.ConfigMapStatus
}

func (r *received) SetConfigMap(c store.ConfigMap) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all[c.Namespace+"/"+c.Name] = c
	r.reads++
}

func (r *received) DeleteConfigMap(namespace, name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.all, namespace+"/"+name)
}

func (r *received) ConfigMapStatuses() []store.ConfigMapStatus { return r.statuses }

func (r *received) Publish() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.published++
}

func (r *received) names() (names []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name := range r.all {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// sentEvents records Events.
type sentEvents struct{ all []string }

func (s *sentEvents) Send(about corev1.ObjectReference, kind, reason, note string) {
	s.all = append(s.all, fmt.Sprintf("%s %s/%s %s %s: %s", about.Kind, about.Namespace, about.Name, kind, reason, note))
}

func configMap(namespace, name string, data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{Data: data, ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: "uid",
		Labels: map[string]string{"gpuscaler.io/policy": "true"}, Annotations: map[string]string{"a": "b"}}}
}

// run runs a Reader of the given namespaces and waits until it has read their ConfigMaps.
func run(t *testing.T, client *fake.Clientset, limit time.Duration, namespaces ...string) *received {
	t.Helper()
	policies := &received{all: map[string]store.ConfigMap{}}
	r := New(Options{Client: client, Namespaces: namespaces, Policies: policies, Events: &sentEvents{}, Log: slog.New(slog.DiscardHandler),
		Leading: func() bool { return true }})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); r.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	r.WaitForSync(ctx, limit)
	if policies.published != 1 {
		t.Errorf("published %d times before the start", policies.published)
	}
	return policies
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within 20 s: %s", what)
		}
	}
}

func TestOnlyLabelledConfigMapsOfListedNamespacesAreRequested(t *testing.T) {
	client := fake.NewClientset(configMap("team-a", "policies", map[string]string{"a.yaml": "kind: ScalingPolicy"}),
		configMap("team-b", "policies", nil), configMap("team-c", "policies", nil))
	policies := run(t, client, time.Minute, "team-a", "team-b")
	if got := policies.names(); !slices.Equal(got, []string{"team-a/policies", "team-b/policies"}) {
		t.Errorf("read: %v", got)
	}
	requests := 0
	for _, a := range client.Actions() {
		var selector string
		switch a := a.(type) {
		case clienttesting.ListAction:
			selector = a.GetListRestrictions().Labels.String()
		case clienttesting.WatchAction:
			selector = a.GetWatchRestrictions().Labels.String()
		}
		if requests++; selector != Selector || a.GetResource().Resource != "configmaps" || a.GetNamespace() != "team-a" &&
			a.GetNamespace() != "team-b" {
			t.Errorf("request %s %s in %q with the selector %q", a.GetVerb(), a.GetResource().Resource, a.GetNamespace(), selector)
		}
	}
	if requests < 4 {
		t.Errorf("%d requests, want a list and a watch of each namespace", requests)
	}
	if err := client.CoreV1().ConfigMaps("team-a").Delete(t.Context(), "policies", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the deleted one is removed", func() bool { return slices.Equal(policies.names(), []string{"team-b/policies"}) })
}

// The permission to read one of two namespaces is missing. The other namespace must be read, and the start must not be delayed beyond the
// limit.
func TestANamespaceThatCannotBeListedDelaysTheStartOnlyForALimitedTime(t *testing.T) {
	client := fake.NewClientset(configMap("team-b", "policies", nil))
	client.PrependReactor("list", "configmaps", func(a clienttesting.Action) (bool, runtime.Object, error) {
		return a.GetNamespace() == "team-a", nil, errors.New("forbidden")
	})
	policies := run(t, client, 2*time.Second, "team-a", "team-b")
	eventually(t, "the other namespace is read", func() bool { return slices.Equal(policies.names(), []string{"team-b/policies"}) })
}

// A change of the annotation that gpuscaler writes is not an edit of a policy.
func TestAChangedAnnotationIsNotPassedToThePolicies(t *testing.T) {
	client := fake.NewClientset(configMap("team-a", "policies", map[string]string{"a.yaml": "kind: ScalingPolicy"}))
	policies := run(t, client, time.Minute, "team-a")
	reads := func() (n int, text string) {
		policies.mu.Lock()
		defer policies.mu.Unlock()
		return policies.reads, policies.all["team-a/policies"].Data["a.yaml"]
	}
	update := func(annotation, text string) {
		t.Helper()
		changed := configMap("team-a", "policies", map[string]string{"a.yaml": text})
		changed.Annotations["gpuscaler.io/policy-status"] = annotation
		if _, err := client.CoreV1().ConfigMaps("team-a").Update(t.Context(), changed, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	update("refused: line 1", "kind: ScalingPolicy")
	update("refused: line 1", "kind: PlatformConfig")
	eventually(t, "the edit is read", func() bool { _, text := reads(); return text == "kind: PlatformConfig" })
	if n, _ := reads(); n != 2 {
		t.Errorf("the ConfigMap was passed on %d times, want once at first and once after the edit", n)
	}
}

// The annotation with the status must be written to a ConfigMap, and removed after the label is removed from the ConfigMap.
func TestTheStatusIsWrittenToAConfigMapWhileItHasTheLabel(t *testing.T) {
	statuses := &carriers{all: []store.CarrierStatus{{Kind: "ConfigMap", Namespace: "team-a", Name: "policies", State: store.InForce,
		InForce: []string{"chat@3f1c"}}}}
	var written []string
	writer := policystatus.New(policystatus.Options{Namespaces: []string{"team-a"}, Policies: statuses, Leading: func() bool { return true },
		Apply: func(_ context.Context, about corev1.ObjectReference, text string) error {
			written = append(written, fmt.Sprintf("%s %s %s: %s", about.APIVersion, about.Name, about.UID, text))
			return nil
		}})
	r := New(Options{Policies: &received{all: map[string]store.ConfigMap{}}, Status: writer})
	trimmed := func(annotation string) *ConfigMap {
		c := configMap("team-a", "policies", nil)
		if annotation != "" {
			c.Annotations["gpuscaler.io/policy-status"] = annotation
			c.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "gpuscaler-policy-status", Operation: metav1.ManagedFieldsOperationApply}}
		}
		got, err := Trim(c)
		if err != nil {
			t.Fatal(err)
		}
		return got.(*ConfigMap)
	}
	now := time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)
	round := func() { now = now.Add(2 * time.Minute); writer.Round(t.Context(), now) }
	first, second := trimmed(""), trimmed("accepted: chat@3f1c")
	r.put(nil, first)
	round()
	r.put(first, second)
	round()
	r.drop(second)
	round()
	if want := []string{"v1 policies uid: accepted: chat@3f1c", "v1 policies uid: "}; !slices.Equal(written, want) {
		t.Errorf("written %q, want %q", written, want)
	}
}

// carriers simulates a policy store whose statuses do not change.
type carriers struct{ all []store.CarrierStatus }

func (c *carriers) StatusRevision() uint64 { return 1 }

func (c *carriers) CarrierStatuses() ([]store.CarrierStatus, bool) { return c.all, true }

func TestTrimKeepsOnlyNeededFields(t *testing.T) {
	at := metav1.NewTime(time.Date(2026, 11, 23, 3, 0, 0, 0, time.UTC))
	small := configMap("team-a", "small", map[string]string{"a.yaml": "text"})
	small.CreationTimestamp, small.BinaryData = at, map[string][]byte{"b": {1}}
	large := configMap("team-a", "large", map[string]string{"a.yaml": strings.Repeat("x", store.MaxConfigMapBytes)})
	for _, c := range []*corev1.ConfigMap{small, large} {
		got, err := Trim(c)
		if err != nil {
			t.Fatal(err)
		}
		m := got.(*ConfigMap)
		if len(m.Labels)+len(m.Annotations) > 0 || m.content.Name != c.Name || m.content.Namespace != "team-a" || m.content.UID != "uid" {
			t.Errorf("%+v", m)
		}
		if c == small && (m.content.Data["a.yaml"] != "text" || m.content.Bytes != 12 || !m.content.Created.Equal(at.Time) ||
			!slices.Equal(m.content.Binary, []string{"b"})) {
			t.Errorf("small: %+v", m.content)
		}
		if c == large && (m.content.Data != nil || m.content.Bytes != store.MaxConfigMapBytes+6) {
			t.Errorf("large: %d bytes, %d keys", m.content.Bytes, len(m.content.Data))
		}
	}
	if got, err := Trim("another type"); got != "another type" || err != nil {
		t.Errorf("%v, %v", got, err)
	}
}

func TestAcceptedPoliciesAreReportedOnceAndRefusedOnesAsProblems(t *testing.T) {
	leading, sent := false, &sentEvents{}
	policies := &received{statuses: []store.ConfigMapStatus{
		{Namespace: "team-a", Name: "good", UID: "1", InForce: []string{"chat@3f1c", "embed@aa01"}},
		{Namespace: "team-a", Name: "bad", UID: "2", Problems: []policy.Problem{{File: "ConfigMap team-a/bad/x.yaml", Line: 3,
			Field: "spec.maxReplicas", Message: "is missing", Allowed: "1 or more"}}},
	}}
	r := New(Options{Policies: policies, Events: sent, Leading: func() bool { return leading }})
	r.report()
	if len(sent.all) > 0 {
		t.Errorf("a standby sent %v", sent.all)
	}
	leading = true
	for range 3 {
		r.report()
	}
	want := "ConfigMap team-a/good Normal " + events.PolicyAccepted + ": in force: chat@3f1c, embed@aa01"
	if !slices.Equal(sent.all, []string{want}) {
		t.Errorf("sent %q, want %q", sent.all, want)
	}
	policies.statuses[0].InForce = []string{"chat@0000", "embed@aa01"}
	r.report()
	policies.statuses[0].InForce = nil
	r.report()
	if len(sent.all) != 2 || !strings.HasSuffix(sent.all[1], "chat@0000, embed@aa01") {
		t.Errorf("after a change and a removal: %q", sent.all)
	}
	policies.statuses = policies.statuses[1:]
	if r.report(); len(r.reported) != 0 {
		t.Errorf("kept after the deletion: %v", r.reported)
	}
	all := r.Problems()
	if len(all) != 1 || all[0].About.Name != "bad" || all[0].About.UID != "2" || all[0].About.Kind != "ConfigMap" ||
		all[0].Text != "ConfigMap team-a/bad/x.yaml:3: spec.maxReplicas: is missing; allowed: 1 or more" {
		t.Errorf("problems %+v", all)
	}
}
