package policies

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/dynamic"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/explain"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/gpupods"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/snapshot"
	"github.com/gpuscaler/gpuscaler/pkg/lint"
	"github.com/gpuscaler/gpuscaler/pkg/lint/objects"
	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/store"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// podTemplates contains what each pod template requests, by the kind, namespace and name of its workload.
type podTemplates map[templateKey]podTemplate

type podTemplate struct {
	extended []gpupods.Amount
	claims   bool                       // the template claims devices by dynamic resource allocation
	strategy *appsv1.DeploymentStrategy // nil if the object is no Deployment
	pod      *corev1.PodSpec
}

type templateKey struct{ kind, namespace, name string }

// add adds the pod template of an object, if it has one.
func (p podTemplates) add(u *unstructured.Unstructured) {
	template, found, err := unstructured.NestedMap(u.Object, "spec", "template", "spec")
	if err != nil || !found {
		return
	}
	pod := &corev1.PodSpec{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(template, pod); err != nil {
		return
	}
	t := podTemplate{extended: gpupods.ExtendedResources(pod), claims: len(gpupods.ClaimRefs(pod)) > 0, pod: pod}
	d := &appsv1.Deployment{}
	if u.GetKind() == "Deployment" && runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, d) == nil {
		t.strategy = &d.Spec.Strategy
	}
	p[templateKey{u.GetKind(), u.GetNamespace(), u.GetName()}] = t
}

// defaultGrace is the terminationGracePeriodSeconds that the API server sets if the pod template does not contain it.
const defaultGrace = corev1.DefaultTerminationGracePeriodSeconds * time.Second

// subjects returns a subject for each policy, with the termination grace period of its pods if their template was read.
func (p podTemplates) subjects(policies *store.Store) []lint.Subject {
	out := lint.Policies(policies.Compiled(), policies.Platform())
	for i, c := range policies.Compiled() {
		t, read := p.of(&c.Workload)
		if !read {
			continue
		}
		grace := defaultGrace
		if s := t.pod.TerminationGracePeriodSeconds; s != nil {
			grace = time.Duration(*s) * time.Second
		}
		out[i].Ending.Grace = &grace
	}
	return out
}

// unchecked adds a fact with the workloads whose grace period cannot be compared with the durations of their requests.
func (l *linted) unchecked(of []lint.Subject) {
	const shown = 3
	names := lint.Unchecked(of)
	if len(names) == 0 {
		return
	}
	text := fmt.Sprintf("not checked for %d workloads, because their pod templates were not read: %s", len(names),
		strings.Join(names[:min(len(names), shown)], ", "))
	if len(names) > shown {
		text += ", ..."
	}
	l.fact("Grace periods", text+"; give lint the permission to list these kinds, or pass the manifests with --objects")
}

func (p podTemplates) of(w *scaling.Workload) (t podTemplate, known bool) {
	t, known = p[templateKey{w.Target.Kind, w.Key.Namespace, w.Target.Name}]
	return t, known
}

// request returns how much of a resource one replica of a workload requests. known is false if the workload's pod template was not read. It
// is also false if the template claims devices by dynamic resource allocation, because a claimed device may be the resource.
func (p podTemplates) request(w *scaling.Workload, resource string) (n int64, known bool) {
	t, known := p.of(w)
	return gpupods.CountOf(t.extended, resource), known && !t.claims
}

// claims reports whether the pods of a workload claim devices. It returns false if the pod template was not read.
func (p podTemplates) claims(w *scaling.Workload) bool {
	t, _ := p.of(w)
	return t.claims
}

// rollout returns how a Deployment replaces its pods. known is false for the strategy Recreate and for other kinds of workloads, because
// they remove a pod before they create its replacement. The API server sets defaults for missing fields. rollout uses the same defaults,
// because objects in files can lack these fields.
func (p podTemplates) rollout(w *scaling.Workload, replicas int32) (r lint.Rollout, known bool) {
	t, _ := p.of(w)
	if t.strategy == nil || t.strategy.Type == appsv1.RecreateDeploymentStrategyType {
		return r, false
	}
	quarter := intstr.FromString("25%")
	surge, unavailable := &quarter, &quarter
	if u := t.strategy.RollingUpdate; u != nil {
		surge, unavailable = cmp.Or(u.MaxSurge, surge), cmp.Or(u.MaxUnavailable, unavailable)
	}
	up, err := intstr.GetScaledValueFromIntOrPercent(surge, int(replicas), true)
	down, err2 := intstr.GetScaledValueFromIntOrPercent(unavailable, int(replicas), false)
	if up == 0 && down == 0 {
		down = 1 // the Deployment controller also replaces one pod at a time if both values are 0
	}
	return lint.Rollout{Surge: int32(up), Unavailable: int32(down)}, err == nil && err2 == nil
}

