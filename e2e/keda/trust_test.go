package keda

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gpuscaler/gpuscaler/e2e/stack"
)

// The cluster's CA signs certificates for many clients. gpuscaler must not serve a target to a client that has a certificate of this CA but
// a name other than KEDA's.
func TestWrongClientCertificateIsRejected(t *testing.T) {
	t.Parallel()
	s := place(t, "stranger", 2)
	if err := authenticate(t.Context(), suite.Controller, "stranger", "another.name.svc"); err != nil {
		t.Fatal(err)
	}
	s.policy(t, strings.Replace(fmt.Sprintf(jobsPolicy, s.queue()), "minReplicas: 0", "minReplicas: 1", 1))
	s.backlog(t, 45)
	manifest := s.manifest(t, "--mirror=false")
	stranger := strings.Replace(manifest, "authenticationRef: {kind: ClusterTriggerAuthentication, name: gpuscaler}",
		"authenticationRef: {kind: ClusterTriggerAuthentication, name: stranger}", 1)
	if stranger == manifest {
		t.Fatalf("no authenticationRef in\n%s", manifest)
	}
	apply(t, stranger)
	stack.Eventually(t, time.Minute, "KEDA reports the rejection", func(context.Context) error {
		conditions, _, _ := unstructured.NestedSlice(s.scaledObject(t).Object, "status", "conditions")
		for _, c := range conditions {
			if c := c.(map[string]any); c["type"] == "Ready" && c["status"] == "False" {
				return nil
			}
		}
		return fmt.Errorf("conditions %v", conditions)
	})
	stack.Always(t, 6*time.Second, "nothing moves", s.spec(2))
	apply(t, manifest)
	stack.Eventually(t, time.Minute, "the right certificate works", s.has(5))
}
