package cache

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/fixture"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/gpupods"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

const storm = "StormService.v1alpha1.orchestration.aibrix.ai replicaLabel=roleset-name " +
	"podsPerReplica=self.spec.template.spec.roles.map(r, r.replicas).sum()"

// stormService returns a StormService (a kind of AIBrix). Each of its replicas has one prefill pod and the given number of decode pods.
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

// story is a cache with a StormService, to which a test adds pods.
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

// pod stores a pod of a replica. gpus is the number of GPUs that the pod requests.
func (s story) pod(i int, state, replica, gpus string) {
	p := fixture.Pod("chat", i, state)
	p.Labels = map[string]string{"app": "chat"}
	if replica != "" {
		p.Labels["roleset-name"] = replica
	}
	p.Spec.Containers = fixture.Deployment("chat", 1, gpus).Spec.Template.Spec.Containers
	s.PutPod(fixture.Must[*Pod](TrimPod(p)))
}

// Each replica of the StormService in this test has one prefill and two decode pods. Neither /scale nor a pod template contains this
// number. Replicas and their GPUs must be counted by group of pods, as for a LeaderWorkerSet.
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
	request(0, 6, false) // the replica lacks a pod, so its GPUs are unknown
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
		labels []string // value of the replica label of each pod
		want   string
	}{
		"as described":           {int64(1), []string{"a", "a", "b", "b"}, ""},
		"a pod names no replica": {int64(1), []string{"a", "a", "b", ""}, "pod chat-3 has no label roleset-name"},
		"twice as many as described": {int64(1), []string{"a", "a", "a", "a", "b", "b", "b", "b"},
			"has 8 pods for 2 replicas, and scaleKinds describes 2"},
		"one pod each":                   {int64(0), []string{"", ""}, ""},
		"the number is a text":           {"two", nil, "invalid element of type string: want numbers from 0 to"},
		"the number is negative":         {int64(-1), nil, "invalid element of type int: want numbers from 0 to"},
		"the number is not whole":        {1.5, nil, "invalid element of type double: want numbers from 0 to"},
		"the number is larger than real": {int64(1 << 40), nil, "want numbers from 0 to"},
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
	if why := s.Refusal(stormWorkload()); !strings.Contains(why, "cannot be computed for the object: no such key: template") {
		t.Errorf("an object without the described field: %q", why)
	}
}

