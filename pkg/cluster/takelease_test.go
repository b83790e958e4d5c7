package cluster

import (
	"log/slog"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
)

// Before an uninstall nobody must lead again between the command's end and the controller's; at any other time somebody must, soon.
func TestATakenLeaseIsGivenBackUnlessItIsToRunOut(t *testing.T) {
	for _, leave := range []bool{false, true} {
		client := fake.NewClientset()
		name := types.NamespacedName{Namespace: "gpuscaler-system", Name: "gpuscaler"}
		_, free, err := (takenLease{client, name, "restore-1", slog.New(slog.DiscardHandler), leave}).take(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		free()
		lease, err := client.CoordinationV1().Leases(name.Namespace).Get(t.Context(), name.Name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		holder, seconds := *lease.Spec.HolderIdentity, *lease.Spec.LeaseDurationSeconds
		if leave != (holder == "restore-1") || leave != (seconds == 30) {
			t.Errorf("leave %v: held by %q for %d s", leave, holder, seconds)
		}
	}
}
