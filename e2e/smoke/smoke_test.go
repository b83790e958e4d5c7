// Package smoke tests package stack. If these tests pass, the stack is probably not the cause of a failure in another end-to-end test.
package smoke

import (
	"context"
	"fmt"
	"os"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscaler/gpuscaler/e2e/stack"
)

// shared is the stack of this package's tests; each test has its own namespace.
var shared *stack.Stack

func TestMain(m *testing.M) {
	if os.Getenv(helperVariable) != "" {
		helper() // this process runs in a pod of a test, see hostpods_test.go
		return
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	var err error
	if shared, err = stack.Up(context.Background(), stack.Options{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer shared.Stop()
	if err := shared.Nodes(context.Background(), "gpu", 3, 8); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	if code != 0 {
		shared.Keep()
	}
	return code
}

func create(t *testing.T, objects ...client.Object) {
	t.Helper()
	for _, o := range objects {
		if err := shared.Client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
}

func namespace(t *testing.T, name string) string {
	t.Helper()
	if err := shared.Namespace(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	return name
}

// replicas returns a check that a Deployment has the given numbers of desired and ready replicas.
func replicas(namespace, name string, desired, ready int32) func(context.Context) error {
	return func(ctx context.Context) error {
		var d appsv1.Deployment
		if err := shared.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &d); err != nil {
			return err
		}
		if *d.Spec.Replicas != desired || d.Status.ReadyReplicas != ready {
			return fmt.Errorf("%s has %d desired and %d ready replicas, want %d and %d",
				name, *d.Spec.Replicas, d.Status.ReadyReplicas, desired, ready)
		}
		return nil
	}
}
