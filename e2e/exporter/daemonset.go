package exporter

import (
	"context"
	"fmt"
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// dcgmNamespace is the namespace in which the GPU operator installs the DCGM exporter. dcgmLabels are the labels of the exporter's pods.
const dcgmNamespace = "gpu-operator"

var dcgmLabels = map[string]string{"app": "nvidia-dcgm-exporter"}

// createExporters creates the DaemonSet of the DCGM exporter, as the GPU operator does. Its pods must exist in the API server, because
// gpuscaler uses the pod labels of a series only if it scraped the series from a pod of a declared exporter.
func createExporters(ctx context.Context, c client.Client) error {
	set := &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: dcgmNamespace, Name: "nvidia-dcgm-exporter"},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: dcgmLabels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: dcgmLabels},
				Spec: corev1.PodSpec{
					Containers:  []corev1.Container{{Name: "nvidia-dcgm-exporter", Image: "dcgm-exporter"}},
					Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
				},
			},
		},
	}
	for _, o := range []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: dcgmNamespace}}, set} {
		if err := c.Create(ctx, o); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("the DCGM exporter: %w", err)
		}
	}
	return nil
}

// findExporters stores the name of the DCGM exporter's ready pod on each node. It returns true if one of the names changed since the last
// call.
func (e *Exporter) findExporters(ctx context.Context, c client.Reader) (bool, error) {
	var list corev1.PodList
	if err := c.List(ctx, &list, client.InNamespace(dcgmNamespace), client.MatchingLabels(dcgmLabels)); err != nil {
		return false, fmt.Errorf("the DCGM exporter's pods: %w", err)
	}
	found := map[string]string{}
	for i := range list.Items {
		if p := &list.Items[i]; p.DeletionTimestamp == nil && isReady(p) {
			found[p.Spec.NodeName] = p.Name
		}
	}
	if maps.Equal(e.exporters, found) {
		return false, nil
	}
	e.exporters = found
	return true, nil
}
