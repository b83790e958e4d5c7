package manual

import (
	"fmt"
	"strings"

	kedav1alpha1 "github.com/kedacore/keda/v2/apis/keda/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/ownership"
	"github.com/gpuscaler/gpuscaler/pkg/policy/annotations"
)

// Values of the annotation gpuscaler.io/manage-keda on a ScaledObject. Each value permits gpuscaler to set one of KEDA's annotations.
const (
	// permits autoscaling.keda.sh/force-activation while the target is at least one replica, for a ScaledObject without gpuscaler's trigger
	manageActivation = "activation"
	manageHold       = "hold" // permits paused-scale-in while the policy has the mode hold or is paused
)

// ManageKEDA contains the KEDA annotations that gpuscaler may set on a ScaledObject, and the annotations that it has set.
type ManageKEDA struct {
	Activation, Hold bool
	Applied          []string // KEDA's annotations that gpuscaler has set, sorted
	Problem          string   // why the annotation gpuscaler.io/manage-keda is not valid; empty: it is valid
}

// ReadManageKEDA reads the annotation gpuscaler.io/manage-keda of a ScaledObject. From the managedFields of the ScaledObject it reads which
// annotations of KEDA gpuscaler has set.
func ReadManageKEDA(values map[string]string, managed []metav1.ManagedFieldsEntry) (m ManageKEDA) {
	text, set := values[annotations.ManageKEDA]
	for _, word := range strings.Split(text, ",") {
		switch word = strings.TrimSpace(word); {
		case word == manageActivation:
			m.Activation = true
		case word == manageHold:
			m.Hold = true
		case set:
			m.Problem = fmt.Sprintf("%s: %q: allowed are %s, %s, or both with a comma", annotations.ManageKEDA, text, manageActivation, manageHold)
		}
	}
	for i := range managed {
		f := managed[i].FieldsV1
		if managed[i].Manager != ownership.Manager || managed[i].Operation != metav1.ManagedFieldsOperationApply || f == nil {
			continue
		}
		for _, key := range []string{kedav1alpha1.ForceActivationAnnotation, kedav1alpha1.PausedScaleInAnnotation} {
			if ownsAnnotation(f.GetRawBytes(), key) {
				m.Applied = append(m.Applied, key)
			}
		}
	}
	return m
}
