package capacity

import (
	"fmt"
	"maps"
	"testing"

	"github.com/gpuscaler/gpuscaler/pkg/capacity/explain"
)

// For each reason why pods cannot be moved to spot, a finding has the number of these pods on on-demand nodes. Findings include neither
// pods that require on-demand nodes nor pods that can be moved.
func TestUnmovablePodsAreReportedByReason(t *testing.T) {
	theirs := Annotation{Value: "true"}
	for name, c := range map[string]struct {
		pod     Pod
		foreign bool
		want    string
	}{
		"a Deployment's moves":                {Pod{Owner: OwnerReplicaSet}, false, ""},
		"also with do-not-disrupt":            {Pod{Owner: OwnerReplicaSet, DoNotDisrupt: theirs}, false, ""},
		"one that was made for on-demand":     {Pod{Owner: OwnerStatefulSet, Pinned: true}, false, ""},
		"a Job that was made for on-demand":   {Pod{Pinned: true}, true, ""},
		"one with unknown labels":             {Pod{Owner: OwnerReplicaSet, Pinned: true, UnknownLabels: true}, false, "team/a by labels"},
		"a StatefulSet's":                     {Pod{Owner: OwnerStatefulSet}, false, "team/a by owner"},
		"a LeaderWorkerSet's":                 {Pod{Owner: OwnerLeaderWorkerSet}, false, "team/a by owner"},
		"a StatefulSet's with do-not-disrupt": {Pod{Owner: OwnerStatefulSet, DoNotDisrupt: theirs}, false, "team/a by mark"},
		"a StatefulSet's that loads and has ours": {Pod{Owner: OwnerStatefulSet, DoNotDisrupt: Annotation{"30m", true}}, false,
			"team/a by owner"},
		"a bare pod":                          {Pod{}, false, "team/a bare"},
		"of no policy":                        {Pod{Owner: OwnerReplicaSet}, true, " foreign"},
		"of no policy, with unknown labels":   {Pod{Pinned: true, UnknownLabels: true}, true, " foreign"},
		"a bare pod with unknown labels, too": {Pod{Pinned: true, UnknownLabels: true}, false, "team/a by labels"},
	} {
		g, o := pairOf(t, nil)
		var pods []Pod
		for i := range 2 {
			p := c.pod
			p.UID, p.Name, p.GPUs, p.Pool, p.Node, p.Ready = fmt.Sprint(i), fmt.Sprint(i), 1, 1, i, true
			pods = append(pods, p)
			o.Pools[1].Nodes = append(o.Pools[1].Nodes, Node{Name: p.UID, UID: p.UID, Type: OnDemand, Stage: Usable, Ready: true, GPUs: 1,
				Used: 1, Created: midnight})
		}
		if w := (Workload{Key: "team/a", Uncapped: 2, Current: 2, GPUs: 1, Known: true}); c.foreign {
			o.UnmanagedPods = pods
		} else {
			w.Pods = pods
			o.Workloads = []Workload{w}
		}
		words := [explain.NumMoveBlockers]string{"by owner", "bare", "by labels", "by mark", "foreign", "by claims"}
		got, want := map[string]int{}, map[string]int{}
		if c.want != "" {
			want[c.want] = 2
		}
		d, _ := Decide(g, o, State{}, midnight)
		for _, f := range d.Findings {
			if f.Kind == explain.FindUnmovable {
				got[f.Name+" "+words[f.Blocker]] += f.Count
			}
		}
		if !maps.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}
