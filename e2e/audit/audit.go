// Package audit records gpuscaler's requests with the API server's audit log, so that a test run shows whether the roles of the chart allow
// every request, and which permissions of the roles no test used.
package audit

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gpuscaler/gpuscaler/e2e/chart"
)

// Log is an audit log of the API server that contains only the requests of one user.
type Log struct{ dir, user string }

const policy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: Metadata, users: [%q]}
- {level: None}
`

// New creates the directory and the audit policy for the log of a user's requests.
func New(user string) (Log, error) {
	dir, err := os.MkdirTemp("", "gpuscaler-audit-")
	if err != nil {
		return Log{}, err
	}
	l := Log{dir, user}
	return l, os.WriteFile(filepath.Join(dir, "policy.yaml"), fmt.Appendf(nil, policy, user), 0o600)
}

// Close removes the log.
func (l Log) Close() { os.RemoveAll(l.dir) }

func (l Log) path() string { return filepath.Join(l.dir, "audit.log") }

// Flags returns the flags with which the API server writes the log.
func (l Log) Flags() []string {
	return []string{"--audit-policy-file=" + filepath.Join(l.dir, "policy.yaml"), "--audit-log-path=" + l.path(), "--audit-log-mode=blocking"}
}

// request contains the fields of an audit event that this package uses.
type request struct {
	Verb       string
	RequestURI string
	ObjectRef  *struct {
		APIGroup, Resource, Subresource string
	}
	ResponseStatus struct{ Code int }
	Annotations    map[string]string
}

// right is one permission: a verb on a resource of an API group.
type right struct{ group, resource, verb string }

func (r right) String() string { return strings.TrimSuffix(r.verb+" "+r.resource+"."+r.group, ".") }

// Judge returns an error if the API server rejected a request because of a missing permission. It also prints the permissions of the
// release that no test used.
func (l Log) Judge(release chart.Release) error {
	used, forbidden, err := l.read()
	if err != nil {
		return err
	}
	if len(used) == 0 {
		return fmt.Errorf("audit: the API server recorded no request of %s", l.user)
	}
	if err := share(used); err != nil {
		return err
	}
	granted, err := rights(release)
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
	fmt.Printf("audit: %s used %d permissions; granted but not used by these tests: %s\n",
		l.user, len(used), strings.Join(slices.Compact(unused), ", "))
	if len(forbidden) > 0 {
		slices.Sort(forbidden)
		return fmt.Errorf("audit: the shipped roles do not allow: %s", strings.Join(slices.Compact(forbidden), ", "))
	}
	return nil
}

func (l Log) read() (used map[right]bool, forbidden []string, err error) {
	f, err := os.Open(l.path())
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
			if r.Verb == "patch" && r.ResponseStatus.Code == http.StatusCreated { // a server-side apply that created the object
				used[right{r.ObjectRef.APIGroup, resource, "create"}] = true
			}
		}
	}
	return used, forbidden, lines.Err()
}

// Requests returns the number of requests in the log, by verb and resource, for example "update leases". A watch with which an informer
// also reads the existing objects has the verb "list by watch".
func (l Log) Requests() (map[string]int, error) {
	f, err := os.Open(l.path())
	if err != nil {
		return nil, err
	}
	defer f.Close()
	counts := map[string]int{}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r request
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("audit: %w", err)
		}
		if r.ObjectRef != nil {
			if r.Verb == "watch" && strings.Contains(r.RequestURI, "sendInitialEvents=true") {
				r.Verb = "list by watch"
			}
			counts[r.Verb+" "+strings.TrimSuffix(r.ObjectRef.Resource+"/"+r.ObjectRef.Subresource, "/")]++
		}
	}
	return counts, lines.Err()
}

// rights returns the permissions that a release's roles grant.
func rights(release chart.Release) (all []right, err error) {
	objects, err := chart.Render(release, "rbac.yaml")
	if err != nil {
		return nil, err
	}
	for _, o := range objects {
		var role rbacv1.ClusterRole // also used for a Role, which has the same fields
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
