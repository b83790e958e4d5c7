package leader

import (
	"log/slog"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
)

// With Expire, which is used before an uninstall, no replica may lead between the end of the command and the end of the controller. Without
// it, a replica must be able to lead soon after the command.
func TestTakenLeaseIsReleasedUnlessItShallExpire(t *testing.T) {
	for _, expire := range []bool{false, true} {
		client := fake.NewClientset()
		name := types.NamespacedName{Namespace: "gpuscaler-system", Name: "gpuscaler"}
		taking := Taking{Client: client, Lease: name, Identity: "restore-1", Log: slog.New(slog.DiscardHandler), Expire: expire}
		_, release, err := taking.Take(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		release()
		lease, err := client.CoordinationV1().Leases(name.Namespace).Get(t.Context(), name.Name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		holder, seconds := *lease.Spec.HolderIdentity, *lease.Spec.LeaseDurationSeconds
		if expire != (holder == "restore-1") || expire != (seconds == 30) {
			t.Errorf("expire %v: the holder is %q for %d s", expire, holder, seconds)
		}
	}
}
