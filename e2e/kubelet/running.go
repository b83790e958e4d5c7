package kubelet

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscaler/gpuscaler/e2e/stack"
)

// running is one pod whose first container runs as a process.
type running struct {
	stack           *stack.Stack
	pod             *corev1.Pod // the pod at its creation
	namespace, name string
	address         string
	kubeconfig      Kubeconfig // nil: the kubeconfig of the ServiceAccount

	started *stack.Command     // command of the first start
	ending  chan time.Duration // receives the grace period when the pod is deleted

	mu       sync.Mutex
	process  *stack.Process
	restarts int32
}

func newRunning(s *stack.Stack, pod *corev1.Pod, address string) *running {
	return &running{
		stack: s, pod: pod, namespace: pod.Namespace, name: pod.Name, address: address,
		ending: make(chan time.Duration, 1),
	}
}

func (r *running) alive() *stack.Process {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.process == nil {
		return nil
	}
	if ended, _ := r.process.Exited(); ended {
		return nil
	}
	return r.process
}

// end starts the termination of the pod's process with the given grace period. Only the first call has an effect.
func (r *running) end(grace time.Duration) {
	select {
	case r.ending <- grace:
	default:
	}
}

// run starts the container, restarts it when it ends, and stops it when the pod is deleted.
func (r *running) run(ctx context.Context) {
	for ctx.Err() == nil {
		err := r.start(ctx)
		if err != nil {
			r.say(err)
		} else if r.attend(ctx) {
			r.finish(ctx)
			return
		}
		if err == nil && r.pod.Spec.RestartPolicy == corev1.RestartPolicyNever {
			r.over(ctx)
			return
		}
		r.report(ctx, false)
		select {
		case <-ctx.Done():
		case <-r.ending:
			r.finish(ctx)
			return
		case <-time.After(restartAfter):
			r.restarts++
		}
	}
}

// start starts the container. A restart uses the command and the credentials of the first start. Therefore, as with a real kubelet, it
// does not need the API server.
func (r *running) start(ctx context.Context) error {
	if r.started == nil {
		command, err := r.command(ctx)
		if err != nil {
			return err
		}
		r.started = &command
	}
	process, err := r.stack.Run(*r.started)
	if err != nil {
		return err
	}
	r.mu.Lock()
	r.process = process
	r.mu.Unlock()
	return nil
}

// attend runs the readiness probe of the process repeatedly, until the process ends or the pod is deleted. It returns true if the pod was
// deleted.
func (r *running) attend(ctx context.Context) (deleted bool) {
	probe := r.probe()
	ready, reported := false, false
	for {
		if !reported {
			reported = r.report(ctx, ready) // false if the API server did not accept the status, which is then written again in the next round
		}
		select {
		case <-ctx.Done():
			r.process.Kill()
			return false
		case <-r.process.Done():
			return false
		case grace := <-r.ending:
			r.report(ctx, false) // a terminating pod is not ready, so that it is removed from Services at once
			if err := r.process.Terminate(grace); err != nil {
				r.say(err)
			}
			return true
		case <-time.After(syncEvery):
		}
		if now := probe(ctx); now != ready {
			ready, reported = now, false
		}
	}
}

// probe returns a function that runs the container's HTTP readiness probe once. For a container without such a probe, the function always
// returns true.
func (r *running) probe() func(context.Context) bool {
	container := r.pod.Spec.Containers[0]
	if container.ReadinessProbe == nil || container.ReadinessProbe.HTTPGet == nil {
		return func(context.Context) bool { return true }
	}
	get := container.ReadinessProbe.HTTPGet
	url := fmt.Sprintf("http://%s:%d%s", r.address, portNumber(container, get.Port), get.Path)
	c := &http.Client{Timeout: time.Second}
	return func(ctx context.Context) bool {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return false
		}
		response, err := c.Do(request)
		if err != nil {
			return false
		}
		response.Body.Close()
		return response.StatusCode < http.StatusBadRequest
	}
}

func portNumber(c corev1.Container, port intstr.IntOrString) int32 {
	for _, p := range c.Ports {
		if port.Type == intstr.String && p.Name == port.StrVal {
			return p.ContainerPort
		}
	}
	return port.IntVal
}

