package installation

import (
	"context"
	"fmt"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// task is a task that the guides describe, such as installing the chart, with the permissions that it requires.
type task struct {
	name  string
	needs []permission
	group string // API group that the task uses; empty: the task uses only groups that every cluster has
}

// permission is one permission. namespace is a name, ownNamespace, userNamespace, or empty for all namespaces. If name is set, the
// permission applies to only one object.
type permission struct{ verb, group, resource, namespace, name string }

// Placeholders for the namespace of a permission. They are replaced by the namespaces in the Cluster.
const (
	ownNamespace  = "gpuscaler's"
	userNamespace = "the user's"
)

// tasks are all tasks that the guides describe. The page config/guides/security.md lists their permissions.
var tasks = []task{
	{"install the chart", []permission{
		{"create", "", "secrets", ownNamespace, ""}, {"create", "", "configmaps", ownNamespace, ""},
		{"create", "apps", "deployments", ownNamespace, ""},
		{"create", "rbac.authorization.k8s.io", "clusterroles", "", ""}, {"create", "rbac.authorization.k8s.io", "clusterrolebindings", "", ""},
		{"create", "admissionregistration.k8s.io", "validatingadmissionpolicies", "", ""},
	}, ""},
	{"use `gpuscaler page`", []permission{{"list", "", "pods", ownNamespace, ""}, {"create", "", "pods/portforward", ownNamespace, ""}}, ""},
	{"create HPAs", []permission{{"create", "autoscaling", "horizontalpodautoscalers", userNamespace, ""}}, ""},
	{"use KEDA", []permission{{"create", kedaGroup, "scaledobjects", userNamespace, ""}, {"get", "", "secrets", ownNamespace, ""},
		{"create", kedaGroup, "clustertriggerauthentications", "", ""}}, kedaGroup},
	{"let gpuscaler override NodePools", []permission{{"patch", "karpenter.sh", "nodepools", "", ""}}, "karpenter.sh"},
}

// PermissionsNext is the next step for a user without a permission.
const PermissionsNext = "ask an administrator of the cluster for the permissions of the tasks that you do"

// permissions reports the tasks that the user is not allowed to do. A missing permission is only a warning, because not every user does all
// tasks. served contains the API groups of the cluster. Tasks for other groups are skipped.
func (c *Cluster) permissions(ctx context.Context, served map[string][]string) Result {
	allowed, problems, err := c.mayDo(ctx, tasks, served, c.userMay)
	switch {
	case err != nil:
		return unread(Permissions, fmt.Errorf("ask for the permissions of this user: %w", err))
	case len(problems) > 0:
		return Warn(Permissions, "this user is not allowed to "+strings.Join(problems, "; "), PermissionsNext)
	}
	return Good(Permissions, "this user may %s", strings.Join(allowed, ", "))
}

// mayDo returns the tasks for which the user has all permissions (allowed), and a text about each other task with its missing permissions
// (problems). It skips tasks whose API group the API server does not serve.
func (c *Cluster) mayDo(ctx context.Context, tasks []task, served map[string][]string,
	ask func(context.Context, *authorizationv1.ResourceAttributes) (bool, error)) (allowed, problems []string, err error) {
	for _, t := range tasks {
		if t.group != "" && len(served[t.group]) == 0 {
			continue
		}
		var missing []string
		for _, p := range t.needs {
			p.namespace = strings.NewReplacer(ownNamespace, c.Namespace, userNamespace, c.UserNamespace).Replace(p.namespace)
			ok, err := ask(ctx, p.attributes())
			if err != nil {
				return nil, nil, err
			}
			if !ok {
				missing = append(missing, p.String())
			}
		}
		if len(missing) > 0 {
			problems = append(problems, fmt.Sprintf("%s (missing: %s)", t.name, strings.Join(missing, ", ")))
		} else {
			allowed = append(allowed, t.name)
		}
	}
	return allowed, problems, nil
}

func (p permission) String() string {
	text := p.verb + " " + p.resource
	if p.group != "" {
		text += "." + p.group
	}
	if p.name != "" {
		text += " " + p.name
	}
	if p.namespace != "" {
		text += " in " + p.namespace
	}
	return text
}

func (p permission) attributes() *authorizationv1.ResourceAttributes {
	resource, subresource, _ := strings.Cut(p.resource, "/")
	return &authorizationv1.ResourceAttributes{
		Verb: p.verb, Group: p.group, Resource: resource, Subresource: subresource, Namespace: p.namespace, Name: p.name,
	}
}

// userMay reports whether the user of the command has a permission.
func (c *Cluster) userMay(ctx context.Context, about *authorizationv1.ResourceAttributes) (bool, error) {
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: about}}
	answer, err := c.Typed.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return false, err
	}
	return answer.Status.Allowed, nil
}