// partitions returns the names of the resources of a workload that are partitions or shares of GPUs, for example MIG profiles. The
// resources of a workload are the resources that its pods request, and the resource of its capacity group.
func (p podTemplates) partitions(w *scaling.Workload, platform *policy.Platform) (out []string) {
	t, _ := p.of(w)
	names := make([]string, 0, len(t.extended)+1)
	for _, a := range t.extended {
		names = append(names, a.Resource)
	}
	if g := platform.Group(w.Group); g != nil {
		names = append(names, g.Resource)
	}
	for _, name := range names {
		if gpupods.IsPartition(corev1.ResourceName(name)) && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// scaledResources are the kinds of workloads whose pod templates lint can read from a cluster.
var scaledResources = map[string]schema.GroupVersionResource{
	"Deployment":  {Group: "apps", Version: "v1", Resource: "deployments"},
	"StatefulSet": {Group: "apps", Version: "v1", Resource: "statefulsets"},
}

// readTemplates reads the pod templates of the workloads of all policies. It skips the templates that cannot be read.
func readTemplates(ctx context.Context, objects dynamic.Interface, policies *store.Store) podTemplates {
	templates := podTemplates{}
	for _, c := range policies.Compiled() {
		w := &c.Workload
		resource, readable := scaledResources[w.Target.Kind]
		if !readable {
			continue
		}
		// A list with one name needs only permissions that gpuscaler's own role has: the test of the chart uses this role.
		found, err := objects.Resource(resource).Namespace(w.Key.Namespace).List(ctx, metav1.ListOptions{
			FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, w.Target.Name).String()})
		if err != nil {
			continue
		}
		for i := range found.Items {
			templates.add(&found.Items[i])
		}
	}
	return templates
}

// teams adds the findings about the limits of teams and about claims of devices.
func (l *linted) teams(policies *store.Store, templates podTemplates) {
	l.Findings = append(l.Findings, lint.TeamLimits(policies.Compiled(), policies.Platform(), templates.request)...)
	l.Findings = append(l.Findings, lint.IgnoredClaims(policies.Compiled(), templates.claims)...)
}

// nodeFacts returns the facts about the nodes of capacity groups with a nodeSelector.
func nodeFacts(s *snapshot.Snapshot, policies *store.Store, templates podTemplates) lint.NodeFacts {
	groups := policies.Groups()
	compiled := func(g *policy.Group) *capacity.Group {
		return groups[slices.IndexFunc(groups, func(c *capacity.Group) bool { return c.Name == g.Name })]
	}
	return lint.NodeFacts{
		Requests: templates.request,
		Nodes:    func(g *policy.Group) (objects.GroupNodes, bool) { return s.GroupNodes(compiled(g), groups) },
		Placement: func(w *scaling.Workload, g *policy.Group) (objects.Placement, bool) {
			t, known := templates.of(w)
			if !known {
				return objects.Placement{}, false
			}
			return s.Placement(t.pod, compiled(g), groups)
		},
		Selector: func(g *policy.Group) string { return compiled(g).Selector() },
		Raise:    func(g *policy.Group, nodes int64) string { return explain.RaiseMaximum(compiled(g).Selector(), nodes) },
	}
}

// nodes adds findings about requests that the nodes cannot satisfy: partitions of GPUs, GPUs for minReplicas, and GPUs for the additional
// pods of a rollout.
func (l *linted) nodes(s *snapshot.Snapshot, policies *store.Store, templates podTemplates) {
	of := func(w *scaling.Workload) []string { return templates.partitions(w, policies.Platform()) }
	l.Findings = append(l.Findings, lint.UnofferedResources(policies.Compiled(), policies.Platform(), of, s.Offers)...)
	l.Findings = append(l.Findings, lint.NodeGroups(policies.Compiled(), policies.Platform(), nodeFacts(s, policies, templates))...)
	l.Findings = append(l.Findings, lint.Rollouts(policies.Compiled(), policies.Platform(), lint.Fleet{
		Requests: templates.request, Rollout: templates.rollout,
		Room: func(g *policy.Group) (int64, bool) {
			return s.Room(slices.Concat(slices.Collect(maps.Values(g.NodePools))...), g.Resource)
		},
	})...)
}
