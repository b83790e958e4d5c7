package installation

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/apiservice"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/snapshot"
)

// nameLabel and appName are the key and the value of a label that all pods of a release have.
const nameLabel, appName = "app.kubernetes.io/name", "gpuscaler"

// leasePause is the time between two reads of a Lease.
const leasePause = 500 * time.Millisecond

// After checks an installed release: its Deployment, the permissions of its ServiceAccount, its Lease and its APIService. installed is
// false if the cluster has no release of gpuscaler.
func (c *Cluster) After(ctx context.Context, s *snapshot.Snapshot) (results []Result, installed bool) {
	release, err := c.release(ctx)
	if err != nil {
		return []Result{unread(Deployment, err)}, true
	}
	if release == nil {
		return []Result{Fail(Deployment, "no release of gpuscaler is in namespace "+c.Namespace,
			"install the chart, name another namespace with -n, or check only the cluster with --pre")}, false
	}
	return []Result{c.deployment(ctx, release), c.controller(ctx, release), c.lease(ctx, release), registered(s, release)}, true
}

// release returns the Deployment of gpuscaler, or nil if it does not exist.
func (c *Cluster) release(ctx context.Context) (*appsv1.Deployment, error) {
	list, err := c.Typed.AppsV1().Deployments(c.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list Deployments in %s: %w", c.Namespace, err)
	}
	for i := range list.Items {
		if d := &list.Items[i]; d.Spec.Template.Labels[nameLabel] == appName {
			return d, nil
		}
	}
	return nil, nil
}

func (c *Cluster) deployment(ctx context.Context, d *appsv1.Deployment) Result {
	desired := int32(1)
	if d.Spec.Replicas != nil {
		desired = *d.Spec.Replicas
	}
	s := &d.Status
	switch {
	case desired == 0:
		return Fail(Deployment, fmt.Sprintf("Deployment %s/%s has 0 replicas", d.Namespace, d.Name), "set replicas: 2 in the chart")
	case s.ObservedGeneration < d.Generation:
		return Warn(Deployment, fmt.Sprintf("the last change of Deployment %s/%s is not rolled out yet", d.Namespace, d.Name),
			fmt.Sprintf("wait: kubectl -n %s rollout status deploy/%s", d.Namespace, d.Name))
	case s.AvailableReplicas < desired:
		state := Warning
		if s.AvailableReplicas == 0 {
			state = Failed
		}
		return Bad(Deployment, state, fmt.Sprintf("%d of %d replicas of Deployment %s/%s are available%s", s.AvailableReplicas, desired,
			d.Namespace, d.Name, c.waiting(ctx, d)), fmt.Sprintf("kubectl -n %s describe pods -l %s=%s", d.Namespace, nameLabel, appName))
	}
	return Good(Deployment, "Deployment %s/%s is available with %s", d.Namespace, d.Name, counted(int(desired), "replica"))
}

// waiting returns the reason why a container of the release is not running, or "".
func (c *Cluster) waiting(ctx context.Context, d *appsv1.Deployment) string {
	selector := labels.SelectorFromSet(d.Spec.Selector.MatchLabels).String()
	pods, err := c.Typed.CoreV1().Pods(d.Namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return ""
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		for _, s := range pod.Status.ContainerStatuses {
			if w := s.State.Waiting; w != nil && w.Reason != "ContainerCreating" {
				return fmt.Sprintf("; pod %s: %s", pod.Name, reasonOf(w.Reason, w.Message))
			}
		}
		for _, cond := range pod.Status.Conditions {
			if cond.Type == corev1.PodScheduled && cond.Status == corev1.ConditionFalse {
				return fmt.Sprintf("; pod %s: %s", pod.Name, reasonOf(cond.Reason, cond.Message))
			}
		}
	}
	return ""
}

func reasonOf(reason, message string) string {
	if message = strings.TrimRight(strings.TrimSpace(message), "."); message == "" {
		return reason
	}
	return reason + ": " + message
}