// command returns the first container's command and environment, with the ServiceAccount's kubeconfig instead of the mounted token.
func (r *running) command(ctx context.Context) (stack.Command, error) {
	container := r.pod.Spec.Containers[0]
	if len(container.Command) == 0 {
		return stack.Command{}, fmt.Errorf("pod %s/%s has no command to run on this host", r.namespace, r.name)
	}
	kubeconfig, err := r.stack.ServiceAccountKubeconfig(ctx, r.namespace, r.pod.Spec.ServiceAccountName)
	if err != nil {
		return stack.Command{}, err
	}
	if r.kubeconfig != nil {
		if kubeconfig, err = r.kubeconfig(r.name, kubeconfig); err != nil {
			return stack.Command{}, err
		}
	}
	env := []string{"KUBECONFIG=" + kubeconfig}
	var expand []string
	for _, e := range container.Env {
		value := e.Value
		if e.ValueFrom != nil && e.ValueFrom.FieldRef != nil {
			value = r.field(e.ValueFrom.FieldRef.FieldPath)
		}
		env = append(env, e.Name+"="+value)
		expand = append(expand, "$("+e.Name+")", value)
	}
	var words []string
	for _, word := range append(append([]string(nil), container.Command...), container.Args...) {
		words = append(words, strings.NewReplacer(expand...).Replace(word))
	}
	return stack.Command{Name: r.namespace + "-" + r.name, Path: words[0], Args: words[1:], Env: env}, nil
}

func (r *running) field(path string) string {
	switch path {
	case "metadata.name":
		return r.name
	case "metadata.namespace":
		return r.namespace
	case "metadata.uid":
		return string(r.pod.UID)
	case "status.podIP":
		return r.address
	case "spec.nodeName":
		return r.pod.Spec.NodeName
	}
	return ""
}

// over sets the pod's phase to Succeeded or Failed after its process has ended, as for the pod of a Job. Then it waits until the pod is
// deleted, and removes the pod object.
func (r *running) over(ctx context.Context) {
	phase, ended := corev1.PodSucceeded, corev1.ContainerStateTerminated{Reason: "Completed"}
	if _, err := r.process.Exited(); err != nil {
		phase, ended = corev1.PodFailed, corev1.ContainerStateTerminated{Reason: "Error", ExitCode: 1, Message: err.Error()}
	}
	r.patch(ctx, corev1.PodStatus{Phase: phase, ContainerStatuses: []corev1.ContainerStatus{{
		Name: r.pod.Spec.Containers[0].Name, Image: r.pod.Spec.Containers[0].Image, State: corev1.ContainerState{Terminated: &ended},
	}}})
	select {
	case <-ctx.Done():
	case <-r.ending:
		r.finish(ctx)
	}
}

// report writes to the pod's status whether the pod is ready. It returns false if the API server did not accept the status.
func (r *running) report(ctx context.Context, ready bool) bool {
	truth := map[bool]corev1.ConditionStatus{true: corev1.ConditionTrue, false: corev1.ConditionFalse}[ready]
	now := metav1.Now()
	var conditions []corev1.PodCondition
	for _, kind := range []corev1.PodConditionType{corev1.PodInitialized, corev1.PodScheduled} {
		conditions = append(conditions, corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: now})
	}
	for _, kind := range []corev1.PodConditionType{corev1.ContainersReady, corev1.PodReady} {
		conditions = append(conditions, corev1.PodCondition{Type: kind, Status: truth, LastTransitionTime: now})
	}
	return r.patch(ctx, corev1.PodStatus{
		Phase: corev1.PodRunning, Conditions: conditions, StartTime: &r.pod.CreationTimestamp,
		HostIP: "127.0.0.1", HostIPs: []corev1.HostIP{{IP: "127.0.0.1"}},
		PodIP: r.address, PodIPs: []corev1.PodIP{{IP: r.address}},
		ContainerStatuses: []corev1.ContainerStatus{{
			Name: r.pod.Spec.Containers[0].Name, Image: r.pod.Spec.Containers[0].Image,
			Ready: ready, RestartCount: r.restarts,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
		}},
	})
}

func (r *running) patch(ctx context.Context, status corev1.PodStatus) bool {
	patched := r.pod.DeepCopy()
	patched.Status = status
	before := r.pod.DeepCopy()
	before.Status = corev1.PodStatus{} // otherwise the patch omits unchanged conditions
	err := r.stack.Client.Status().Patch(ctx, patched, client.MergeFrom(before))
	err = client.IgnoreNotFound(err)
	if err != nil && ctx.Err() == nil {
		r.say(err)
	}
	return err == nil
}

// finish deletes the pod object with a grace period of 0, as a kubelet does when the containers have ended. Until then, the API server
// keeps the object of a deleted pod.
func (r *running) finish(ctx context.Context) {
	for ctx.Err() == nil {
		err := r.stack.Client.Delete(ctx, r.pod, client.GracePeriodSeconds(0), client.Preconditions{UID: &r.pod.UID})
		if err = client.IgnoreNotFound(err); err == nil || apierrors.IsConflict(err) {
			return // a conflict means that a new pod has this name
		}
		if ctx.Err() == nil {
			r.say(err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(syncEvery):
		}
	}
}

func (r *running) say(err error) {
	fmt.Fprintf(os.Stderr, "kubelet: pod %s/%s: %v\n", r.namespace, r.name, err)
}
