package policystatus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/events"
	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/store"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// cluster is a fake API server with HPAs, their policies, and a leader.
type cluster struct {
	t        *testing.T
	now      time.Time
	revision uint64
	unknown  bool // whether the policy store has changes that it has not published
	statuses []store.CarrierStatus
	leading  bool
	fail     func(about corev1.ObjectReference) error
	during   func() // called during a write
	lost     bool   // whether the informer misses all writes
	written  map[string]string
	writes   []string
	sent     []string // Events
	log      strings.Builder
	writer   *Writer
}

func newCluster(t *testing.T) *cluster {
	c := &cluster{t: t, now: time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC), leading: true, written: map[string]string{}}
	c.restart()
	return c
}

// restart replaces the writer, as a change of the leader does. The informer then reads all objects again.
func (c *cluster) restart() {
	c.writer = New(Options{
		Namespaces: []string{"team"}, Policies: c, Events: c, Leading: func() bool { return c.leading },
		Log: slog.New(slog.NewTextHandler(&c.log, nil)), Apply: c.apply,
	})
	for _, st := range c.statuses {
		c.read(st.Name)
	}
}

func (c *cluster) StatusRevision() uint64 { return c.revision }

func (c *cluster) CarrierStatuses() ([]store.CarrierStatus, bool) { return c.statuses, !c.unknown }

func (c *cluster) Send(about corev1.ObjectReference, _, reason, note string) {
	c.sent = append(c.sent, about.Name+" "+reason+": "+note)
}

func hpa(name string) corev1.ObjectReference {
	return corev1.ObjectReference{APIVersion: "autoscaling/v2", Kind: "HorizontalPodAutoscaler", Namespace: "team", Name: name,
		UID: types.UID("uid-" + name)}
}

func (c *cluster) apply(_ context.Context, about corev1.ObjectReference, text string) error {
	if c.during != nil {
		c.during()
	}
	if c.fail != nil {
		if err := c.fail(about); err != nil {
			c.writes = append(c.writes, about.Name+" failed")
			return err
		}
	}
	c.writes = append(c.writes, strings.TrimSpace(about.Name+" "+text))
	c.written[about.Name] = text
	if !c.lost {
		c.read(about.Name)
	}
	return nil
}

// read passes an HPA to the writer, as the informer does.
func (c *cluster) read(name string) {
	text := c.written[name]
	c.writer.Put(hpa(name), Written{Value: text, Ours: text != ""})
}

// set adds a policy with the given status to an HPA.
func (c *cluster) set(st store.CarrierStatus) {
	st.Kind, st.Namespace = "HorizontalPodAutoscaler", "team"
	c.remove(st.Name)
	c.statuses = append(c.statuses, st)
	c.read(st.Name)
}

// remove removes the policy of an HPA.
func (c *cluster) remove(name string) {
	c.revision++
	for i := range c.statuses {
		if c.statuses[i].Name == name {
			c.statuses = append(c.statuses[:i:i], c.statuses[i+1:]...)
			return
		}
	}
}

// expect runs one round per simulated second and compares the writes with want.
func (c *cluster) expect(why string, seconds int, want ...string) {
	c.t.Helper()
	c.run(seconds)
	if got := strings.Join(c.writes, "\n"); got != strings.Join(want, "\n") {
		c.t.Errorf("%s: writes\n%s\nwant\n%s", why, got, strings.Join(want, "\n"))
	}
}

func (c *cluster) run(seconds int) {
	c.writes = nil
	for range seconds {
		c.now = c.now.Add(time.Second)
		c.writer.Round(c.t.Context(), c.now)
	}
}

func valid(name string, signals int) store.CarrierStatus {
	return store.CarrierStatus{Name: name, State: store.InForce, Workload: &scaling.Workload{
		Policy: &scaling.Policy{Signals: make([]scaling.Signal, signals), MinReplicas: 2, MaxReplicas: 12}}}
}

func wrong(name string) store.CarrierStatus {
	return store.CarrierStatus{Name: name, State: store.Refused, Problems: []policy.Problem{{
		File: "HorizontalPodAutoscaler team/" + name, Line: 4, Field: "spec.signals[0].target", Message: "is not a number", Found: `"ten"`}}}
}

const (
	refusedText  = `refused: line 4: spec.signals[0].target: is not a number; found "ten"; no version is in force`
	acceptedText = "accepted: 3 signals, 2 to 12 replicas"
)

