package policies

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/gpupods"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/snapshot"
	"github.com/gpuscaler/gpuscaler/pkg/lint"
	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/store"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// podTemplates contains what each pod template requests, by the kind, namespace and name of its workload.
type podTemplates map[templateKey]podTemplate

type podTemplate struct {
	extended []gpupods.Amount
	claims   bool // the template claims devices by dynamic resource allocation
}

type templateKey struct{ kind, namespace, name string }

// add adds the pod template of an object, if it has one.
func (p podTemplates) add(u *unstructured.Unstructured) {
	template, found, err := unstructured.NestedMap(u.Object, "spec", "template", "spec")
	if err != nil || !found {
		return
	}
	pod := &corev1.PodSpec{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(template, pod); err == nil {
		p[templateKey{u.GetKind(), u.GetNamespace(), u.GetName()}] = podTemplate{gpupods.ExtendedResources(pod), len(gpupods.ClaimRefs(pod)) > 0}
	}
}

func (p podTemplates) of(w *scaling.Workload) (t podTemplate, known bool) {
	t, known = p[templateKey{w.Target.Kind, w.Key.Namespace, w.Target.Name}]
	return t, known
}

// request returns how much of a resource one replica of a workload requests. known is false if its pod template was not read, or if the
// template claims devices, because these may count as the resource.
func (p podTemplates) request(w *scaling.Workload, resource string) (n int64, known bool) {
	t, known := p.of(w)
	return gpupods.CountOf(t.extended, resource), known && !t.claims
}

// claims reports whether the pods of a workload claim devices, as far as is known.
func (p podTemplates) claims(w *scaling.Workload) bool {
	t, _ := p.of(w)
	return t.claims
}

// partitions returns the partitions and shares of GPUs that the pods of a workload request, and the one that its capacity group counts.
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

// readTemplates reads the pod templates of the workloads that have a capacity group, or that belong to a team and have minReplicas above 0.
// It skips those that cannot be read.
func readTemplates(ctx context.Context, objects dynamic.Interface, policies *store.Store) podTemplates {
	templates := podTemplates{}
	for _, c := range policies.Compiled() {
		w := &c.Workload
		resource, readable := scaledResources[w.Target.Kind]
		inTeam := w.Policy.Team != nil && w.Policy.MinReplicas > 0
		if !readable || !inTeam && w.Group == "" {
			continue
		}
		if u, err := objects.Resource(resource).Namespace(w.Key.Namespace).Get(ctx, w.Target.Name, metav1.GetOptions{}); err == nil {
			templates.add(u)
		}
	}
	return templates
}

// teams adds the findings about the limits of teams and about claims of devices.
func (l *linted) teams(policies *store.Store, templates podTemplates) {
	l.Findings = append(l.Findings, lint.TeamLimits(policies.Compiled(), policies.Platform(), templates.request)...)
	l.Findings = append(l.Findings, lint.IgnoredClaims(policies.Compiled(), templates.claims)...)
}

// partitions adds the findings about partitions of GPUs that Karpenter does not offer.
func (l *linted) partitions(s *snapshot.Snapshot, policies *store.Store, templates podTemplates) {
	of := func(w *scaling.Workload) []string { return templates.partitions(w, policies.Platform()) }
	l.Findings = append(l.Findings, lint.UnofferedResources(policies.Compiled(), of, s.Offers)...)
}
