package line

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gpuscaler/gpuscaler/e2e/chart"
	"github.com/gpuscaler/gpuscaler/e2e/controller"
)

const account = "system:serviceaccount:" + controller.Namespace + ":" + controller.Name

const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: Metadata, users: ["` + account + `"]}
- {level: None}
`

// auditLog is what the API server writes down of each request that gpuscaler
// makes in this package's tests.
type auditLog struct{ dir string }

func newAudit() auditLog {
	dir, err := os.MkdirTemp("", "gpuscaler-audit-")
	if err != nil {
		panic(err)
	}
	return auditLog{dir}
}

func (a auditLog) close() { os.RemoveAll(a.dir) }

func (a auditLog) path() string { return filepath.Join(a.dir, "audit.log") }

func (a auditLog) flags() []string {
	policy := filepath.Join(a.dir, "policy.yaml")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		panic(err)
	}
	return []string{"--audit-policy-file=" + policy, "--audit-log-path=" + a.path(), "--audit-log-mode=blocking"}
}

// request is the part of an audit event that counts here.
type request struct {
	Verb       string
	RequestURI string
	ObjectRef  *struct {
		APIGroup, Resource, Subresource string
	}
	Annotations map[string]string
}

// right is one permission.
type right struct{ group, resource, verb string }

func (r right) String() string { return strings.TrimSuffix(r.verb+" "+r.resource+"."+r.group, ".") }

// judge fails if anything was forbidden, and tells which of the granted rights
// no test needed.
func (a auditLog) judge() error {
	used, forbidden, err := a.read()
	if err != nil {
		return err
	}
	if len(used) == 0 {
		return errors.New("audit: the API server wrote down no request of " + account)
	}
	granted, err := rights()
	if err != nil {
		return err
	}
	var unused []string
	for _, r := range granted {
		if !used[r] {
			unused = append(unused, r.String())
		}
	}
	slices.Sort(unused)
	fmt.Printf("audit: %d rights of %s used, none was missing: %t; granted and not used by these tests: %s\n",
		len(used), account, len(forbidden) == 0, strings.Join(slices.Compact(unused), ", "))
	if len(forbidden) > 0 {
		slices.Sort(forbidden)
		return fmt.Errorf("audit: the shipped roles do not allow: %s", strings.Join(slices.Compact(forbidden), ", "))
	}
	return nil
}

func (a auditLog) read() (used map[right]bool, forbidden []string, err error) {
	f, err := os.Open(a.path())
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	used = map[right]bool{}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r request
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, nil, fmt.Errorf("audit: %w", err)
		}
		if r.Annotations["authorization.k8s.io/decision"] == "forbid" {
			forbidden = append(forbidden, r.Verb+" "+r.RequestURI)
		}
		if r.ObjectRef != nil {
			resource := strings.TrimSuffix(r.ObjectRef.Resource+"/"+r.ObjectRef.Subresource, "/")
			used[right{r.ObjectRef.APIGroup, resource, r.Verb}] = true
		}
	}
	return used, forbidden, lines.Err()
}

// rights are those of the shipped roles.
func rights() (all []right, err error) {
	objects, err := chart.Render(chart.Release{Name: controller.Name, Namespace: controller.Namespace}, "rbac.yaml")
	if err != nil {
		return nil, err
	}
	for _, o := range objects {
		var role rbacv1.ClusterRole // a Role has the same rules
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &role); err != nil {
			return nil, err
		}
		for _, rule := range role.Rules {
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					for _, verb := range rule.Verbs {
						all = append(all, right{group, resource, verb})
					}
				}
			}
		}
	}
	return all, nil
}