var (
	hpas     = schema.GroupResource{Group: "autoscaling", Resource: "horizontalpodautoscalers"}
	conflict = apierrors.NewApplyConflict([]metav1.StatusCause{{Type: metav1.CauseTypeFieldManagerConflict}}, `conflict with "argocd"`)
)

// A team applies a wrong policy, corrects it, makes a mistake again, and removes it. Before the removal, the leader changes. The
// annotation must change with the status of the policy, but at most once a minute, and must be removed with the policy.
func TestTheAnnotationFollowsThePolicyOnceAMinute(t *testing.T) {
	c := newCluster(t)
	c.set(wrong("chat"))
	c.expect("a wrong policy", 1, "chat "+refusedText)
	c.expect("nothing changes for an hour", 3600)
	c.revision++
	c.expect("the store changed and this status did not", 60)
	c.set(valid("chat", 3))
	c.expect("corrected, more than a minute after the last write", 1, "chat "+acceptedText)
	c.set(wrong("chat"))
	c.expect("wrong again, less than a minute after the last write", 59)
	c.expect("after a minute", 1, "chat "+refusedText)
	c.restart()
	c.expect("a new leader compares with the annotation that is there", 120)
	c.remove("chat")
	c.expect("the policy was removed from the HPA", 5, "chat")
	if c.sent != nil || c.log.Len() > 0 {
		t.Errorf("Events %q, log %s", c.sent, &c.log)
	}
}

func TestEditsWithinAMinuteAreOneWrite(t *testing.T) {
	c := newCluster(t)
	c.set(wrong("chat"))
	c.expect("a wrong policy", 1, "chat "+refusedText)
	c.set(valid("chat", 1))
	c.expect("first edit", 10)
	c.set(valid("chat", 2))
	c.expect("second edit", 10)
	c.set(valid("chat", 3))
	c.expect("the last edit is written a minute after the write", 60, "chat "+acceptedText)
	c.set(wrong("chat"))
	c.expect("wrong", 10)
	c.set(valid("chat", 3))
	c.expect("corrected before the minute ended", 120)
}

func TestAStandbyAndALostLeaseWriteNothing(t *testing.T) {
	c := newCluster(t)
	c.leading = false
	for _, name := range []string{"a", "b", "c"} {
		c.set(wrong(name))
	}
	c.expect("a standby", 60)
	c.leading = true
	c.during = func() { c.leading = false }
	c.expect("the Lease is lost during the first write", 60, "a "+refusedText)
	c.leading, c.during = true, nil
	c.expect("leads again", 2, "b "+refusedText, "c "+refusedText)
}

func TestAnUnknownStatusChangesNothing(t *testing.T) {
	c := newCluster(t)
	c.set(wrong("chat"))
	c.expect("a wrong policy", 1, "chat "+refusedText)
	c.unknown, c.statuses = true, nil
	c.revision++
	c.expect("the PlatformConfig cannot be read", 120)
	c.unknown = false
	c.set(store.CarrierStatus{Name: "chat"})
	c.set(store.CarrierStatus{Name: "new"})
	c.expect("the policies wait for the PlatformConfig", 120)
}

func TestAnotherOwnerOfTheAnnotationIsReportedOnce(t *testing.T) {
	c := newCluster(t)
	c.fail = func(about corev1.ObjectReference) error {
		if about.Name == "chat" {
			return conflict
		}
		return nil
	}
	c.written["chat"] = "copied from another cluster"
	c.set(wrong("chat"))
	c.writer.Put(hpa("chat"), Written{Value: c.written["chat"]})
	c.set(valid("embed", 3))
	c.expect("a conflict does not affect other objects", 1, "chat failed", "embed "+acceptedText)
	c.expect("it is repeated after 1, 2, 4, 8, 16 and 32 minutes", 63*60, "chat failed", "chat failed", "chat failed", "chat failed",
		"chat failed", "chat failed")
	if len(c.sent) != 1 || !strings.Contains(c.sent[0], events.PolicyStatusConflict+": the annotation gpuscaler.io/policy-status is not "+
		"written: remove it from the manifest") || !strings.Contains(c.sent[0], "argocd") || strings.Count(c.log.String(), "\n") != 1 {
		t.Errorf("Events %q, log %s; want one of each, with the next step", c.sent, &c.log)
	}
	c.fail = nil
	c.expect("the manifest is corrected", 2*3600, "chat "+refusedText)
	c.fail = func(corev1.ObjectReference) error { return conflict }
	c.set(valid("chat", 3))
	c.expect("a later conflict", 1, "chat failed")
	if len(c.sent) != 2 {
		t.Errorf("Events %q: a new conflict is not reported", c.sent)
	}
}

