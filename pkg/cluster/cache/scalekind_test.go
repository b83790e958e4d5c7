package cache

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/fixture"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/gpupods"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

const storm = "StormService.v1alpha1.orchestration.aibrix.ai replicaLabel=roleset-name " +
	"podsPerReplica={.spec.template.spec.roles[*].replicas}"

// stormService returns a StormService of AIBrix: a replica has a prefill pod and the given number of decode pods.
func stormService(decode any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "orchestration.aibrix.ai/v1alpha1", "kind": "StormService",
		"metadata": map[string]any{"name": "chat", "namespace": fixture.Namespace},
		"spec": map[string]any{"replicas": int64(2), "template": map[string]any{"spec": map[string]any{"roles": []any{
			map[string]any{"name": "prefill", "replicas": int64(1)}, map[string]any{"name": "decode", "replicas": decode}}}}},
	}}
}

func stormWorkload() *scaling.Workload {
	w := fixture.Workload("chat")
	w.Target = scaling.Target{APIVersion: "orchestration.aibrix.ai/v1alpha1", Kind: "StormService", Name: "chat"}
	return w
}

// story is a cache with a StormService.
type story struct {
	*Cache
	kind ScaleKind
}

func (s story) put(t *testing.T, u *unstructured.Unstructured) {
	t.Helper()
	scale := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"replicas": int64(2)},
		"status": map[string]any{"replicas": int64(2), "selector": "app=chat"}}}
	full, err := fixture.Must[*Target](s.kind.Trim(u)).WithScale(scale)
	if err != nil {
		t.Fatal(err)
	}
	s.PutTarget(full)
}

// pod stores a pod of a replica with some GPUs.
func (s story) pod(i int, state, replica, gpus string) {
	p := fixture.Pod("chat", i, state)
	p.Labels = map[string]string{"app": "chat"}
	if replica != "" {
		p.Labels["roleset-name"] = replica
	}
	p.Spec.Containers = fixture.Deployment("chat", 1, gpus).Spec.Template.Spec.Containers
	s.PutPod(fixture.Must[*Pod](TrimPod(p)))
}

// The StormService of the test has replicas of one prefill and two decode pods. Replicas and their GPUs are counted by group, as for a
// LeaderWorkerSet, although neither /scale nor a pod template reports them.
func TestReplicasOfADescribedKindAreCountedByGroup(t *testing.T) {
	kind, err := ParseScaleKind(storm)
	if err != nil {
		t.Fatal(err)
	}
	s := story{New(0), kind}
	s.put(t, stormService(int64(2)))
	w := stormWorkload()
	request := func(want, pods int64, known bool) {
		t.Helper()
		if n, got, sum := s.Request(w, "nvidia.com/gpu"); n != want || got != known || sum != pods {
			t.Errorf("%d GPUs per replica, known %t, %d in pods; want %d, %t, %d", n, got, sum, want, known, pods)
		}
	}
	request(0, 0, false)
	s.pod(0, "ready", "a", "4")
	s.pod(1, "ready", "a", "2")
	request(0, 6, false) // the replica lacks a pod, so its GPUs are not known
	s.pod(2, "loading", "a", "2")
	s.pod(3, "pending", "b", "4")
	request(8, 12, true)

	v, ok := s.View(w)
	if !ok || v.Replicas != 2 || v.Ready != 0 || v.Loading != 1 || v.Pending != 1 || v.GPUs != 8 {
		t.Errorf("%+v, %t; want one loading and one pending replica with 8 GPUs", v, ok)
	}
	s.pod(2, "ready", "a", "2")
	if v, _ = s.View(w); v.Ready != 1 || v.Pending != 1 {
		t.Errorf("%+v; want one ready and one pending replica", v)
	}
	s.RLock()
	defer s.RUnlock()
	replicas := ""
	for _, p := range s.PodsOf(w) {
		replicas += p.Labels[s.TargetOf(w).ReplicaLabel]
	}
	perReplica, perPod := s.ResourcesOf(w)
	if replicas != "aaab" || gpupods.CountOf(perReplica, "nvidia.com/gpu") != 8 || gpupods.CountOf(perPod, "nvidia.com/gpu") != 4 {
		t.Errorf("pods of replicas %s; %v per replica, %v in the largest pod", replicas, perReplica, perPod)
	}
}

