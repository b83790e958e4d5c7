package leader_test

import (
	"context"
	"fmt"
	"log/slog"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/leader"
)

// A command takes the Lease before it restores NodePools, so that no controller writes NodePools at the same time.
func ExampleTaking_Take() {
	held, release, err := leader.Taking{Client: fake.NewClientset(), Lease: types.NamespacedName{Namespace: "gpuscaler-system",
		Name: "gpuscaler"}, Identity: "restore", Log: slog.Default()}.Take(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer release()
	fmt.Println(held.Err())
}