// If the kind has a pod template, the resources of a replica are read from the template, even before a pod exists.
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
	const kind, sizes = "Rollout.v1alpha1.argoproj.io", `self.spec["x y"] + size(self.roles)`
	for text, want := range map[string]ScaleKind{
		kind:                  {},
		kind + " nameLabel=a": {NameLabel: "a"},
		kind + " replicaLabel=a/b podsPerReplica=2":               {ReplicaLabel: "a/b", PodsPerReplica: "2"},
		kind + " nameLabel=a replicaLabel=b podsPerReplica=env:N": {NameLabel: "a", ReplicaLabel: "b", PodsPerReplica: "env:N"},
		kind + " replicaLabel=a podsPerReplica=" + sizes:          {ReplicaLabel: "a", PodsPerReplica: sizes},
	} {
		got, err := ParseScaleKind(text)
		if err != nil || got.String() != "argoproj.io/v1alpha1, Kind=Rollout" ||
			got.NameLabel != want.NameLabel || got.ReplicaLabel != want.ReplicaLabel || got.PodsPerReplica != want.PodsPerReplica {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{
		"":                                       "use Kind.version.group",
		"rollouts":                               "use Kind.version.group",
		kind + " ":                               "",
		kind + " podsPerReplica=2":               "need each other",
		kind + " replicaLabel=a":                 "need each other",
		kind + " size=2":                         "\"size\": use nameLabel=KEY, replicaLabel=KEY and podsPerReplica=VALUE, in this order",
		kind + " replicaLabel= podsPerReplica=2": "replicaLabel \"\" is not the key of a label",
		kind + " nameLabel=a$ podsPerReplica=2":  "nameLabel \"a$\" is not the key of a label",
		kind + " replicaLabel=a podsPerReplica=": "need each other",
		kind + " replicaLabel=a podsPerReplica={.spec.size}":                       "use a number, env:NAME or a CEL expression",
		kind + " replicaLabel=a podsPerReplica=object.spec.size":                   "undeclared reference to 'object'",
		kind + " replicaLabel=a podsPerReplica=self.spec.size == 2":                "returns a bool, want an int",
		kind + " replicaLabel=a podsPerReplica=env:":                               "not the name of an environment variable",
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

// role describes a kind of Kthena whose objects do not contain the number of pods of a replica. The pods have this number in the
// environment variable GROUP_SIZE.
const role = "ModelServingRoleReplica.v1alpha1.workload.serving.volcano.sh " +
	"replicaLabel=modelserving.volcano.sh/role-id podsPerReplica=env:GROUP_SIZE"

// rolePod returns a pod of a replica of the role, with one GPU.
func rolePod(i int, replica, size string, kind ScaleKind) *Pod {
	p := fixture.Pod("chat", i, "ready")
	p.Labels = map[string]string{"app": "chat", "modelserving.volcano.sh/role-id": replica}
	p.Spec.Containers = fixture.Deployment("chat", 1, "1").Spec.Template.Spec.Containers
	if size != "" {
		p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "OTHER", Value: "7"}, {Name: "GROUP_SIZE", Value: size}}
	}
	return fixture.Must[*Pod](WithSizes([]ScaleKind{kind})(p))
}

func TestPodsReportHowManyPodsTheirReplicaHas(t *testing.T) {
	kind, err := ParseScaleKind(role)
	if err != nil {
		t.Fatal(err)
	}
	w := fixture.Workload("chat")
	w.Target = scaling.Target{APIVersion: "workload.serving.volcano.sh/v1alpha1", Kind: "ModelServingRoleReplica", Name: "chat"}
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": w.Target.APIVersion, "kind": w.Target.Kind,
		"metadata": map[string]any{"name": "chat", "namespace": fixture.Namespace}, "spec": map[string]any{"roleName": "decode"}}}
	s := story{New(0), kind}
	s.put(t, u)
	if v, ok := s.View(w); !ok || v.Replicas != 2 || v.Ready != 0 {
		t.Errorf("without pods: %+v, %t", v, ok)
	}
	if _, known, _ := s.Request(w, "nvidia.com/gpu"); known {
		t.Error("without pods, the GPUs of a replica count as known")
	}
	for i, replica := range []string{"a", "a", "a", "b"} {
		s.PutPod(rolePod(i, replica, "3", kind))
	}
	if v, ok := s.View(w); !ok || v.Ready != 1 || v.Loading != 1 || v.GPUs != 3 {
		t.Errorf("%+v, %t; want one ready and one loading replica of 3 GPUs", v, ok)
	}
	for i := range 3 { // a rollout: a replica of the new version has four pods, one of which exists
		s.PutPod(rolePod(i, "a", "3", kind))
	}
	s.PutPod(rolePod(3, "b", "4", kind))
	if v, _ := s.View(w); v.Ready != 1 || v.Loading != 1 || v.GPUs != 3 {
		t.Errorf("during a rollout: %+v; want the old replica to stay ready", v)
	}
	for _, size := range []string{"", "0", "-3", "three"} {
		s.PutPod(rolePod(3, "b", size, kind))
		if why := s.Refusal(w); !strings.Contains(why, "pod chat-3 has no environment variable GROUP_SIZE with a number from 1 to") {
			t.Errorf("size %q: refusal %q", size, why)
		}
	}
	for i := range 3 {
		s.DropPod(fixture.Namespace, fmt.Sprintf("chat-%d", i))
	}
	s.PutPod(rolePod(3, "b", "1", kind))
	if v, ok := s.View(w); !ok || v.Ready != 1 || v.GPUs != 1 {
		t.Errorf("roles without workers: %+v, %t; want one ready replica of one GPU", v, ok)
	}
	if n, known, _ := s.Request(w, "nvidia.com/gpu"); n != 1 || !known {
		t.Errorf("%d GPUs per replica, known %t", n, known)
	}
}

// The selector that Kthena sets in /scale matches one pod of each replica. Grove sets no selector unless its own autoscaling is used. With
// nameLabel, gpuscaler must select all pods.
func TestNameLabelSelectsThePodsOfADescribedKind(t *testing.T) {
	kind, err := ParseScaleKind("StormService.v1alpha1.orchestration.aibrix.ai nameLabel=app")
	if err != nil {
		t.Fatal(err)
	}
	for _, selector := range []string{"", "app=chat,entry=true"} {
		target, err := fixture.Must[*Target](kind.Trim(stormService(int64(1)))).WithScale(&unstructured.Unstructured{Object: map[string]any{
			"spec": map[string]any{"replicas": int64(1)}, "status": map[string]any{"selector": selector}}})
		if err != nil || target.Selector.String() != "app=chat" {
			t.Errorf("%q: %v, %v", selector, target, err)
		}
	}
}

func TestKindsWithoutScaleAreRefusedWithTheNextStep(t *testing.T) {
	for target, want := range map[scaling.Target]string{
		{APIVersion: "ray.io/v1", Kind: "RayCluster", Name: "chat"}: "has no scale subresource, so no HPA can scale it: the autoscaler of Ray",
		{APIVersion: "ray.io/v1", Kind: "RayService", Name: "chat"}: "the autoscaler of Ray (enableInTreeAutoscaling)",
		{APIVersion: "serving.kserve.io/v1alpha2", Kind: "LLMInferenceService", Name: "chat"}: "name the Deployment chat-kserve, or with " +
			"worker pods the LeaderWorkerSet chat-kserve-mn",
		{APIVersion: "serving.kserve.io/v1beta1", Kind: "InferenceService", Name: "chat"}: "name the Deployment chat-predictor",
		{APIVersion: "example.com/v1", Kind: "Fleet", Name: "chat"}:                       "",
	} {
		w := fixture.Workload("chat")
		w.Target = target
		if why := New(0).Refusal(w); (why == "") != (want == "") || !strings.Contains(why, want) {
			t.Errorf("%v: %q, want %q", target, why, want)
		}
	}
}
