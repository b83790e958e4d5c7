package installation

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/apiservice"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/karpenter"
)

// controller reports the permissions that the flags of the release require and its ServiceAccount lacks. This check requires permission to
// create SubjectAccessReviews. For a user without this permission, the result is a warning with the command for an administrator.
func (c *Cluster) controller(ctx context.Context, d *appsv1.Deployment) Result {
	account := cmp.Or(d.Spec.Template.Spec.ServiceAccountName, "default")
	user := fmt.Sprintf("system:serviceaccount:%s:%s", d.Namespace, account)
	about := fmt.Sprintf("ServiceAccount %s/%s", d.Namespace, account)
	served, err := c.groups()
	if err != nil {
		return unread(Controller, err)
	}
	allowed, problems, err := c.mayDo(ctx, controllerTasks(d), served, c.accountMay(user, d.Namespace))
	switch {
	case apierrors.IsForbidden(err):
		return Warn(Controller, fmt.Sprintf("the permissions of the controller (%s) are not checked, because this user is not allowed to create "+
			"subjectaccessreviews.authorization.k8s.io: the line about permissions above is only about this user", about),
			"let an administrator repeat `gpuscaler check`, or print them with kubectl auth can-i --list --as="+user)
	case err != nil:
		return unread(Controller, fmt.Errorf("ask for the permissions of %s: %w", about, err))
	case len(problems) > 0:
		return Fail(Controller, fmt.Sprintf("the controller (%s) is not allowed to %s", about, strings.Join(problems, "; ")),
			"upgrade the release with the chart, whose roles grant these permissions; then: kubectl auth can-i VERB RESOURCE --as="+user)
	}
	return Good(Controller, "the controller (%s) may %s", about, strings.Join(allowed, ", "))
}

// accountMay returns a function that reports whether a ServiceAccount has a permission.
func (c *Cluster) accountMay(user, namespace string) func(context.Context, *authorizationv1.ResourceAttributes) (bool, error) {
	groups := []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"}
	return func(ctx context.Context, about *authorizationv1.ResourceAttributes) (bool, error) {
		review := &authorizationv1.SubjectAccessReview{
			Spec: authorizationv1.SubjectAccessReviewSpec{User: user, Groups: groups, ResourceAttributes: about},
		}
		answer, err := c.Typed.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		if err != nil {
			return false, err
		}
		return answer.Status.Allowed, nil
	}
}

// controllerTasks returns the tasks of a release's controller, with the permissions that the roles of the chart grant for each task. The
// flags of the release determine the tasks.
func controllerTasks(d *appsv1.Deployment) []task {
	lease := flagOf(d, "--lease", "gpuscaler")
	tasks := []task{
		{"lead", []permission{
			{"create", "coordination.k8s.io", "leases", ownNamespace, ""},
			{"get", "coordination.k8s.io", "leases", ownNamespace, lease}, {"update", "coordination.k8s.io", "leases", ownNamespace, lease},
			{"get", "", "pods", ownNamespace, ""}, {"patch", "", "pods", ownNamespace, ""},
		}, ""},
		{"read workloads", watches("", "pods", "apps", "deployments", "apps", "statefulsets", "autoscaling", "horizontalpodautoscalers"), ""},
		{"read ScaledObjects", watches(kedaGroup, "scaledobjects"), kedaGroup},
		{"read LeaderWorkerSets", watches("leaderworkerset.x-k8s.io", "leaderworkersets"), "leaderworkerset.x-k8s.io"},
		{"send Events", []permission{{"create", "events.k8s.io", "events", "", ""}}, ""},
		{"authenticate callers", []permission{{"create", "authentication.k8s.io", "tokenreviews", "", ""},
			{"create", "authorization.k8s.io", "subjectaccessreviews", "", ""}}, ""},
	}
	if flagOf(d, "--external-metrics", "auto") != "off" {
		const group = "apiregistration.k8s.io"
		tasks = append(tasks, task{"register itself for external metrics", []permission{{"list", group, "apiservices", "", apiservice.Name},
			{"create", group, "apiservices", "", apiservice.Name}, {"patch", group, "apiservices", "", apiservice.Name}}, ""})
	}
	if flagOf(d, "--capacity", "true") == "true" {
		tasks = append(tasks, task{"read Nodes and annotate pods", append(watches("", "nodes"), permission{"patch", "", "pods", "", ""}), ""})
	}
	if readsNodePools(d) {
		group, resource := karpenter.NodePools.Group, karpenter.NodePools.Resource
		tasks = append(tasks, task{"override NodePools", append(watches(group, resource, group, "nodeclaims"),
			permission{"patch", group, resource, "", ""}), group})
	}
	for _, n := range namesIn(flagOf(d, "--activate-namespaces", "")) {
		tasks = append(tasks, task{"scale from and to zero in " + n, []permission{{"get", "apps", "deployments/scale", n, ""},
			{"update", "apps", "deployments/scale", n, ""}, {"update", "apps", "statefulsets/scale", n, ""}}, ""})
	}
	for _, n := range namesIn(flagOf(d, "--configmap-namespaces", "")) {
		tasks = append(tasks, task{"read policies in " + n,
			[]permission{{"list", "", "configmaps", n, ""}, {"watch", "", "configmaps", n, ""}}, ""})
	}
	for _, n := range namesIn(flagOf(d, "--policy-status-namespaces", "")) {
		tasks = append(tasks, task{"write the status of policies in " + n,
			[]permission{{"patch", "autoscaling", "horizontalpodautoscalers", n, ""}}, ""})
	}
	return tasks
}

// readsNodePools reports whether the release reads and overrides NodePools, according to its flags.
func readsNodePools(d *appsv1.Deployment) bool {
	return flagOf(d, "--capacity", "true") == "true" && flagOf(d, "--nodepools", "true") == "true"
}

// watches returns the permissions to list and watch resources in all namespaces. Its arguments are alternately an API group and a resource.
func watches(pairs ...string) (all []permission) {
	for i := 0; i+1 < len(pairs); i += 2 {
		all = append(all, permission{"list", pairs[i], pairs[i+1], "", ""}, permission{"watch", pairs[i], pairs[i+1], "", ""})
	}
	return all
}

// namesIn returns the names in a comma-separated list.
func namesIn(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
}
