package store_test

import (
	"strings"
	"testing"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/store"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// The backlog of a ClusterQueue includes the workloads of all teams that use the queue. If the PlatformConfig has teams, a policy may read
// a ClusterQueue only while the team of its namespace lists the queue.
func TestAClusterQueueIsReadOnlyByTeamsThatListIt(t *testing.T) {
	platform := func(teams string) string {
		return "apiVersion: gpuscaler.io/v1alpha1\nkind: PlatformConfig\nmetadata: {name: prod}\nspec:\n" +
			"  dataSources: [{name: prom, type: prometheus, address: \"https://prom\"}]\n" + teams
	}
	reads := func(namespace string) string {
		return "apiVersion: gpuscaler.io/v1alpha1\nkind: ScalingPolicy\nmetadata: {name: batch, namespace: " + namespace + "}\n" +
			"spec: {scaleTargetRef: {name: batch}, maxReplicas: 9, signals: [{name: jobs, type: kueue, clusterQueue: gpus, target: 4}]}\n"
	}
	key := func(namespace string) scaling.Key { return scaling.Key{Namespace: namespace, Name: "batch"} }
	const (
		listed = "  teams: [{name: a, namespaces: [team-a], clusterQueues: [gpus]}, {name: b, namespaces: [team-b]}]\n"
		moved  = "  teams: [{name: a, namespaces: [team-a]}, {name: b, namespaces: [team-b], clusterQueues: [gpus, cpus]}]\n"
	)
	x := tree{t, t.TempDir(), store.New(store.Options{})}
	load := func() []policy.Problem { return x.store.Load(x.dir).Problems }
	x.write("a.yaml", reads("team-a"))
	x.write("b.yaml", reads("team-b"))
	x.write("c.yaml", reads("no-team"))
	x.write("platform.yaml", platform(""))
	if problems := load(); len(problems) > 0 {
		t.Fatalf("without teams: %s", policy.Render(problems))
	}

	x.store = store.New(store.Options{})
	x.write("platform.yaml", platform(listed))
	problems := load()
	if x.store.Find(key("team-a")) == nil || x.store.Find(key("team-b")) != nil || x.store.Find(key("no-team")) != nil ||
		policy.Errors(problems) != 2 {
		t.Errorf("in force for team-a only? %s", policy.Render(problems))
	}
	for _, p := range problems {
		if p.Field != "spec.signals[0].clusterQueue" || p.Line != 4 || p.Found != `"gpus"` ||
			!strings.Contains(p.Allowed, "none for this namespace") {
			t.Errorf("%+v", p)
		}
	}

	// The PlatformConfig now lists the queue only for team b. The last valid version of team-a's policy still applies, but must no longer read
	// the queue.
	x.write("platform.yaml", platform(moved))
	load()
	if c := x.store.Find(key("team-a")); c == nil || !strings.Contains(c.Sources[0].Denied, "ClusterQueue gpus") {
		t.Errorf("team-a still reads it: %+v", c)
	}
	if c := x.store.Find(key("team-b")); c == nil || c.Sources[0].Denied != "" {
		t.Errorf("team-b: %+v", c)
	}
}
