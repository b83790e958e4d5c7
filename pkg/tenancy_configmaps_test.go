package pkg_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/gpuscaler/gpuscaler/pkg/policy/store"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// teamConfigMaps returns the attacks by a tenant that may create ConfigMaps in its own namespace.
func teamConfigMaps() entrance {
	// applied returns an attempt that applies a ConfigMap and loads the files of the platform team. The result is the names of the accepted
	// policies and the first problem.
	applied := func(o store.ConfigMap, files string) func(*testing.T) string {
		return func(t *testing.T) string {
			return cheaply(t, func() string {
				s := store.New(store.Options{})
				s.LoadFS(fstest.MapFS{"platform.yaml": {Data: []byte(hostilePlatform)}})
				o.Name = "evil"
				s.SetConfigMap(o)
				s.Publish()
				s.LoadFS(fstest.MapFS{"platform.yaml": {Data: []byte(hostilePlatform)}, "files.yaml": {Data: []byte(files)}})
				var names []string
				for _, c := range s.Compiled() {
					names = append(names, c.Workload.Key.String()+" from "+strings.Split(c.Workload.Origin, "@")[0])
				}
				if s.Platform().Mode != scaling.Auto {
					t.Error("the mode of the platform changed")
				}
				problems := s.ConfigMapStatuses()[0].Problems
				if len(problems) == 0 {
					return fmt.Sprintf("accepted; in force: %v", names)
				}
				return fmt.Sprintf("in force: %v; %d problems, the first: %s", names, len(problems), firstLine(problems[0]))
			})
		}
	}
	in := func(namespace, text string) store.ConfigMap {
		return store.ConfigMap{Namespace: namespace, Data: map[string]string{"policies": text}, Bytes: len(text)}
	}
	team := func(text string) store.ConfigMap { return in("team-chat", text) }
	code := strings.NewReplacer("team-chat", "team-code", "llama", "codestral").Replace(tenantPolicy)
	many := strings.Repeat("---\n"+strings.Replace(tenantPolicy, "maxReplicas: 12", "maxReplicas: many", 1), 90)
	const who = "A tenant who may create ConfigMaps in its own namespace, which the PlatformConfig accepts."
	return entrance{"ConfigMaps of teams", who, []attempt{
		{"another tenant's policy by its name", "", "in force: [team-code/codestral from files.yaml]; 1 problems", applied(team(code), code)},
		{"a policy of the namespace kube-system", "", "in force: []; 1 problems",
			applied(team(strings.Replace(tenantPolicy, "namespace: team-chat", "namespace: kube-system", 1)), "")},
		{"a PlatformConfig that holds the whole cluster", "", "a PlatformConfig is not accepted", applied(team(ownPlatform("mode: hold")), "")},
		{"a namespace whose ConfigMaps are not accepted", "", "in force: []", applied(in("team-code", code), "")},
		{"the name of a policy in a file", "", "in force: [team-chat/llama from files.yaml]",
			applied(team(strings.Replace(tenantPolicy, "maxReplicas: 12", "maxReplicas: 24", 1)), tenantPolicy)},
		{"the workload of a policy in a file, by another name", "", "in force: [team-chat/llama from files.yaml]",
			applied(team(strings.Replace(tenantPolicy, "metadata: {name: llama", "metadata: {name: first", 1)), tenantPolicy)},
		{"a ConfigMap of a megabyte", "", "is too large; found 1048576 bytes",
			applied(team(tenantPolicy+strings.Repeat("#", 1<<20-len(tenantPolicy))), "")},
		{"a hundred and one policies", "", "has too many documents; found 101 documents",
			applied(team(strings.Repeat("---\n"+tenantPolicy, 101)), "")},
		{"ninety mistakes, each of which would be an Event", "", "21 problems", applied(team(many), "")},
		{"an alias bomb", "CVE-2019-11253", "in force: []", applied(team(bomb()+tenantPolicy), "")},
	}}
}