// lease checks that a pod of the release holds the Lease and renews it. The clock of that pod sets the renewal time and can differ from the
// clock of this process. If the Lease seems to have expired, lease therefore waits for a renewal, for up to the duration of the Lease, as a
// standby does.
func (c *Cluster) lease(ctx context.Context, d *appsv1.Deployment) Result {
	name := flagOf(d, "--lease", "gpuscaler")
	found, err := c.readLease(ctx, name)
	if err != nil {
		return leaseError(c.Namespace, name, err)
	}
	if holder(found) == "" {
		return Fail(Lease, fmt.Sprintf("no replica holds the Lease %s/%s", c.Namespace, name),
			"after a rollout, repeat the command some seconds later; otherwise read the logs of the pods")
	}
	if found.Spec.RenewTime == nil || found.Spec.LeaseDurationSeconds == nil {
		return Fail(Lease, fmt.Sprintf("the Lease %s/%s has no renewal time", c.Namespace, name), "read the logs of the pods")
	}
	duration := time.Duration(*found.Spec.LeaseDurationSeconds) * time.Second
	first := found.Spec.RenewTime.Time
	good := Good(Lease, "pod %s holds the Lease %s/%s and renews it", holder(found), c.Namespace, name)
	began := time.Now() // may use the clock: measures how long the Lease was not renewed
	if age := began.Sub(first); age >= 0 && age < duration {
		return good
	}
	for time.Since(began) <= duration { // may use the clock: measures how long the Lease was not renewed
		select {
		case <-ctx.Done():
			return unread(Lease, ctx.Err())
		case <-time.After(leasePause): // may use the clock: paces reads of the Lease
		}
		if found, err = c.readLease(ctx, name); err != nil {
			return leaseError(c.Namespace, name, err)
		}
		if found.Spec.RenewTime != nil && !found.Spec.RenewTime.Time.Equal(first) {
			return Good(Lease, "pod %s holds the Lease %s/%s and renews it", holder(found), c.Namespace, name)
		}
	}
	return Fail(Lease, fmt.Sprintf("pod %s has not renewed the Lease %s/%s since %s", holder(found), c.Namespace, name,
		first.UTC().Format(time.RFC3339)), "no replica leads, and HPAs keep their replicas: read the logs of the pods")
}

func (c *Cluster) readLease(ctx context.Context, name string) (*coordinationv1.Lease, error) {
	return c.Typed.CoordinationV1().Leases(c.Namespace).Get(ctx, name, metav1.GetOptions{})
}

func leaseError(namespace, name string, err error) Result {
	if apierrors.IsNotFound(err) {
		return Fail(Lease, fmt.Sprintf("the Lease %s/%s does not exist: no replica has led yet", namespace, name),
			"a replica leads as soon as its caches are synced: read the logs of the pods")
	}
	return unread(Lease, err)
}

func holder(l *coordinationv1.Lease) string {
	if l.Spec.HolderIdentity == nil {
		return ""
	}
	return *l.Spec.HolderIdentity
}

// registered checks that HPAs can read targets. The APIService of external metrics must refer to the release and be available, or refer to
// KEDA, which reads targets from gpuscaler's external scaler.
func registered(s *snapshot.Snapshot, d *appsv1.Deployment) Result {
	owner, own := s.Owner(), d.Namespace+"/"+flagOf(d, "--service", "gpuscaler")
	off := flagOf(d, "--external-metrics", "auto") == "off"
	switch {
	case s.RegistrationError != nil:
		return unread(APIService, s.RegistrationError)
	case owner == own:
		if state, detail := apiservice.Available(s.Registration); state != "True" {
			return Fail(APIService, fmt.Sprintf("APIService %s refers to %s and is not available (%s)", apiservice.Name, owner,
				strings.TrimSpace(state+" "+detail)), "check that the API server can reach port 6443 of the pods (NetworkPolicy, firewall); "+
				"if it cannot reach pods, set hostNetwork in the chart")
		}
		return Good(APIService, "APIService %s refers to %s and is available", apiservice.Name, owner)
	case strings.Contains(owner, "keda"):
		return Good(APIService, "KEDA has the registration for external metrics, and reads targets from gpuscaler's external scaler")
	case off:
		return Warn(APIService, "the release does not register itself for external metrics (externalMetrics.mode: off)",
			"HPAs cannot read targets; set externalMetrics.mode to auto, or use KEDA")
	case owner == apiservice.NoOwner:
		return Fail(APIService, fmt.Sprintf("APIService %s does not exist", apiservice.Name), "the leader creates it: read its log")
	}
	return Fail(APIService, fmt.Sprintf("APIService %s refers to %s, so HPAs cannot read targets from gpuscaler",
		apiservice.Name, owner), apiservice.NextStep(owner))
}

// flagOf returns the value of a flag of the release's container, or byDefault if the flag is not set.
func flagOf(d *appsv1.Deployment, flag, byDefault string) string {
	value := ""
	for i := range d.Spec.Template.Spec.Containers {
		for _, arg := range d.Spec.Template.Spec.Containers[i].Args {
			if v, is := strings.CutPrefix(arg, flag+"="); is {
				value = v
			}
		}
	}
	return cmp.Or(value, byDefault)
}
