package main

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/gpupods"
	"github.com/gpuscaler/gpuscaler/pkg/lint"
	"github.com/gpuscaler/gpuscaler/pkg/policy/store"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// podTemplates contains the extended resources that each pod template requests, by the kind, namespace and name of its workload.
type podTemplates map[templateKey][]gpupods.Amount

type templateKey struct{ kind, namespace, name string }

// add adds the pod template of an object, if it has one.
func (p podTemplates) add(u *unstructured.Unstructured) {
	template, found, err := unstructured.NestedMap(u.Object, "spec", "template", "spec")
	if err != nil || !found {
		return
	}
	pod := &corev1.PodSpec{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(template, pod); err == nil {
		p[templateKey{u.GetKind(), u.GetNamespace(), u.GetName()}] = gpupods.ExtendedResources(pod)
	}
}

// request returns how much of a resource one replica of a workload requests; known is false if its pod template was not read.
func (p podTemplates) request(w *scaling.Workload, resource string) (n int64, known bool) {
	amounts, known := p[templateKey{w.Target.Kind, w.Key.Namespace, w.Target.Name}]
	return gpupods.CountOf(amounts, resource), known
}

// scaledResources are the kinds of workloads whose pod templates lint can read from a cluster.
var scaledResources = map[string]schema.GroupVersionResource{
	"Deployment":  {Group: "apps", Version: "v1", Resource: "deployments"},
	"StatefulSet": {Group: "apps", Version: "v1", Resource: "statefulsets"},
}

// readTemplates reads the pod templates of the workloads that belong to a team and have minReplicas above 0. It skips those that cannot be
// read.
func readTemplates(ctx context.Context, objects dynamic.Interface, policies *store.Store) podTemplates {
	templates := podTemplates{}
	for _, c := range policies.Compiled() {
		w := &c.Workload
		resource, readable := scaledResources[w.Target.Kind]
		if !readable || w.Policy.Team == nil || w.Policy.MinReplicas == 0 {
			continue
		}
		if u, err := objects.Resource(resource).Namespace(w.Key.Namespace).Get(ctx, w.Target.Name, metav1.GetOptions{}); err == nil {
			templates.add(u)
		}
	}
	return templates
}

// teams adds the findings about the limits of teams.
func (l *linted) teams(policies *store.Store, templates podTemplates) {
	l.Findings = append(l.Findings, lint.TeamLimits(policies.Compiled(), policies.Platform(), templates.request)...)
}