func TestAMissingPermissionIsReportedOnceForANamespace(t *testing.T) {
	c := newCluster(t)
	for i := range 100 {
		c.set(wrong(fmt.Sprintf("chat-%03d", i)))
	}
	c.fail = func(about corev1.ObjectReference) error {
		return apierrors.NewForbidden(hpas, about.Name, errors.New("RBAC"))
	}
	c.expect("one attempt", 59, "chat-000 failed")
	c.expect("another one after a minute, and then after two", 122, "chat-001 failed", "chat-002 failed")
	if len(c.sent) != 0 || strings.Count(c.log.String(), "\n") != 1 || !strings.Contains(c.log.String(), "policyStatus.namespaces") {
		t.Errorf("Events %q, log %s; want one line with the next step", c.sent, &c.log)
	}
	c.fail = nil
	c.run(240 + 10) // an administrator has added the missing Role
	if len(c.written) != 100 {
		t.Errorf("%d of 100 objects have the annotation", len(c.written))
	}
}

func TestADeletedObjectIsNotReported(t *testing.T) {
	for name, gone := range map[string]error{
		"404": apierrors.NewNotFound(hpas, "chat"),
		"409": apierrors.NewConflict(hpas, "chat", errors.New("uid mismatch: no existing object was found")),
	} {
		c := newCluster(t)
		c.set(wrong("chat"))
		c.fail = func(corev1.ObjectReference) error { return gone }
		c.expect(name+", before the informer knows", 30, "chat failed")
		c.writer.Delete(hpa("chat"))
		c.expect(name+", after the informer knows", 600)
		if c.sent != nil || c.log.Len() > 0 {
			t.Errorf("%s: Events %q, log %s", name, c.sent, &c.log)
		}
	}
}

// During a write, an HPA is deleted and created again with another UID. The result of the write is for the deleted HPA and must not be
// recorded for the new HPA.
func TestAnObjectIsCreatedAgainDuringAWrite(t *testing.T) {
	c := newCluster(t)
	c.set(wrong("chat"))
	again := hpa("chat")
	again.UID = "later"
	c.lost, c.during = true, func() { c.writer.Put(again, Written{}); c.during = nil }
	c.expect("both are written", 2, "chat "+refusedText, "chat "+refusedText)
}

func TestAnAPIServerThatDoesNotAnswerIsTriedOnceARound(t *testing.T) {
	c := newCluster(t)
	for i := range 50 {
		c.set(wrong(fmt.Sprintf("chat-%02d", i)))
	}
	c.fail = func(corev1.ObjectReference) error { return errors.New("connection refused") }
	c.expect("one attempt", 1, "chat-00 failed")
	c.expect("the next object", 1, "chat-01 failed")
	if n := strings.Count(c.log.String(), "\n"); n != 1 {
		t.Errorf("%d log lines, want 1", n)
	}
	c.fail = func(about corev1.ObjectReference) error {
		if about.Name == "chat-02" {
			return apierrors.NewInvalid(schema.GroupKind{}, about.Name, nil)
		}
		return nil
	}
	c.run(120)
	if len(c.written) != 49 {
		t.Errorf("%d objects have the annotation, want all but one", len(c.written))
	}
}

// A mistake in the PlatformConfig causes the refusal of 10,000 policies at the same time.
func TestTenThousandRefusedPoliciesAreWrittenTenASecond(t *testing.T) {
	c := newCluster(t)
	for i := range 10_000 {
		st := wrong(fmt.Sprintf("chat-%05d", i))
		st.Kind, st.Namespace = "HorizontalPodAutoscaler", "team"
		c.statuses = append(c.statuses, st)
	}
	c.revision++
	c.restart()
	most := 0
	for range 1000 {
		c.run(1)
		most = max(most, len(c.writes))
	}
	if len(c.written) != 10_000 || most != maxWrites {
		t.Errorf("%d objects in 1000 rounds, at most %d in a round; want 10000 and %d", len(c.written), most, maxWrites)
	}
	c.expect("nothing changes", 120)
}

