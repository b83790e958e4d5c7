package events_test

import (
	"log/slog"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/events"
)

// Send only queues the Event. Run posts it.
func ExampleRecorder_Send() {
	r := events.NewRecorder(fake.NewClientset().EventsV1(), events.Options{Instance: "gpuscaler-0", Log: slog.Default()})
	r.Send(corev1.ObjectReference{Kind: "ScaledObject", Namespace: "team-chat", Name: "llama-chat"}, corev1.EventTypeNormal, "Scaled",
		"3 -> 5 replicas")
}