func TestPodsThatDoNotMatchTheDescriptionAreRefused(t *testing.T) {
	kind, err := ParseScaleKind(storm)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		decode any
		labels []string // replica of each pod
		want   string
	}{
		"as described":           {int64(1), []string{"a", "a", "b", "b"}, ""},
		"a pod names no replica": {int64(1), []string{"a", "a", "b", ""}, "pod chat-3 has no label roleset-name"},
		"twice as many as described": {int64(1), []string{"a", "a", "a", "a", "b", "b", "b", "b"},
			"has 8 pods for 2 replicas, and scaleKinds describes 2"},
		"one pod each":                   {int64(0), []string{"", ""}, ""},
		"the number is a text":           {"two", nil, "finds two in the object, want a number from 0 to"},
		"the number is negative":         {int64(-1), nil, "finds -1 in the object"},
		"the number is not whole":        {1.5, nil, "finds 1.5 in the object"},
		"the number is larger than real": {int64(1 << 40), nil, "in the object, want a number from 0 to"},
	} {
		s := story{New(0), kind}
		s.put(t, stormService(c.decode))
		for i, replica := range c.labels {
			s.pod(i, "ready", replica, "1")
		}
		_, ok := s.View(stormWorkload())
		why := s.Refusal(stormWorkload())
		if ok != (c.want == "") || (why == "") != (c.want == "") || !strings.Contains(why, c.want) {
			t.Errorf("%s: view %t, refusal %q, want %q", name, ok, why, c.want)
		}
	}
	s := story{New(0), kind}
	empty := stormService(int64(1))
	delete(empty.Object["spec"].(map[string]any), "template")
	s.put(t, empty)
	if why := s.Refusal(stormWorkload()); !strings.Contains(why, "finds 0 pods in the object, want 1 to") {
		t.Errorf("an object without the described field: %q", why)
	}
}

// With a pod template, the resources of a replica are those of the template, also before a pod exists.
func TestDescribedKindWithAPodTemplate(t *testing.T) {
	kind, err := ParseScaleKind("Rollout.v1alpha1.argoproj.io replicaLabel=example.com/replica podsPerReplica=4")
	if err != nil {
		t.Fatal(err)
	}
	target := fixture.Must[*Target](kind.Trim(fixture.Rollout(3)))
	if target.Size != 4 || target.GPUs != 8 || gpupods.CountOf(target.Extended, "nvidia.com/gpu") != 8 ||
		gpupods.CountOf(target.PerPod, "nvidia.com/gpu") != 2 {
		t.Errorf("%+v, want 4 pods of 2 GPUs", target)
	}
}

func TestScaleKindIsParsedOrRefusedWithTheReason(t *testing.T) {
	rollout := schema.GroupVersionKind{Group: "argoproj.io", Version: "v1alpha1", Kind: "Rollout"}
	for text, want := range map[string]ScaleKind{
		"Rollout.v1alpha1.argoproj.io":                                   {GroupVersionKind: rollout},
		"Rollout.v1alpha1.argoproj.io replicaLabel=a/b podsPerReplica=2": {rollout, "2", "a/b"},
		`Rollout.v1alpha1.argoproj.io replicaLabel=a podsPerReplica={.spec.roles[?(@.name == "x y")].n}`: {rollout,
			`{.spec.roles[?(@.name == "x y")].n}`, "a"},
	} {
		if got, err := ParseScaleKind(text); err != nil || got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	const kind = "Rollout.v1alpha1.argoproj.io"
	for text, want := range map[string]string{
		"":                         "use Kind.version.group",
		"rollouts":                 "use Kind.version.group",
		kind + " ":                 "",
		kind + " podsPerReplica=2": "in this order",
		kind + " replicaLabel=a":   "in this order",
		kind + " podsPerReplica=2 replicaLabel=a":                                  "in this order",
		kind + " replicaLabel= podsPerReplica=2":                                   "is not the key of a label",
		kind + " replicaLabel=a b podsPerReplica=2":                                "is not the key of a label",
		kind + " replicaLabel=a podsPerReplica=":                                   "use a number or a JSONPath",
		kind + " replicaLabel=a podsPerReplica=.spec.size":                         "use a number or a JSONPath",
		kind + " replicaLabel=a podsPerReplica={.spec[}":                           "podsPerReplica \"{.spec[}\": ",
		kind + " replicaLabel=a podsPerReplica=0":                                  "use a number from 1 to",
		kind + " replicaLabel=a podsPerReplica=-3":                                 "use a number from 1 to",
		kind + fmt.Sprintf(" replicaLabel=a podsPerReplica=%d", gpupods.MaxGPUs+1): "use a number from 1 to",
	} {
		_, err := ParseScaleKind(text)
		if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
