package controller

import (
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/gpuscaler/gpuscaler/e2e/stack"
)

var podLabels = map[string]string{"app.kubernetes.io/name": "gpuscaler"}

// run is the command of a pod. The pod's credentials are a kubeconfig instead of a mounted token.
const run = `exec "$0" run --kubeconfig="$KUBECONFIG" "$@"`

// Deployment returns gpuscaler's Deployment with its name only, for patches.
func (c *Controller) Deployment() *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: Name}}
}

// deployment returns gpuscaler's Deployment. capacity contains the flags --capacity and --nodepools that the chart sets, so that they agree
// with the chart's roles.
func (c *Controller) deployment(o Options, capacity []string) *appsv1.Deployment {
	args := append([]string{
		"--config=" + c.Policies.Dir,
		"--service=" + Name, "--service-port=" + c.servicePort,
		"--lease-duration=" + o.LeaseDuration.String(), "--learned-configmap=" + Name + "-learned",
		"--external-metrics-address=" + at(metricsPort), "--metrics-address=" + at(statusPort), "--probe-address=" + at(probePort),
		"--page-address=" + at(pagePort),
		"--allow-loopback-pods", "--activate-namespaces=" + strings.Join(o.ActivateIn, ","),
		"--configmap-namespaces=" + strings.Join(o.ConfigMapsIn, ","),
		"--policy-status-namespaces=" + strings.Join(o.PolicyStatusIn, ","),
	}, append(capacity, o.Args...)...)
	pod := map[string]string{stack.HostProcess: "true"}
	for k, v := range podLabels {
		pod[k] = v
	}
	field := func(name, path string) corev1.EnvVar {
		return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}}
	}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: Name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &o.Replicas,
			Selector: &metav1.LabelSelector{MatchLabels: podLabels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: pod},
				Spec: corev1.PodSpec{
					ServiceAccountName: Name,
					Affinity:           apart(),
					Containers: []corev1.Container{{
						Name: "gpuscaler", Image: "gpuscaler",
						Command: []string{"/bin/sh", "-c", run, c.Binary}, Args: args,
						Env: []corev1.EnvVar{
							field("POD_NAME", "metadata.name"), field("POD_NAMESPACE", "metadata.namespace"), field("POD_IP", "status.podIP"),
						},
						Ports: []corev1.ContainerPort{
							{Name: "https", ContainerPort: metricsPort}, {Name: "metrics", ContainerPort: statusPort}, {Name: "page", ContainerPort: pagePort},
							{Name: "probes", ContainerPort: probePort}, {Name: "scaler", ContainerPort: scalerPort},
						},
						ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{
							HTTPGet: &corev1.HTTPGetAction{Path: "/readyz", Port: intstr.FromString("probes")},
						}},
					}},
				},
			},
		},
	}
}

// apart returns an affinity that prefers different nodes for the replicas, so that a drain of one node evicts only one of two replicas.
func apart() *corev1.Affinity {
	return &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{
			Weight: 100,
			PodAffinityTerm: corev1.PodAffinityTerm{
				TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: podLabels},
			},
		}},
	}}
}
