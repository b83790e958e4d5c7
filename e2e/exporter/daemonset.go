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

// Namespace and labels of the DCGM exporter's pods in an installation by the GPU operator.
const dcgmNamespace = "gpu-operator"

var dcgmLabels = map[string]string{"app": "nvidia-dcgm-exporter"}

// createExporters creates the DaemonSet of the DCGM exporter, as the GPU operator does. gpuscaler accepts pod labels only from declared
// exporters.
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

// findExporters reads on which node each exporter runs. It reports whether that has changed.
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
