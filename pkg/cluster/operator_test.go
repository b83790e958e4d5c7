package cluster

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

func TestWhoPausedItAndWhenIsNamed(t *testing.T) {
	f := readOperator(map[string]string{annotations.Paused: "true"}, []metav1.ManagedFieldsEntry{
		managed("helm", "2026-11-01T08:00:00Z", "meta.helm.sh/release-name"),
		managed("kubectl-annotate", "2026-11-21T02:58:00Z", annotations.Paused),
		managed("argocd", "2026-11-21T02:00:00Z", annotations.Paused),
	})
	if !f.operator.Paused || f.by != "kubectl-annotate, 2026-11-21T02:58:00Z" {
		t.Errorf("paused %v by %q", f.operator.Paused, f.by)
	}
}

func TestAnAnnotationWithoutManagedFieldsIsObeyedAllTheSame(t *testing.T) {
	f := readOperator(map[string]string{annotations.Paused: "true"}, []metav1.ManagedFieldsEntry{
		{Manager: "broken", FieldsV1: metav1.NewFieldsV1(`{"f:metadata":[`)}, {Manager: "empty"},
	})
	if !f.operator.Paused || f.by != "an unknown manager" {
		t.Errorf("paused %v by %q", f.operator.Paused, f.by)
	}
}

func TestAnOverrideThatIsNotUnderstoodHasNoEffectAndIsTold(t *testing.T) {
	f := readOperator(map[string]string{annotations.Override: "min=12"}, nil)
	if f.operator != scaling.NoOperator || !strings.Contains(f.problem, "until") {
		t.Errorf("%+v", f)
	}
}

func TestWhatWasSaidOnSeveralObjectsIsJoined(t *testing.T) {
	six, nine := time.Date(2026, 11, 22, 6, 0, 0, 0, time.UTC), time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC)
	override := func(least int32, until time.Time, by string) *operatorFacts {
		return &operatorFacts{said: true, operator: scaling.Operator{Min: least, Max: -1, Until: until}, by: by}
	}
	paused := &operatorFacts{said: true, operator: scaling.Operator{Paused: true, Min: -1, Max: -1}, by: "ann"}
	for name, c := range map[string]struct {
		said []*operatorFacts
		want scaling.Operator
		by   string
	}{
		"nothing":                            {nil, scaling.NoOperator, ""},
		"nobody said anything":               {[]*operatorFacts{{operator: scaling.NoOperator}}, scaling.NoOperator, ""},
		"the override that ends last counts": {[]*operatorFacts{override(12, six, "bob"), override(4, nine, "eve")}, scaling.Operator{Min: 4, Max: -1, Until: nine}, "eve"},
		"and in the other order":             {[]*operatorFacts{override(4, nine, "eve"), override(12, six, "bob")}, scaling.Operator{Min: 4, Max: -1, Until: nine}, "eve"},
		"a pause anywhere pauses":            {[]*operatorFacts{override(4, nine, "eve"), paused}, scaling.Operator{Paused: true, Min: 4, Max: -1, Until: nine}, "ann"},
	} {
		if got, by := merge(c.said...); got != c.want || by != c.by {
			t.Errorf("%s: %+v by %q", name, got, by)
		}
	}
}

func TestAPauseOnTheHPAActsAndEndsWithIt(t *testing.T) {
	w := newWorld()
	w.putTarget(must(trimDeployment(deployment("chat", 3, "1"))).(*targetFacts))
	h := exactHPA("chat", "chat", "chat")
	free := must(trimHPA(h)).(*hpaFacts)
	h.Annotations = map[string]string{annotations.Paused: "true"}
	h.ManagedFields = []metav1.ManagedFieldsEntry{managed("kubectl-annotate", "2026-11-21T02:58:00Z", annotations.Paused)}
	paused := must(trimHPA(h)).(*hpaFacts)

	w.putHPA(nil, paused)
	if v, _ := w.view(workload("chat")); !v.Operator.Paused || v.OperatorBy != "kubectl-annotate, 2026-11-21T02:58:00Z" {
		t.Errorf("view %+v", v)
	}
	w.putHPA(paused, free)
	if v, _ := w.view(workload("chat")); v.Operator != scaling.NoOperator || v.OperatorBy != "" {
		t.Errorf("view %+v", v)
	}
}
