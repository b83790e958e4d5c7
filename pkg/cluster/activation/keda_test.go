package activation

import (
	"slices"
	"testing"
	"time"

	kedav1alpha1 "github.com/kedacore/keda/v2/apis/keda/v1alpha1"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/cache"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/fixture"
	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

func TestKEDAAnnotationsAreSetWhileTheyAreNeeded(t *testing.T) {
	for name, c := range map[string]struct {
		manage  string
		served  any // int: the target; error: the reason why no target is served
		paused  bool
		applied []string
		mode    scaling.Mode
		want    []string
		known   bool
	}{
		"a target above zero": {"activation", 2, false, nil, 0, []string{kedav1alpha1.ForceActivationAnnotation}, true},
		"a target of zero":    {"activation", 0, false, []string{kedav1alpha1.ForceActivationAnnotation}, 0, nil, true},
		"not allowed":         {"hold", 2, false, nil, 0, nil, true},
		"held": {
			"activation,hold", engine.ErrHeld, false, nil, 0, []string{kedav1alpha1.PausedScaleInAnnotation}, true,
		},
		"held while activated": {
			"activation", engine.ErrHeld, false, []string{kedav1alpha1.ForceActivationAnnotation}, 0,
			[]string{kedav1alpha1.ForceActivationAnnotation}, true,
		},
		"paused by gpuscaler's annotation": {"hold", 2, true, nil, 0, []string{kedav1alpha1.PausedScaleInAnnotation}, true},
		"advisory: removed": {
			"activation", engine.ErrAdvisory, false, []string{kedav1alpha1.ForceActivationAnnotation}, scaling.Advisory, nil, true,
		},
		"a new leader without a decision": {
			"activation", engine.ErrUndecided, false, []string{kedav1alpha1.ForceActivationAnnotation}, 0, nil, false,
		},
		"the permission was removed: the annotation is removed": {"", 2, false, []string{kedav1alpha1.ForceActivationAnnotation}, 0, nil, true},
	} {
		work := fixture.Workload("chat")
		work.Mode = c.mode
		o, _ := testOptions(fixed{*work})
		u := fixture.ScaledObject("chat", "chat")
		annotations := map[string]string{}
		if c.manage != "" {
			annotations["gpuscaler.io/manage-keda"] = c.manage
		}
		if c.paused {
			annotations["gpuscaler.io/paused"] = "true"
		}
		u.SetAnnotations(annotations)
		s := fixture.Must[*cache.ScaledObject](cache.TrimScaledObject(u))
		s.Manage.Applied = c.applied
		o.Cache.PutScaledObject(nil, s)
		want, known := NewKEDAManager(o, servedTargets{"chat": c.served}).desired(s, o.Policies.Index(), time.Now())
		if !slices.Equal(want, c.want) || known != c.known {
			t.Errorf("%s: %v, known %t; want %v, %t", name, want, known, c.want, c.known)
		}
	}
	o, _ := testOptions(fixed{})
	s := fixture.Must[*cache.ScaledObject](cache.TrimScaledObject(fixture.ScaledObject("chat", "chat")))
	if want, known := NewKEDAManager(o, servedTargets{}).desired(s, o.Policies.Index(), time.Now()); want != nil || !known {
		t.Errorf("without its policy: %v, %t", want, known)
	}
}