// An object that changes each second must not delay the writes of other objects.
func TestObjectsTakeTurns(t *testing.T) {
	c := newCluster(t)
	for i := range 700 {
		c.set(wrong(fmt.Sprintf("chat-%03d", i)))
	}
	first := map[string]int{}
	for second := range 120 {
		c.revision++
		for i := range c.statuses {
			c.statuses[i].Problems[0].Line++
		}
		c.run(1)
		for _, write := range c.writes {
			name, _, _ := strings.Cut(write, " ")
			if _, known := first[name]; !known {
				first[name] = second
			}
		}
	}
	if len(first) != 700 {
		t.Errorf("%d of 700 objects were written in two minutes, although 600 writes fit into a minute", len(first))
	}
}

func TestObjectsInOtherNamespacesAreIgnored(t *testing.T) {
	c := newCluster(t)
	other := hpa("chat")
	other.Namespace = "other"
	c.writer.Put(other, Written{Value: "x", Ours: true})
	st := wrong("chat")
	st.Kind, st.Namespace = "HorizontalPodAutoscaler", "other"
	c.statuses = append(c.statuses, st)
	c.revision++
	c.expect("a namespace that the chart does not list", 60)
}

// An informer reports a deletion both when a ConfigMap is deleted and when its label is removed. The writer must try to remove the
// annotation in both cases.
func TestTheAnnotationIsRemovedWithTheLabelOfAConfigMap(t *testing.T) {
	c := newCluster(t)
	about := hpa("chat")
	about.APIVersion, about.Kind = "v1", "ConfigMap"
	st := wrong("chat")
	st.Kind, st.Namespace, st.Problems[0].File = "ConfigMap", "team", "ConfigMap team/chat"
	for name, result := range map[string]error{
		"the label was removed": nil, "the ConfigMap was deleted": apierrors.NewConflict(hpas, "chat", errors.New("uid mismatch")),
	} {
		c.statuses, c.lost = []store.CarrierStatus{st}, true
		c.revision++
		c.writer.Put(about, Written{Ours: true, Value: strings.Replace(refusedText, "no version is in force",
			"no policy is in force as written", 1)})
		c.expect("the annotation is right", 5)
		c.writer.Unlabeled(about)
		c.fail = func(corev1.ObjectReference) error { return result }
		want := "chat"
		if result != nil {
			want = "chat failed"
		}
		c.expect(name, 300, want)
		c.fail = nil
	}
	c.writer.Put(about, Written{})
	c.writer.Unlabeled(about)
	c.expect("without the annotation nothing is written", 60)
}

// A new leader must write an object only after a minute has passed since the last write of the previous leader.
func TestANewLeaderWaitsForTheRestOfTheMinute(t *testing.T) {
	c := newCluster(t)
	c.set(wrong("chat"))
	c.writer.Put(hpa("chat"), Written{Value: acceptedText, Ours: true, At: c.now.Add(-40 * time.Second)})
	c.expect("40 s after the write of the previous leader", 19)
	c.expect("a minute after it", 1, "chat "+refusedText)
	c.set(valid("embed", 3))
	c.writer.Put(hpa("embed"), Written{Value: refusedText, Ours: true, At: c.now.Add(time.Hour)})
	c.expect("the clock of the API server is an hour ahead", 1, "embed "+acceptedText)
}

func TestAQuietRoundAllocatesNothing(t *testing.T) {
	c := newCluster(t)
	c.set(wrong("chat"))
	c.expect("a wrong policy", 1, "chat "+refusedText)
	if n := testing.AllocsPerRun(100, func() { c.writer.Round(t.Context(), c.now) }); n != 0 {
		t.Errorf("%v allocations in a round without changes", n)
	}
	c.set(valid("chat", 3))
	c.expect("an edit waits for the minute", 1)
	if n := testing.AllocsPerRun(100, func() { c.writer.Round(t.Context(), c.now) }); n != 0 {
		t.Errorf("%v allocations in a round that waits", n)
	}
}

func BenchmarkQuietRound(b *testing.B) {
	c := newCluster(&testing.T{})
	for i := range 10_000 {
		st := valid(fmt.Sprintf("chat-%05d", i), 3)
		st.Kind, st.Namespace = "HorizontalPodAutoscaler", "team"
		c.statuses = append(c.statuses, st)
		c.written[st.Name] = acceptedText
	}
	c.revision++
	c.restart()
	c.writer.Round(b.Context(), c.now)
	b.ReportAllocs()
	for b.Loop() {
		c.writer.Round(b.Context(), c.now)
	}
	if len(c.writes) > 0 {
		b.Errorf("%d writes", len(c.writes))
	}
}
