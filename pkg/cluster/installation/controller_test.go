package installation

import (
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clientgotesting "k8s.io/client-go/testing"
	"sigs.k8s.io/yaml"
)

// chart is a rendered chart: the Deployment of the controller, and the rules of its roles by namespace. The key of ClusterRoles is "".
type chart struct {
	release *appsv1.Deployment
	rules   map[string][]rbacv1.PolicyRule
}

// documentsOf matches the separator lines between the documents of a rendered chart.
var documentsOf = regexp.MustCompile(`(?m)^(# ---- .*|---)$`)

func renderedChart(t *testing.T, mode string) (c chart) {
	t.Helper()
	text, err := os.ReadFile("../../../e2e/chart/testdata/" + mode + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	c.rules = map[string][]rbacv1.PolicyRule{}
	for _, document := range documentsOf.Split(string(text), -1)[2:] { // skip the notes of the chart
		var kind metav1.TypeMeta
		err := yaml.Unmarshal([]byte(document), &kind)
		switch role := (rbacv1.Role{}); {
		case err != nil:
		case kind.Kind == "Deployment":
			c.release = &appsv1.Deployment{}
			err = yaml.Unmarshal([]byte(document), c.release)
		case kind.Kind == "Role" || kind.Kind == "ClusterRole":
			err = yaml.Unmarshal([]byte(document), &role)
			if role.Name == "gpuscaler:gpuscaler" || role.Namespace != "" {
				c.rules[role.Namespace] = append(c.rules[role.Namespace], role.Rules...)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// allows reports whether the rules grant a permission. It evaluates the rules as the API server does.
func (c *chart) allows(a *authorizationv1.ResourceAttributes) bool {
	resource := a.Resource
	if a.Subresource != "" {
		resource += "/" + a.Subresource
	}
	rules := slices.Clone(c.rules[""])
	if a.Namespace != "" {
		rules = append(rules, c.rules[a.Namespace]...)
	}
	return slices.ContainsFunc(rules, func(r rbacv1.PolicyRule) bool {
		return slices.Contains(r.APIGroups, a.Group) && slices.Contains(r.Resources, resource) && slices.Contains(r.Verbs, a.Verb) &&
			(len(r.ResourceNames) == 0 || slices.Contains(r.ResourceNames, a.Name))
	})
}

// withReviews returns a Cluster with Karpenter and KEDA. The function answer computes the result of each SubjectAccessReview.
func withReviews(release *appsv1.Deployment, answer func(*authorizationv1.SubjectAccessReviewSpec) (bool, error)) *Cluster {
	typed := fake.NewClientset()
	for _, groupVersion := range []string{"karpenter.sh/v1", "keda.sh/v1alpha1", "leaderworkerset.x-k8s.io/v1"} {
		typed.Resources = append(typed.Resources, &metav1.APIResourceList{GroupVersion: groupVersion})
	}
	typed.PrependReactor("create", "subjectaccessreviews", func(a clientgotesting.Action) (bool, runtime.Object, error) {
		review := a.(clientgotesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview).DeepCopy()
		allowed, err := answer(&review.Spec)
		review.Status.Allowed = allowed
		return true, review, err
	})
	return &Cluster{Typed: typed, Namespace: release.Namespace}
}

// In each mode of the chart, its roles must grant every permission that the check requires for the flags of that mode.
func TestTheRolesOfTheChartSufficeForTheController(t *testing.T) {
	for _, mode := range []string{"hpa", "keda", "karpenter", "all", "everything"} {
		t.Run(mode, func(t *testing.T) {
			c := renderedChart(t, mode)
			account := "system:serviceaccount:" + c.release.Namespace + ":" + c.release.Spec.Template.Spec.ServiceAccountName
			cluster := withReviews(c.release, func(s *authorizationv1.SubjectAccessReviewSpec) (bool, error) {
				if s.User != account || !slices.Contains(s.Groups, "system:serviceaccounts:"+c.release.Namespace) {
					t.Fatalf("the check asks for user %s in %v", s.User, s.Groups)
				}
				return c.allows(s.ResourceAttributes), nil
			})
			r := cluster.controller(t.Context(), c.release)
			overrides := strings.Contains(r.Found, "override NodePools")
			if want := mode != "hpa" && mode != "keda"; r.Status != OK || overrides != want {
				t.Errorf("%+v; NodePools: want %t", r, want)
			}
		})
	}
}

// A verb was removed from a role after the installation. The check must fail because the controller lacks a permission, although the user
// of the command has all permissions.
func TestAMissingPermissionOfTheControllerIsAFailure(t *testing.T) {
	c := renderedChart(t, "karpenter")
	cluster := withReviews(c.release, func(s *authorizationv1.SubjectAccessReviewSpec) (bool, error) {
		a := s.ResourceAttributes
		return c.allows(a) && (a.Resource != "nodepools" || a.Verb != "patch") && (a.Resource != "leases" || a.Verb != "update"), nil
	})
	r := cluster.controller(t.Context(), c.release)
	for _, part := range []string{"is not allowed to lead (missing: update leases.coordination.k8s.io gpuscaler in ",
		"override NodePools (missing: patch nodepools.karpenter.sh)", "--as=system:serviceaccount:" + c.release.Namespace + ":gpuscaler"} {
		if r.Status != Failed || !strings.Contains(r.Found+r.Next, part) {
			t.Errorf("%+v does not contain %q", r, part)
		}
	}
}

// Most users may not create SubjectAccessReviews. The result must say that the controller's permissions were not checked.
func TestAUserThatMayNotAskForTheControllerGetsTheCommand(t *testing.T) {
	c := renderedChart(t, "hpa")
	forbidden := apierrors.NewForbidden(schema.GroupResource{Group: "authorization.k8s.io", Resource: "subjectaccessreviews"}, "", nil)
	for err, part := range map[error]string{
		forbidden:             "are not checked, because this user is not allowed to create subjectaccessreviews",
		errors.New("timeout"): "timeout",
	} {
		cluster := withReviews(c.release, func(*authorizationv1.SubjectAccessReviewSpec) (bool, error) { return false, err })
		if r := cluster.controller(t.Context(), c.release); r.Status != Warning || !strings.Contains(r.Found, part) {
			t.Errorf("%v: %+v", err, r)
		}
	}
}
