package cache

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/fixture"
	"github.com/gpuscaler/gpuscaler/pkg/policy/annotations"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

func managed(manager, at, annotation string) metav1.ManagedFieldsEntry {
	when, err := time.Parse(time.RFC3339, at)
	if err != nil {
		panic(err)
	}
	return metav1.ManagedFieldsEntry{
		Manager: manager, Time: &metav1.Time{Time: when},
		FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:annotations":{"f:` + annotation + `":{}}}}`),
	}
}

func TestPauseNamesTheLastManager(t *testing.T) {
	f := readOperator(map[string]string{annotations.Paused: "true"}, []metav1.ManagedFieldsEntry{
		managed("helm", "2026-11-01T08:00:00Z", "meta.helm.sh/release-name"),
		managed("kubectl-annotate", "2026-11-21T02:58:00Z", annotations.Paused),
		managed("argocd", "2026-11-21T02:00:00Z", annotations.Paused),
	})
	if !f.values.Paused || f.by != "kubectl-annotate, 2026-11-21T02:58:00Z" {
		t.Errorf("paused %v by %q", f.values.Paused, f.by)
	}
}

func TestAnnotationWithoutManagedFieldsIsUsed(t *testing.T) {
	f := readOperator(map[string]string{annotations.Paused: "true"}, []metav1.ManagedFieldsEntry{
		{Manager: "broken", FieldsV1: metav1.NewFieldsV1(`{"f:metadata":[`)}, {Manager: "empty"},
	})
	if !f.values.Paused || f.by != "an unknown manager" {
		t.Errorf("paused %v by %q", f.values.Paused, f.by)
	}
}

func TestInvalidOverrideIsNotUsedAndReported(t *testing.T) {
	f := readOperator(map[string]string{annotations.Override: "min=12"}, nil)
	if f.values != scaling.NoOperator || !strings.Contains(f.problem, "until") {
		t.Errorf("%+v", f)
	}
}

func TestAnnotationsOfSeveralObjectsAreMerged(t *testing.T) {
	six, nine := time.Date(2026, 11, 22, 6, 0, 0, 0, time.UTC), time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC)
	override := func(least int32, until time.Time, by string) *Operator {
		return &Operator{set: true, values: scaling.Operator{Min: least, Max: -1, Until: until}, by: by}
	}
	paused := &Operator{set: true, values: scaling.Operator{Paused: true, Min: -1, Max: -1}, by: "ann"}
	for name, c := range map[string]struct {
		annotations []*Operator
		want        scaling.Operator
		by          string
	}{
		"nothing":              {nil, scaling.NoOperator, ""},
		"no annotation is set": {[]*Operator{{values: scaling.NoOperator}}, scaling.NoOperator, ""},
		"the override that ends last counts": {
			[]*Operator{override(12, six, "bob"), override(4, nine, "eve")}, scaling.Operator{Min: 4, Max: -1, Until: nine}, "eve",
		},
		"and in the other order": {
			[]*Operator{override(4, nine, "eve"), override(12, six, "bob")}, scaling.Operator{Min: 4, Max: -1, Until: nine}, "eve",
		},
		"a pause on any object pauses": {
			[]*Operator{override(4, nine, "eve"), paused}, scaling.Operator{Paused: true, Min: 4, Max: -1, Until: nine}, "ann",
		},
	} {
		if got, by := merge(c.annotations...); got != c.want || by != c.by {
			t.Errorf("%s: %+v by %q", name, got, by)
		}
	}
}

func TestPauseOfTheHPAEndsWithItsAnnotation(t *testing.T) {
	w := New(0)
	w.PutTarget(fixture.Must[*Target](TrimDeployment(fixture.Deployment("chat", 3, "1"))))
	h := fixture.HPA("chat", "chat", "chat")
	free := fixture.Must[*HPA](TrimHPA(h))
	h.Annotations = map[string]string{annotations.Paused: "true"}
	h.ManagedFields = []metav1.ManagedFieldsEntry{managed("kubectl-annotate", "2026-11-21T02:58:00Z", annotations.Paused)}
	paused := fixture.Must[*HPA](TrimHPA(h))

	w.PutHPA(nil, paused)
	if v, _ := w.View(fixture.Workload("chat")); !v.Operator.Paused || v.OperatorBy != "kubectl-annotate, 2026-11-21T02:58:00Z" {
		t.Errorf("view %+v", v)
	}
	w.PutHPA(paused, free)
	if v, _ := w.View(fixture.Workload("chat")); v.Operator != scaling.NoOperator || v.OperatorBy != "" {
		t.Errorf("view %+v", v)
	}
}
