package manual

import (
	"slices"
	"strings"
	"testing"
	"time"

	kedav1alpha1 "github.com/kedacore/keda/v2/apis/keda/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/fixture"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/ownership"
	"github.com/gpuscaler/gpuscaler/pkg/policy/annotations"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

func fieldsOf(annotation string) *metav1.FieldsV1 {
	return metav1.NewFieldsV1(`{"f:metadata":{"f:annotations":{"f:` + annotation + `":{}}}}`)
}

func TestPauseNamesTheLastManager(t *testing.T) {
	f := ReadOperator(map[string]string{annotations.Paused: "true"}, []metav1.ManagedFieldsEntry{
		fixture.Annotated("helm", "2026-11-01T08:00:00Z", "meta.helm.sh/release-name"),
		fixture.Annotated("kubectl-annotate", "2026-11-21T02:58:00Z", annotations.Paused),
		fixture.Annotated("argocd", "2026-11-21T02:00:00Z", annotations.Paused),
	})
	if !f.Values.Paused || f.by != "kubectl-annotate, 2026-11-21T02:58:00Z" {
		t.Errorf("paused %v by %q", f.Values.Paused, f.by)
	}
}

func TestAnnotationWithoutManagedFieldsIsUsed(t *testing.T) {
	f := ReadOperator(map[string]string{annotations.Paused: "true"}, []metav1.ManagedFieldsEntry{
		{Manager: "broken", FieldsV1: metav1.NewFieldsV1(`{"f:metadata":[`)}, {Manager: "empty"},
	})
	if !f.Values.Paused || f.by != "an unknown manager" {
		t.Errorf("paused %v by %q", f.Values.Paused, f.by)
	}
}

func TestInvalidOverrideIsNotUsedAndReported(t *testing.T) {
	f := ReadOperator(map[string]string{annotations.Override: "min=12"}, nil)
	if f.Values != scaling.NoOperator || !strings.Contains(f.Problem, "until") {
		t.Errorf("%+v", f)
	}
}

func TestAnnotationsOfSeveralObjectsAreMerged(t *testing.T) {
	six, nine := time.Date(2026, 11, 22, 6, 0, 0, 0, time.UTC), time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC)
	override := func(least int32, until time.Time, by string) *Operator {
		return &Operator{set: true, Values: scaling.Operator{Min: least, Max: -1, Until: until}, by: by}
	}
	paused := &Operator{set: true, Values: scaling.Operator{Paused: true, Min: -1, Max: -1}, by: "ann"}
	for name, c := range map[string]struct {
		annotations []*Operator
		want        scaling.Operator
		by          string
	}{
		"nothing":              {nil, scaling.NoOperator, ""},
		"no annotation is set": {[]*Operator{{Values: scaling.NoOperator}}, scaling.NoOperator, ""},
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
		if got, by := Merge(c.annotations...); got != c.want || by != c.by {
			t.Errorf("%s: %+v by %q", name, got, by)
		}
	}
}

func TestPauseOfKEDALimitsTheTarget(t *testing.T) {
	until := time.Date(2026, 11, 22, 6, 0, 0, 0, time.UTC)
	override := func(least, most int32) scaling.Operator { return scaling.Operator{Min: least, Max: most, Until: until} }
	lasting := func(least, most int32) scaling.Operator {
		return scaling.Operator{Min: least, Max: most, Until: noEnd}
	}
	frozen := scaling.Operator{Paused: true, Min: -1, Max: -1}
	for name, c := range map[string]struct {
		annotations map[string]string
		operator    scaling.Operator
		want        scaling.Operator
	}{
		"no annotation": {nil, scaling.NoOperator, scaling.NoOperator},
		"paused":        {map[string]string{kedav1alpha1.PausedAnnotation: "true"}, scaling.NoOperator, frozen},
		"paused: false": {map[string]string{kedav1alpha1.PausedAnnotation: "false"}, scaling.NoOperator, scaling.NoOperator},
		"paused-replicas wins over paused: false": {
			map[string]string{kedav1alpha1.PausedAnnotation: "false", kedav1alpha1.PausedReplicasAnnotation: "2"}, scaling.NoOperator, frozen,
		},
		"scale-in: the minimum is the current replicas": {
			map[string]string{kedav1alpha1.PausedScaleInAnnotation: "true"}, scaling.NoOperator, lasting(5, -1),
		},
		"scale-in and an override above": {
			map[string]string{kedav1alpha1.PausedScaleInAnnotation: "true"}, override(9, -1), override(9, -1),
		},
		"scale-in and an override below": {
			map[string]string{kedav1alpha1.PausedScaleInAnnotation: "true"}, override(2, -1), lasting(5, -1),
		},
		"scale-out: the maximum is the current replicas": {
			map[string]string{kedav1alpha1.PausedScaleOutAnnotation: "yes"}, scaling.NoOperator, lasting(-1, 5),
		},
		"scale-out and an override below": {
			map[string]string{kedav1alpha1.PausedScaleOutAnnotation: "true"}, override(-1, 3), override(-1, 3),
		},
		"both: it stays": {
			map[string]string{kedav1alpha1.PausedScaleInAnnotation: "true", kedav1alpha1.PausedScaleOutAnnotation: "true"},
			scaling.NoOperator, frozen,
		},
		"scale-out and paused by gpuscaler's annotation": {
			map[string]string{kedav1alpha1.PausedScaleOutAnnotation: "true"}, frozen, scaling.Operator{Paused: true, Min: -1, Max: 5, Until: noEnd},
		},
		"force-activation changes nothing": {
			map[string]string{kedav1alpha1.ForceActivationAnnotation: "true"}, scaling.NoOperator, scaling.NoOperator,
		},
	} {
		p := ReadKEDAPause(c.annotations, nil)
		if got, by := p.Over(c.operator, "", 5); got != c.want || (got != c.operator && by == "") {
			t.Errorf("%s: %+v by %q, want %+v", name, got, by, c.want)
		}
	}
}

func TestManageKEDAAnnotation(t *testing.T) {
	managed := []metav1.ManagedFieldsEntry{
		{Manager: "kubectl", Operation: metav1.ManagedFieldsOperationUpdate, FieldsV1: fieldsOf(kedav1alpha1.PausedScaleInAnnotation)},
		{Manager: ownership.Manager, Operation: metav1.ManagedFieldsOperationApply, FieldsV1: fieldsOf(kedav1alpha1.ForceActivationAnnotation)},
	}
	m := ReadManageKEDA(map[string]string{"gpuscaler.io/manage-keda": "activation, hold"}, managed)
	if !m.Activation || !m.Hold || m.Problem != "" || !slices.Equal(m.Applied, []string{kedav1alpha1.ForceActivationAnnotation}) {
		t.Errorf("%+v", m)
	}
	for _, text := range []string{"everything", "activation hold", ""} {
		if m := ReadManageKEDA(map[string]string{"gpuscaler.io/manage-keda": text}, nil); !strings.Contains(m.Problem,
			"allowed are activation, hold") {
			t.Errorf("%q: %+v", text, m)
		}
	}
	if m := ReadManageKEDA(nil, nil); m.Problem != "" || m.Activation || m.Applied != nil {
		t.Errorf("%+v", m)
	}
}
