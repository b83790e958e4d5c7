// Package deployment is a model of the Deployment and ReplicaSet controllers of kube-controller-manager (Kubernetes 1.36): it creates and
// deletes the pods of Deployments to match spec.replicas. Pods are deleted in the order of pkg/controller/controller_utils.go
// (ActivePodsWithRanks), without the criteria that are equal for all pods of the simulation. The model has no rollouts, and a pod is
// deleted without a grace period.
package deployment

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuscaler/gpuscaler/e2e/simulate/apiserver"
)

// Controller runs the Deployments of one namespace. It is not safe for concurrent use.
type Controller struct {
	api       *apiserver.Server
	namespace string
	all       []*deployment
}

// deployment is the part of a Deployment that remains when its object is replaced.
type deployment struct {
	name   string
	pod    corev1.PodSpec
	serial int // number in the name of the last created pod
}

// New returns a controller without Deployments.
func New(api *apiserver.Server, namespace string) *Controller {
	return &Controller{api: api, namespace: namespace}
}

// Create creates a Deployment whose pods have the given spec and the label app with the name of the Deployment.
func (c *Controller) Create(name string, replicas int32, pod *corev1.PodSpec) {
	c.all = append(c.all, &deployment{name: name, pod: *pod})
	c.put(c.all[len(c.all)-1], replicas)
}

// Replace deletes a Deployment with its pods and creates it again.
func (c *Controller) Replace(name string, replicas int32) {
	c.api.Remove(apiserver.KindDeployment, c.key(name))
	for _, pod := range c.PodsOf(name) {
		c.api.Remove(apiserver.KindPod, c.key(pod.Name))
	}
	c.put(c.all[slices.IndexFunc(c.all, func(d *deployment) bool { return d.name == name })], replicas)
}

func (c *Controller) put(d *deployment, replicas int32) {
	app := map[string]string{"app": d.name}
	c.api.Put(apiserver.KindDeployment, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: d.name},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(replicas), Selector: &metav1.LabelSelector{MatchLabels: app},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: app}, Spec: d.pod},
		},
	})
}

func (c *Controller) key(name string) string { return c.namespace + "/" + name }

func (c *Controller) get(name string) *appsv1.Deployment {
	d, _ := c.api.Get(apiserver.KindDeployment, c.key(name)).(*appsv1.Deployment)
	return d
}

// Replicas returns spec.replicas of a Deployment. exists is false if the Deployment does not exist.
func (c *Controller) Replicas(name string) (replicas int32, exists bool) {
	if d := c.get(name); d != nil {
		return *d.Spec.Replicas, true
	}
	return 0, false
}

// Scale writes spec.replicas of a Deployment, as a client of its scale subresource does. It does nothing if the Deployment does not exist.
func (c *Controller) Scale(name string, replicas int32) {
	if live := c.get(name); live != nil {
		next := live.DeepCopy()
		next.Spec.Replicas = new(replicas)
		c.api.Put(apiserver.KindDeployment, next)
	}
}

// Annotate sets an annotation of a Deployment. An empty value removes the annotation.
func (c *Controller) Annotate(name, key, value string) {
	live := c.get(name)
	if live == nil {
		return
	}
	next := live.DeepCopy()
	if next.Annotations == nil {
		next.Annotations = map[string]string{}
	}
	if value == "" {
		delete(next.Annotations, key)
	} else {
		next.Annotations[key] = value
	}
	c.api.Put(apiserver.KindDeployment, next)
}

// PodsOf returns the pods of a Deployment, oldest first.
func (c *Controller) PodsOf(name string) (all []*corev1.Pod) {
	for _, p := range c.api.Pods() {
		if p.Labels["app"] == name {
			all = append(all, p)
		}
	}
	return all
}

// Run creates and deletes pods to match spec.replicas.
func (c *Controller) Run() {
	for _, d := range c.all {
		pods := c.PodsOf(d.name)
		replicas, _ := c.Replicas(d.name)
		for range int(replicas) - len(pods) {
			d.serial++
			c.api.Put(apiserver.KindPod, &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{
					Namespace: c.namespace, Name: fmt.Sprintf("%s-%04d", d.name, d.serial), Labels: map[string]string{"app": d.name},
					OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: d.name, Controller: new(true)}},
				},
				Spec: d.pod,
			})
		}
		if len(pods) > int(replicas) {
			// The ReplicaSet controller deletes pods in this order: pods without a node, then pods that are not ready, then pods with a
			// lower deletion cost.
			slices.SortStableFunc(pods, func(a, b *corev1.Pod) int {
				return cmp.Or(rank(a)-rank(b), cmp.Compare(deletionCost(a), deletionCost(b)))
			})
			for _, p := range pods[:len(pods)-int(replicas)] {
				c.api.Remove(apiserver.KindPod, c.key(p.Name))
			}
		}
	}
}

func rank(p *corev1.Pod) int {
	switch {
	case p.Spec.NodeName == "":
		return 0
	case !apiserver.Ready(p):
		return 1
	}
	return 2
}

func deletionCost(p *corev1.Pod) int {
	cost, _ := strconv.Atoi(p.Annotations[corev1.PodDeletionCost]) // 0 if the pod does not have the annotation
	return cost
}
