package cache

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/fixture"
	"github.com/gpuscaler/gpuscaler/pkg/policy/annotations"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

func TestPauseOfTheHPAEndsWithItsAnnotation(t *testing.T) {
	w := New(0)
	w.PutTarget(fixture.Must[*Target](TrimDeployment(fixture.Deployment("chat", 3, "1"))))
	h := fixture.HPA("chat", "chat", "chat")
	free := fixture.Must[*HPA](TrimHPA(h))
	h.Annotations = map[string]string{annotations.Paused: "true"}
	h.ManagedFields = []metav1.ManagedFieldsEntry{fixture.Annotated("kubectl-annotate", "2026-11-21T02:58:00Z", annotations.Paused)}
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
